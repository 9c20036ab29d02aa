// A folder, contexts and a small convolution for tests of caches and bundles through the C ABI; with NVRTC.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "tests/support/abi.h"
#include "tests/support/contents.h"
#include "tests/support/expect.h"

namespace minuet::abi {

inline constexpr const char* kArch = "sm_90a";

class Caches : public testing::Test {
 protected:
  void SetUp() override {
    auto info = std::make_unique<minuet_system_info>();
    info->struct_size = sizeof(*info);
    check(minuet_query_system(info.get()));
    ASSERT_THAT(info->missing, testing::Not(testing::HasSubstr("minuet-compile")));
    if (info->nvrtc[0] == '\0') {
      MINUET_SKIP_OR_FAIL("nvrtc", std::string("NVRTC is not installed: ") + info->missing);
    }
    make_folder();
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  void make_folder() {
    std::string pattern = testing::TempDir() + "minuet-caches-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  /// A context of its own folder; null: no folder.
  Handle<minuet_context> context(const char* cache,
                                 const std::function<void(minuet_context_options&)>& change = {}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    const std::string directory = cache ? path(cache) : "";
    options.cache_directory = cache ? directory.c_str() : nullptr;
    options.disable_disk_cache = cache == nullptr;
    if (change) change(options);
    minuet_context* made = nullptr;
    check(minuet_context_create(&options, &made));
    return {made, {minuet_context_destroy}};
  }

  Plan convolution(minuet_context* context) {
    const std::vector<float> weight(4 * 4 * 3, 1.0f);
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
    options.ndim = 1;
    options.dtype = MINUET_F16;
    options.in_channels = options.out_channels = 4;
    options.kernel_size[0] = 3;
    options.submanifold = 1;
    options.weight = weight.data();
    options.weight_count = static_cast<int64_t>(weight.size());
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(context, &options, &made));
    return {made, {minuet_plan_destroy}};
  }

  /// Every kernel of the convolution, as a process without JIT writes them down.
  std::string record() {
    const std::string list = path("requests.jsonl");
    const auto strict = context(nullptr, [&](minuet_context_options& options) {
      options.jit = MINUET_JIT_OFF;
      options.record_path = list.c_str();
    });
    EXPECT_EQ(minuet_plan_compile(convolution(strict.get()).get(), kArch, nullptr, nullptr),
              MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), testing::HasSubstr("minuet precompile --from"));
    return list;
  }

  /// Those of a recorded list that need no CUB, so that they compile in no time.
  std::string record_few() {
    std::istringstream all(contents(record()));
    std::ofstream few(path("few.jsonl"));
    for (std::string line; std::getline(all, line);) {
      for (const char* kernel : {"gather", "scatter", "pack", "unpack"}) {
        if (line.find("\"name\":\"" + std::string(kernel) + "-") != std::string::npos) few << line << "\n";
      }
    }
    return path("few.jsonl");
  }

  struct Told {
    int64_t steps = 0, failed = 0;
    std::vector<std::string> paths, digests, errors;
  };

  minuet_status precompile(minuet_context* context, const std::string& list, const std::string& output,
                           std::vector<const char*> archs, minuet_precompile_result& result, Told& told) {
    minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
    options.requests_path = list.c_str();
    options.archs = archs.data();
    options.arch_count = static_cast<int32_t>(archs.size());
    options.output_directory = output.c_str();
    options.jobs = 2;
    options.user = &told;
    options.step = [](const minuet_precompile_step* step, void* user) {
      Told& told = *static_cast<Told*>(user);
      EXPECT_EQ(step->done, ++told.steps);
      sigset_t blocked;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
      EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0) << "signals are as in this thread";
      EXPECT_NE(step->kernel == nullptr, step->error == nullptr);
      if (step->error) told.errors.push_back(step->error);
    };
    options.bundle = [](const minuet_bundle_info* bundle, void* user) {
      static_cast<Told*>(user)->paths.push_back(bundle->path);
      static_cast<Told*>(user)->digests.push_back(bundle->sha256);
    };
    result = {};
    result.struct_size = sizeof(result);
    return minuet_precompile(context, &options, &result);
  }

  minuet_kernel_counters counters(minuet_context* context) {
    minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
    check(minuet_context_kernel_counters(context, &counters));
    return counters;
  }

  std::string folder_;
};

}  // namespace minuet::abi
