// Compiling ahead, in the background and not at all, through the C ABI: with NVRTC, without a GPU.
#include <atomic>
#include <set>
#include <thread>

#include "codegen/bundle/bundle.h"
#include "codegen/tuning/search_space.h"
#include "minuet/tuning.h"
#include "tests/codegen/cache/store_fakes.h"
#include "tests/codegen/choose/examples.h"
#include "tests/runtime/abi/caches_fixture.h"
#include "tests/support/environment.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(Caches, R22_RecordThenPrecompileThenRunWithoutJit) {
  const std::string list = record();
  const auto farm = context("farm");
  minuet_precompile_result result;
  Told told;
  ASSERT_EQ(precompile(farm.get(), list, path("out"), {}, result, told), MINUET_OK) << last_error();
  EXPECT_GT(result.compiled, 20);
  EXPECT_EQ(result.compiled, result.kernels);
  EXPECT_EQ(told.steps, result.kernels);
  ASSERT_EQ(told.paths, std::vector<std::string>{path("out/minuet-sm_90a.bundle")});

  std::vector<std::string> origins;
  const auto note = [](const minuet_kernel_info* kernel, void* user) {
    static_cast<std::vector<std::string>*>(user)->push_back(kernel->origin);
  };
  const auto strict = context(nullptr, [](minuet_context_options& options) { options.jit = MINUET_JIT_OFF; });
  EXPECT_EQ(minuet_context_add_bundle(strict.get(), told.paths[0].c_str(), std::string(64, '0').c_str()),
            MINUET_FAILED_PRECONDITION);
  check(minuet_context_add_bundle(strict.get(), told.paths[0].c_str(), told.digests[0].c_str()));
  const auto plan = convolution(strict.get());
  check(minuet_plan_compile(plan.get(), kArch, note, &origins));
  EXPECT_EQ(std::count(origins.begin(), origins.end(), "bundle"),
            static_cast<std::ptrdiff_t>(origins.size()));
  EXPECT_EQ(counters(strict.get()).compiled, 0);
  EXPECT_EQ(counters(strict.get()).bundle_hits, result.kernels);

  // The farm's plan as bytes does the same without the bundle.
  const auto farmed = convolution(farm.get());
  const char* const archs[] = {kArch};
  size_t size = 0;
  ASSERT_EQ(minuet_plan_serialize(farmed.get(), archs, 1, 0, nullptr, 0, &size), MINUET_OK) << last_error();
  std::string bytes(size, '\0');
  check(minuet_plan_serialize(farmed.get(), archs, 1, 0, bytes.data(), bytes.size(), &size));
  EXPECT_EQ(counters(farm.get()).compiled, result.kernels) << "all were there";
  const auto other = context(nullptr, [](minuet_context_options& options) {
    options.jit = MINUET_JIT_OFF;
    options.nvrtc_path = "/nowhere/libnvrtc.so.13";
  });
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(other.get(), bytes.data(), bytes.size(), &made));
  const Plan again{made, {minuet_plan_destroy}};
  check(minuet_plan_compile(made, kArch, nullptr, nullptr));
  EXPECT_EQ(counters(other.get()).compiled, 0);
  EXPECT_EQ(counters(other.get()).bundle_hits, result.kernels);
}

