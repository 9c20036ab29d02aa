// Branches of a call: work beside the other work of the call, on a stream of the engine's own.
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"
#include "tests/support/software_cuda/control.h"

namespace minuet {
namespace {

class BranchesTest : public GpuTest {
 protected:
  static constexpr i64 kWords = 1 << 16, kBytes = 4 * kWords;
  enum Part : i64 { kBefore, kBranch, kBeside, kBehind, kParts };

  void make_engine() {
    memory_.emplace(device(), kParts * kBytes);
    gpu().load_map(3);
    const EngineChoice choice{3, choose_map(KeyType::U32, 3), choose_map(KeyType::U64, 3)};
    engine_ = take(device().create_engine(choice, nullptr));
  }
  u32* at(Part part) { return memory_->as<u32>() + part * kWords; }
  /// Copies in a branch what was written before, and writes other memory beside the branch.
  void enqueue(u32 word) {
    take(engine_->fill_words(at(kBefore), word, kWords));
    take(engine_->begin_branch());
    take(engine_->copy(at(kBranch), at(kBefore), kBytes));
    engine_->end_branch();
    take(engine_->fill_words(at(kBeside), word + 1, kWords));
  }
  void read_branch() { take(engine_->copy(at(kBehind), at(kBranch), kBytes)); }
  /// Runs `work` with words that memory does not hold yet, on the software device in many orders.
  void run(const std::function<void(u32)>& work) {
    const auto software = software_cuda::Control::find();
    for (u32 word = 10; word < (software ? 60u : 20u); word += 10) {
      if (software) software->seed(word);
      take(device().clear(memory_->as(), memory_->bytes()));
      work(word);
      take(device().synchronize(nullptr));
      const std::vector<u32> words = memory_->read<u32>();
      for (const Part part : {kBefore, kBranch, kBeside, kBehind}) {
        const auto first = words.begin() + part * kWords;
        EXPECT_EQ(std::count(first, first + kWords, part == kBeside ? word + 1 : word), kWords) << part;
      }
    }
  }

  std::unique_ptr<Engine> engine_;
  std::optional<TestBuffer> memory_;
};

TEST_F(BranchesTest, WhatFollowsAJoinSeesTheBranch) {
  make_engine();
  run([&](u32 word) {
    take(engine_->begin(nullptr));
    enqueue(word);
    take(engine_->join_branch());
    read_branch();
    take(engine_->end());
  });
}

/// A call that failed may have left a branch.
TEST_F(BranchesTest, TheEndOfACallJoinsItsBranches) {
  make_engine();
  run([&](u32 word) {
    take(engine_->begin(nullptr));
    enqueue(word);
    take(engine_->begin_branch());
    take(engine_->end());
    take(engine_->begin(nullptr));
    read_branch();
    take(engine_->end());
  });
}

}  // namespace
}  // namespace minuet
