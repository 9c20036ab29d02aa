// Which edits of the library orphan tuning results, and which do not.
#include "codegen/tuning/tuned_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <random>
#include <set>

#include "codegen/base/sha256.h"
#include "codegen/source/embedded_headers.h"
#include "tests/codegen/choose/examples.h"

namespace minuet {
namespace {

using Operations = std::set<Operation>;

/// Those whose results an edit orphans.
Operations differing(const KernelsDigests& before, const KernelsDigests& after) {
  Operations operations;
  for (const auto& [operation, digest] : before) {
    if (after.at(operation) != digest) operations.insert(operation);
  }
  return operations;
}

/// A dataflow is chosen among all kernels that run a layer.
Operations orphans_of(Operation operation) {
  for (const Operation apart :
       {Operation::Search, Operation::Dataflow, Operation::WeightGradient, Operation::InputGradient}) {
    if (operation == apart) return {operation};
  }
  return {operation, Operation::Dataflow};
}

/// An edit that orphans results is seen here. Where that is meant, the new digest goes here too. An edit of a
/// comment in a kernel's header changes the kernel's own key, and not this.
TEST(TunedKernels, R33_GoldenDigests) {
  const KernelsDigests golden{
      {Operation::Search, "d803d20c784795caa8418805086bd18aef3cca2ef64b1ebd5983f8c06919406a"},
      {Operation::Gather, "efac3f96370c917c0caa68dc61fe43e58577fcb05e01c34439e189c161697dba"},
      {Operation::Scatter, "1f9c92b11684c32d0125dbb9ede00cd812218dcc8445554a110efa867cb794ae"},
      {Operation::Grouping, "aaa915b9547a15bee5f7df2bb76994381d35a56dbab54e071ef24f4ecf0ef1fe"},
      {Operation::Fused, "f867dc4c7d89fc32fb70007fa8bbcdb404b98ec0fa0508c08fd61c09ba4f86b1"},
      {Operation::Dataflow, "009de577d1bc5c706df6089ee2735242f808fe1badf7158b6a8da76695361c00"},
      {Operation::Gemm, "d5f876f459dd5bb164ea9dad206fe888f72760fb047b24f160e84f3861fb145a"},
      {Operation::Order, "7f8cb78b8939e42ebdfd6bcb3c21dcdf34e9229ada5d1f8fdcd8042afcfd01bf"},
      {Operation::WeightGradient, "11d8fd5f1c1eb1c17ee5a3744f8273d0b2efbdc5e42c954d772235a2fd0eb71d"},
      {Operation::InputGradient, "5cc24b610e5bb3157c4c89b471a4e0ac51bfa7e2c50aae517c8fb1f1095e97af"},
  };
  for (const auto& [operation, digest] : kernels_digests(tuned_families(), tuned_examples())) {
    EXPECT_EQ(digest, golden.at(operation)) << operation_name(operation);
  }
}

TEST(TunedKernels, R33_AChangeOfWhatThereIsToChooseAmongOrphansThoseThatChoose) {
  const std::vector<TunedFamily> families = tuned_families();
  // A task of each operation with some of its candidates shows the same as all of them, in a tenth of the
  // time.
  std::vector<TuningTask> tasks;
  Operations seen;
  for (TuningTask& task : tuned_examples()) {
    if (!seen.insert(task.bucket.operation).second) continue;
    ASSERT_GT(task.candidates.size(), 0u) << operation_name(task.bucket.operation);
    task.candidates.resize(std::min<std::size_t>(3, task.candidates.size()));
    tasks.push_back(std::move(task));
  }
  const KernelsDigests before = kernels_digests(families, tasks);
  const auto expect_orphans = [&](Operation operation, const std::vector<TunedFamily>& some,
                                  const std::vector<TuningTask>& others) {
    EXPECT_EQ(differing(before, kernels_digests(some, others)), orphans_of(operation))
        << operation_name(operation);
  };
  for (std::size_t i = 0; i < families.size(); ++i) {
    const Operation operation = families[i].operation;
    std::vector<TunedFamily> changed = families;
    ++changed[i].version;
    expect_orphans(operation, changed, tasks);
    changed = families;
    changed[i].spec += " .another_field = 1";
    expect_orphans(operation, changed, tasks);
    changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(i));
    expect_orphans(operation, changed, tasks);
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Operation operation = tasks[i].bucket.operation;
    std::vector<TuningTask> changed = tasks;
    changed[i].default_config["another_field"] = 1;
    expect_orphans(operation, families, changed);
    changed = tasks;
    changed[i].candidates.pop_back();
    expect_orphans(operation, families, changed);
    changed[i].candidates.push_back({{"another_field", 1}});
    expect_orphans(operation, families, changed);
  }
}

TEST(TunedKernels, R33_AFamilyOfANewOperationOrphansNone) {
  const Operation another = static_cast<Operation>(100);
  std::vector<TunedFamily> families = tuned_families();
  std::vector<TuningTask> tasks = tuned_examples();
  const KernelsDigests before = kernels_digests(families, tasks);
  families.insert(families.begin(), {"another", another, 1, ""});
  tasks.insert(tasks.begin(), {TuningBucket{another}, {}, {}});
  EXPECT_EQ(differing(before, kernels_digests(families, tasks)), Operations());
}

/// The text without comments and white space. No header has a string with a comment's marks.
std::string code_of(llvm::StringRef text) {
  std::string code;
  while (!text.empty()) {
    if (text.take_front(2) == "//") {
      text = text.split('\n').second;
    } else if (text.take_front(2) == "/*") {
      text = text.drop_front(2).split("*/").second;
    } else {
      if (!std::isspace(static_cast<unsigned char>(text.front()))) code.push_back(text.front());
      text = text.drop_front(1);
    }
  }
  return code;
}

/// A digest of these headers of kernels_templates and of those that they include.
std::string digest_of_code(const std::vector<std::string>& headers) {
  std::string text;
  for (const std::string& header : headers) text += "#include \"kernels_templates/" + header + "\"\n";
  FieldHasher hasher;
  for (const Header& header : llvm::cantFail(headers_for(text))) {
    if (header.name.take_front(18) == "kernels_templates/") hasher.add(header.name, code_of(header.text));
  }
  return hasher.hex().substr(0, 16);
}

TEST(TunedKernels, R33_AnEditOfAKernelIsJudged) {
  struct Pinned {
    std::vector<std::string> headers;
    const char* digest;
  };
  const std::map<std::string, Pinned> pinned{
      {"gather", {{"gmas/gather.h"}, "4017737b65e5c9ae"}},
      {"scatter", {{"gmas/scatter.h"}, "9c498d12ad58336a"}},
      {"fused_convolution", {{"fused/fused_convolution.h"}, "0dda3b2899333cac"}},
      {"find_query_borders", {{"map/find_query_borders.h"}, "742428c8aa780d0b"}},
      {"search_kernel_map", {{"map/search_kernel_map.h"}, "75ae65ef2035f392"}},
      {"weight_gradient", {{"gradient/weight_gradient.h"}, "5b0cb2a5fb0aef1e"}},
      {"weight_gradient_warpgroups", {{"gradient/weight_gradient_warpgroups.h"}, "ce16f49c12f1bfab"}},
      {"order_rows",
       {{"map/rank_masks.h", "map/order_rows.h", "map/order_voxels.h", "map/order_blocks.h"},
        "4d034db8f0813a79"}},
  };
  for (const TunedFamily& family : tuned_families()) {
    const auto found = pinned.find(family.name);
    if (found == pinned.end()) {
      EXPECT_EQ(family.spec, "") << family.name << " has a kernel: pin its headers here";
      continue;
    }
    EXPECT_EQ(digest_of_code(found->second.headers), found->second.digest)
        << "The code of the kernels of '" << family.name << "' has changed. If the edit may change which of "
        << "them is fastest, raise the family's version in codegen/tuning/tuned_kernels.cc, which orphans "
           "its "
        << "tuning results. Then, or if it does not, renew the digest in this table.";
  }
}

TEST(TunedKernels, R33_AnEditOfACommentIsNoEditOfACode) {
  EXPECT_EQ(code_of("int a;  // one\n/* two\n*/ int  b;"), code_of("int a;\nint b; // three"));
  EXPECT_NE(code_of("int a;"), code_of("int b;"));
  for (const char* const open : {"//", "/*"}) EXPECT_EQ(code_of(std::string("a") + open), "a");
}

/// Another heuristic of the fused kernel gives another digest where it changes what some layer runs: every
/// value that it chooses for layers of any size is in the examples. Stages and blocks follow from the others,
/// and steps and columns from the channels.
TEST(TunedKernels, R33_TheExamplesHaveEveryValueOfTheFusedHeuristic) {
  std::map<std::string, std::set<i64>> values_of[2];  // of floating numbers, and of integers
  for (const TuningTask& task : tuned_examples()) {
    if (task.bucket.operation != Operation::Fused) continue;
    for (const auto& [name, value] : task.default_config)
      values_of[is_integer(task.bucket.dtype) ? 1 : 0][name].insert(value);
  }
  std::mt19937 random(7);
  const auto draw = [&](i32 least, i32 most) {
    return least + static_cast<i32>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int round = 0; round < 20000; ++round) {
    ConvolutionProblem problem =
        example_problem(16 * draw(1, 16), 16 * draw(1, 16), draw(0, 1) == 0 ? DType::F16 : DType::F32);
    problem.residual = draw(0, 1) == 1;
    const bool has_integers = draw(0, 2) == 0;
    if (has_integers) problem.input_type = problem.output_type = DType::U8;
    std::map<std::string, std::set<i64>>& values = values_of[has_integers ? 1 : 0];
    const TuningConfig config =
        config_of(choose_fused(problem, draw(0, 1) == 0 ? "sm_80" : "sm_90a", 1 << draw(6, 20)).fused);
    for (const char* const name :
         {"weights", "unit", "warps", "row_tiles", "split", "cluster", "prefetch", "early_loads"}) {
      EXPECT_EQ(values[name].count(config.at(name)), 1u) << name << " " << config.at(name);
      values[name].insert(config.at(name));  // once is enough
    }
  }
}

TEST(TunedKernels, R33_TheExamplesUseEveryOperation) {
  std::set<Operation> operations;
  for (const TuningTask& task : tuned_examples()) operations.insert(task.bucket.operation);
  EXPECT_EQ(operations.size(), 10u);
}

TEST(TunedKernels, R33_EntriesOfThisBuild) {
  for (const auto& [operation, digest] : kernels_digests(tuned_families(), tuned_examples())) {
    TuningEntry entry;
    entry.bucket.operation = operation;
    EXPECT_FALSE(is_of_this_build(entry));
    entry = with_kernels_of_this_build(entry);
    EXPECT_TRUE(is_of_this_build(entry));
    EXPECT_EQ(entry.kernels, digest);
  }
}

}  // namespace
}  // namespace minuet