/// Measured on another machine.
TEST_F(Caches, R35_ResultsGoIntoTheBundle) {
  minuet_system_info system{};
  system.struct_size = sizeof(system);
  check(minuet_query_system(&system));
  TuningEnvironment environment = example_environment();
  environment.toolkit = system.nvrtc;
  const TuningEntry entry = example_entry(environment);
  const std::string results = path("results"), output = path("out"), list = record_few();
  llvm::cantFail(store_in(results).publish(entry));

  const auto farm = context("farm");
  const char* archs[] = {kArch};
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  options.requests_path = list.c_str();
  options.archs = archs;
  options.arch_count = 1;
  options.output_directory = output.c_str();
  ASSERT_EQ(minuet_precompile_tuned(farm.get(), &options, results.c_str(), nullptr), MINUET_OK)
      << last_error();
  const auto results_in_bundle = [&] {
    return llvm::cantFail(llvm::cantFail(Bundle::open(output + "/minuet-sm_90a.bundle"))->tuning());
  };
  EXPECT_EQ(results_in_bundle(), write_tuning({entry}));
  ASSERT_EQ(minuet_precompile(farm.get(), &options, nullptr), MINUET_OK) << last_error();
  EXPECT_EQ(results_in_bundle(), write_tuning({entry})) << "without results they stay";

  // Recorded programs may compute gradients of weights, and plans do not.
  const TuningTask task = weight_gradient_task(example_problem(), kArch, kExampleRows, 20 * kExampleRows);
  const TuningEntry gradient = with_kernels_of_this_build(make_entry(
      environment, task.bucket, measured(task.default_config, 14000), {measured(task.candidates[0], 12000)}));
  llvm::cantFail(store_in(results).publish(gradient));
  const auto kernels_with = [&](auto compile) {
    minuet_precompile_result told{};
    told.struct_size = sizeof(told);
    EXPECT_EQ(compile(told), MINUET_OK) << last_error();
    return told.kernels;
  };
  const int64_t before =
      kernels_with([&](auto& told) { return minuet_precompile(farm.get(), &options, &told); });
  const auto tuned = [&](auto& told) {
    return minuet_precompile_tuned(farm.get(), &options, results.c_str(), &told);
  };
  EXPECT_EQ(kernels_with(tuned), before + 1);
  EXPECT_EQ(results_in_bundle(), write_tuning({entry, gradient}));

  // What cannot be done is said before any work.
  const auto expect = [&](minuet_status status, const char* directory, const char* reason) {
    EXPECT_EQ(minuet_precompile_tuned(farm.get(), &options, directory, nullptr), status);
    EXPECT_THAT(last_error(), HasSubstr(reason));
  };
  expect(MINUET_INVALID_ARGUMENT, "results", "not an absolute path");
  expect(MINUET_NOT_FOUND, nullptr, "tuning results for sm_90a with this version's kernels");
  archs[0] = "sm_80";
  expect(MINUET_NOT_FOUND, results.c_str(), "tuning results for sm_80 with");
  options.arch_count = 0;
  expect(MINUET_INVALID_ARGUMENT, results.c_str(), "arch_count is 0 and archs is not null");
  options.archs = nullptr;
  expect(MINUET_INVALID_ARGUMENT, results.c_str(), "tuning results belong to an architecture");
}

TEST_F(Caches, R20_TwoFarmsMakeTheSameBytesAndASecondRunFindsAll) {
  const std::string list = record_few();
  Told first, second, again;
  minuet_precompile_result result;
  const auto farm = context("one");
  ASSERT_EQ(precompile(farm.get(), list, path("a"), {"sm_80", kArch}, result, first), MINUET_OK)
      << last_error();
  EXPECT_EQ(result.compiled, result.kernels);
  ASSERT_EQ(precompile(context("two").get(), list, path("b"), {kArch, "sm_80"}, result, second), MINUET_OK);
  EXPECT_EQ(first.digests, second.digests);
  EXPECT_EQ(first.digests.size(), 2u);
  ASSERT_EQ(precompile(farm.get(), list, path("c"), {"sm_80", kArch}, result, again), MINUET_OK);
  EXPECT_EQ(result.found, result.kernels) << "from the farm's folder";
  EXPECT_EQ(again.digests, first.digests);
  fs::remove_all(path("one"));
  again = {};
  ASSERT_EQ(precompile(context("three").get(), list, path("a"), {kArch}, result, again), MINUET_OK);
  EXPECT_EQ(result.found, result.kernels) << "from the bundle that was there";
}

