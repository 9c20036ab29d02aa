// Bundles of kernels that nobody compiled: whatever a small convolution asks for is recorded, and given a
// cubin that is none but looks like one. Shows what is taken from where, with neither NVRTC nor a GPU.
#pragma once

#include "codegen/bundle/bundle_writer.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"
#include "tests/codegen/fakes.h"
#include "tests/runtime/abi/caches_fixture.h"

namespace minuet::abi {

class Planted : public Caches {
 protected:
  void SetUp() override { make_folder(); }

  /// No compiler, and nothing of the environment's.
  static void strictly(minuet_context_options& options) {
    options.jit = MINUET_JIT_OFF;
    options.nvrtc_path = "/nowhere/libnvrtc.so.13";
    options.bundle_path = options.record_path = "";
  }

  /// All that the convolution needs, as compiled by `compiler`; how many kernels that are.
  int64_t plant(const std::string& bundle, const std::string& compiler) {
    const std::string list = path("requests.jsonl");
    const auto strict = context(nullptr, [&](minuet_context_options& options) {
      strictly(options);
      options.record_path = list.c_str();
    });
    EXPECT_EQ(compile(strict.get()), MINUET_FAILED_PRECONDITION);
    return plant_recorded(list, bundle, compiler);
  }
  int64_t plant_recorded(const std::string& list, const std::string& bundle, const std::string& compiler) {
    FakeCompiler fake;
    fake.id_ = compiler;
    std::vector<Entry> entries;
    for (const RecordedRequest& line : llvm::cantFail(read_requests(contents(list)))) {
      const KernelRequest& request = line.request;
      Entry entry;
      entry.request_key = line.recorded_key;
      entry.build_key = build_key(entry.request_key, compiler);
      entry.name_expression = request.source.name_expression;
      entry.binary = llvm::cantFail(fake.compile(request, {}));
      entries.push_back(std::move(entry));
    }
    llvm::cantFail(write_bundle(bundle, kArch, entries));
    std::filesystem::remove(list);
    EXPECT_GT(entries.size(), 5u);
    return static_cast<int64_t>(entries.size());
  }

  minuet_status compile(minuet_context* context) {
    return minuet_plan_compile(convolution(context).get(), kArch, nullptr, nullptr);
  }
};

}  // namespace minuet::abi