TEST_F(Caches, R19_WhatFailsIsNamedAndTheRestIsThere) {
  std::ofstream(record_few(), std::ios::app)
      << R"({"schema":1,"name":"broken","arch":"sm_90a","expression":"f","least_sm":80,"source":"no C++","request_key":"00"})"
      << "\n";
  minuet_precompile_result result;
  Told told;
  const auto farm = context("farm");
  const minuet_status status = precompile(farm.get(), path("few.jsonl"), path("out"), {}, result, told);
  EXPECT_NE(status, MINUET_OK);
  EXPECT_NE(status, MINUET_CANCELLED);
  EXPECT_THAT(last_error(), HasSubstr("broken"));
  EXPECT_EQ(result.failed, 1);
  EXPECT_EQ(told.errors.size(), 1u);
  EXPECT_EQ(result.compiled, result.kernels - 1);
  EXPECT_EQ(told.paths.size(), 1u);
  std::ofstream(path("few.jsonl")) << "{\"schema\":1}\n";
  EXPECT_EQ(precompile(farm.get(), path("few.jsonl"), path("out"), {}, result, told),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("line 1"));
  EXPECT_EQ(precompile(farm.get(), path("none.jsonl"), path("out"), {}, result, told), MINUET_NOT_FOUND);
}

TEST_F(Caches, R19_ACancelLeavesWhatIsDone) {
  const std::string list = record();
  minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
  const std::string output = path("out");
  options.requests_path = list.c_str();
  options.output_directory = output.c_str();
  options.jobs = 1;
  std::atomic<int> done{0};
  options.user = &done;
  options.step = [](const minuet_precompile_step*, void* user) { ++*static_cast<std::atomic<int>*>(user); };
  options.cancelled = [](void* user) { return *static_cast<std::atomic<int>*>(user) > 0 ? 1 : 0; };
  minuet_precompile_result result = {};
  result.struct_size = sizeof(result);
  const auto farm = context("farm");
  EXPECT_EQ(minuet_precompile(farm.get(), &options, &result), MINUET_CANCELLED);
  EXPECT_GT(result.compiled, 0);
  EXPECT_LT(result.compiled, result.kernels);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(counters(farm.get()).compiled, result.compiled) << "R32";
  EXPECT_LE(counters(farm.get()).failures, 1)
      << "R32: of the one helper, stopped in a compile or between two";
  const auto strict = context(nullptr);
  EXPECT_EQ(minuet_context_add_bundle(strict.get(), path("out/minuet-sm_90a.bundle").c_str(), nullptr),
            MINUET_OK)
      << last_error();
}

TEST_F(Caches, R23_PtxServesLaterGpusWhereItIsAskedFor) {
  const std::string list = record_few(), again = path("again.jsonl"), bundles = path("out");
  minuet_precompile_result result;
  Told told;
  ASSERT_EQ(precompile(context("farm").get(), list, bundles, {"compute_90"}, result, told), MINUET_OK)
      << last_error();
  EXPECT_EQ(told.paths, std::vector<std::string>{path("out/minuet-compute_90.bundle")});
  EXPECT_EQ(result.compiled, result.kernels);
  const auto hits = [&](std::int64_t ptx, const char* arch) {
    const auto strict = context(nullptr, [&](minuet_context_options& options) {
      options.jit = MINUET_JIT_OFF;
      options.record_path = again.c_str();  // so that all are looked up
      options.bundle_path = bundles.c_str();
      options.bundle_ptx = ptx;
    });
    EXPECT_EQ(minuet_plan_compile(convolution(strict.get()).get(), arch, nullptr, nullptr),
              MINUET_FAILED_PRECONDITION)
        << "those with CUB are not there";
    return counters(strict.get()).bundle_hits;
  };
  for (const char* arch : {"sm_90a", "sm_90", "sm_100a", "sm_120a"}) {
    EXPECT_EQ(hits(1, arch), result.kernels) << arch;
    EXPECT_EQ(hits(0, arch), 0) << arch;
    EXPECT_THAT(last_error(), HasSubstr("bundle_ptx"));
  }
  EXPECT_EQ(hits(1, "sm_89"), 0);
}

TEST_F(Caches, R17_AJobIsCancelledAndTellsSo) {
  const auto owner = context("cache");
  auto plan = convolution(owner.get());
  struct Done {
    std::atomic<int> calls{0};
    std::atomic<int> status{-1};
  } done;
  minuet_job* job = nullptr;
  check(minuet_plan_compile_async(
      plan.get(), kArch,
      [](minuet_status status, void* user) {
        static_cast<Done*>(user)->status = status;
        ++static_cast<Done*>(user)->calls;
      },
      &done, &job));
  plan.reset();  // the job holds what it needs
  EXPECT_EQ(minuet_job_done(job), 0);
  const auto start = std::chrono::steady_clock::now();
  minuet_job_cancel(job);
  EXPECT_EQ(minuet_job_wait(job), MINUET_CANCELLED) << last_error();
  std::cout << "cancelled after "
            << std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()
            << " ms\n";
  EXPECT_EQ(minuet_job_done(job), 1);
  EXPECT_EQ(done.calls, 1);
  EXPECT_EQ(done.status, MINUET_CANCELLED);
  minuet_job_destroy(job);
  minuet_job_destroy(nullptr);
  for (const auto& file : fs::recursive_directory_iterator(path("cache"))) {
    EXPECT_EQ(file.path().filename().string().rfind("tmp-", 0), std::string::npos) << "nothing half written";
  }
}

/// Every variable of the library has an option, which comes first.
TEST_F(Caches, OptionsComeBeforeTheEnvironment) {
  const std::string list = record_few();
  minuet_precompile_result result;
  Told told;
  ASSERT_EQ(precompile(context("farm").get(), list, path("out"), {}, result, told), MINUET_OK)
      << last_error();
  const std::string bundles = path("out"), record = path("recorded.jsonl");
  /// How many kernels bundles had, of the few that there are.
  const auto hits = [&](const char* bundle_path) {
    const auto strict = context(nullptr, [&](minuet_context_options& options) {
      options.jit = MINUET_JIT_OFF;
      options.record_path = "";
      options.bundle_path = bundle_path;
    });
    // A list that is recorded is looked up to its end.
    const auto all = context(nullptr, [&](minuet_context_options& options) {
      options.jit = MINUET_JIT_OFF;
      options.bundle_path = bundle_path;
    });
    minuet_plan_compile(convolution(strict.get()).get(), kArch, nullptr, nullptr);
    EXPECT_FALSE(fs::exists(record)) << "an empty record_path is none";
    minuet_plan_compile(convolution(all.get()).get(), kArch, nullptr, nullptr);
    EXPECT_TRUE(fs::remove(record));
    return counters(all.get()).bundle_hits;
  };
  {
    const EnvironmentVariable recorded("MINUET_RECORD", record), found("MINUET_BUNDLE_PATH", bundles);
    EXPECT_EQ(hits(nullptr), result.kernels);
    EXPECT_EQ(hits(""), 0);
    const EnvironmentVariable nowhere("MINUET_BUNDLE_PATH", "/nowhere");
    EXPECT_EQ(hits(bundles.c_str()), result.kernels);
  }

  const auto elsewhere = context(nullptr, [](minuet_context_options& options) {
    options.nvrtc_path = "/nowhere/libnvrtc.so.13";
    options.cublaslt_path = "/nowhere/libcublasLt.so.13";
  });
  EXPECT_EQ(minuet_plan_compile(convolution(elsewhere.get()).get(), kArch, nullptr, nullptr),
            MINUET_UNAVAILABLE);
  EXPECT_THAT(last_error(), HasSubstr("libnvrtc"));
  // Nor with another NVRTC than the one that was named.
  EXPECT_EQ(precompile(elsewhere.get(), list, path("never"), {kArch}, result, told), MINUET_UNAVAILABLE);
  EXPECT_FALSE(fs::exists(path("never")));

  fs::create_directory(path("shared"));
  fs::permissions(path("shared"), fs::perms::all);
  const auto directory = [&](std::int64_t shared) {
    const auto made =
        context("shared", [&](minuet_context_options& options) { options.cache_shared = shared; });
    std::string text(minuet_context_cache_directory(made.get(), nullptr, 0), '\0');
    minuet_context_cache_directory(made.get(), text.data(), text.size());
    text.pop_back();
    return text;
  };
  {
    const EnvironmentVariable shared("MINUET_CACHE_SHARED", "1");
    EXPECT_EQ(directory(0), path("shared"));
    EXPECT_EQ(directory(2), "");
  }
  EXPECT_EQ(directory(1), path("shared"));
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.cache_shared = 3;
  minuet_context* made = nullptr;
  EXPECT_EQ(minuet_context_create(&options, &made), MINUET_INVALID_ARGUMENT);
}

TEST_F(Caches, R32_ATraceOfAColdStart) {
  const auto plain = context(nullptr);
  EXPECT_EQ(minuet_context_write_trace(plain.get(), path("trace.json").c_str()), MINUET_FAILED_PRECONDITION);
  const std::string list = record_few();
  minuet_precompile_result result;
  Told told;
  ASSERT_EQ(precompile(context("farm").get(), list, path("out"), {}, result, told), MINUET_OK)
      << last_error();
  const auto traced = context("farm", [](minuet_context_options& options) {
    options.trace = 1;
    options.jit = MINUET_JIT_OFF;
  });
  EXPECT_EQ(minuet_plan_compile(convolution(traced.get()).get(), kArch, nullptr, nullptr),
            MINUET_FAILED_PRECONDITION);
  check(minuet_context_write_trace(traced.get(), path("trace.json").c_str()));
  const std::string trace = contents(path("trace.json"));
  EXPECT_THAT(trace, testing::AllOf(HasSubstr("traceEvents"), HasSubstr("\"disk\"")));
  EXPECT_THAT(trace, testing::Not(HasSubstr("identify the compiler"))) << "R22: that starts a process";
}

TEST_F(Caches, R32_WhatPrecompileDoesIsCountedAndTraced) {
  std::ofstream(record_few(), std::ios::app)
      << R"({"schema":1,"name":"broken","arch":"sm_90a","expression":"f","least_sm":80,"source":"no C++","request_key":"00"})"
      << "\n";
  const auto spans = [&](minuet_context* context, const std::string& category) {
    check(minuet_context_write_trace(context, path("trace.json").c_str()));
    const std::string text = contents(path("trace.json")), sought = "\"cat\":\"" + category + "\"";
    int count = 0;
    for (std::size_t at = text.find(sought); at != std::string::npos; at = text.find(sought, at + 1)) ++count;
    return count;
  };
  const auto traced = [](minuet_context_options& options) { options.trace = 1; };
  const auto farm = context("farm", traced);
  minuet_precompile_result result;
  Told told;
  EXPECT_NE(precompile(farm.get(), path("few.jsonl"), path("out"), {}, result, told), MINUET_OK);
  ASSERT_GT(result.compiled, 1);
  minuet_kernel_counters counted = counters(farm.get());
  EXPECT_EQ(counted.compiled, result.compiled);
  EXPECT_EQ(counted.failures, 1);
  EXPECT_EQ(counted.cubin_bytes, result.bytes);
  EXPECT_GT(counted.compile_ms, 0);
  EXPECT_EQ(counted.bundle_hits + counted.disk_hits + counted.memory_hits, 0);
  EXPECT_EQ(spans(farm.get(), "compile"), result.kernels);
  EXPECT_EQ(spans(farm.get(), "publish"), result.compiled);
  EXPECT_EQ(spans(farm.get(), "bundle"), 2) << "read and written";
  EXPECT_THAT(contents(path("trace.json")), HasSubstr("\"name\":\"broken\""));

  told = {};
  const auto from_bundle = context("other", traced), from_disk = context("farm", traced);
  EXPECT_NE(precompile(from_bundle.get(), path("few.jsonl"), path("out"), {}, result, told), MINUET_OK);
  EXPECT_EQ(counters(from_bundle.get()).bundle_hits, result.found);
  told = {};
  EXPECT_NE(precompile(from_disk.get(), path("few.jsonl"), path("new"), {}, result, told), MINUET_OK);
  EXPECT_EQ(counters(from_disk.get()).disk_hits, result.found);
  EXPECT_EQ(counters(from_disk.get()).cubin_bytes, counted.cubin_bytes);
  EXPECT_EQ(counters(from_disk.get()).compiled, 0);
}

}  // namespace
}  // namespace minuet::abi
