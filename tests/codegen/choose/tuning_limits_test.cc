// The outermost configurations that validate_config lets through do compile.
#include <gtest/gtest.h>

#include <cstdio>

#include "codegen/tuning/search_space.h"
#include "tests/codegen/choose/examples.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

void expect_compiles(Compiler& compiler, const KernelSource& source, const char* arch = "sm_90a") {
  llvm::Expected<Binary> binary = compiler.compile({source, arch}, {});
  ASSERT_TRUE(static_cast<bool>(binary)) << source.display_name << ": " << llvm::toString(binary.takeError());
  EXPECT_LE(binary->shared_bytes, 48 << 10) << source.display_name;
  std::printf("%s %.0f ms, %d bytes spilled\n", source.display_name.c_str(), binary->compile_ms,
              binary->local_bytes);
}

TEST(TuningLimits, R34_TheOutermostConfigsCompile) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  for (const DType dtype : {DType::F32, DType::F16}) {
    for (const i32 tile : {1, 3, 256}) {
      const i32 channels = tile * 3;
      const TuningBucket buckets[] = {gather_bucket(dtype, channels, 27, 0),
                                      scatter_bucket(dtype, channels, 27, 0)};
      std::vector<TuningEntry> entries;
      for (const TuningBucket& bucket : buckets) {
        ASSERT_FALSE(llvm::errorToBool(validate_config(bucket, tile_config(tile))));
        entries.push_back(make_entry(example_environment(), bucket,
                                     measured(*default_config_of(bucket, false), 2),
                                     {measured(tile_config(tile), 1)}));
      }
      const TuningSnapshot snapshot(example_environment(), {{"user", entries}});
      const GmasChoice choice = choose_gmas(example_problem(channels, channels, dtype), &snapshot);
      ASSERT_EQ(choice.gather.tile, tile);
      for (const KernelSource& source : sources_of(choice)) expect_compiles(**compiler, source);
    }
  }
  const std::pair<KeyType, SearchChoice> searches[] = {
      {KeyType::U32, {8192, 1, 1024}}, {KeyType::U64, {4096, 1 << 20, 32}}, {KeyType::U64, {1, 1, 32}}};
  for (const auto& [key, search] : searches) {
    ASSERT_FALSE(llvm::errorToBool(validate(search, key)));
    const MapChoice map = choose_map(key, 3, search);
    expect_compiles(**compiler, emit(map.find_query_borders));
    expect_compiles(**compiler, emit(map.search_kernel_map));
  }
}

/// Some of those that a tuner may try, spread over the list; more of them with MINUET_LONG_TESTS.
TEST(TuningLimits, FusedSpecsOfTheSearchCompile) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  struct Case {
    i32 in, out;
    DType dtype;
    const char* arch;
    i64 rows;
  };
  const std::size_t share = long_tests_wanted() ? 40 : 2;
  for (const Case& one : {Case{4, 32, DType::F16, "sm_90a", 77000},
                          {64, 64, DType::F16, "sm_90a", 20000},
                          {256, 256, DType::BF16, "sm_90a", 2900},
                          {96, 96, DType::TF32, "sm_90a", 77000},
                          {96, 96, DType::F16, "sm_80", 77000}}) {
    const ConvolutionProblem problem = example_problem(one.in, one.out, one.dtype);
    const std::vector<TuningTask> tasks = kernel_tasks(problem, one.arch, Dataflow::Fused, one.rows);
    ASSERT_EQ(tasks.size(), 1u);
    const std::vector<TuningConfig>& configs = tasks[0].candidates;
    for (std::size_t i = 0; i < configs.size(); i += (configs.size() + share - 1) / share) {
      FusedSpec spec = choose_fused(problem, one.arch, one.rows).fused;
      llvm::cantFail(read_config(configs[i], spec));
      expect_compiles(**compiler, emit(spec), one.arch);
    }
  }
}

/// The same of the kernels for gradients of weights.
TEST(TuningLimits, GradientSpecsOfTheSearchCompile) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  struct Case {
    i32 in, out;
    DType dtype;
    const char* arch;
  };
  const std::size_t share = long_tests_wanted() ? 1000 : 3;
  for (const Case& one : {Case{64, 64, DType::F16, "sm_90a"},
                          {96, 96, DType::BF16, "sm_90a"},
                          {256, 256, DType::F16, "sm_90a"},
                          {64, 64, DType::F32, "sm_90a"},
                          {128, 128, DType::F16, "sm_80"}}) {
    const ConvolutionProblem forward = example_problem(one.in, one.out, one.dtype);
    const TuningTask task = weight_gradient_task(forward, one.arch, kExampleRows, 27 * kExampleRows);
    const std::size_t step = std::max<std::size_t>(task.candidates.size() / share, 1);
    for (std::size_t i = 0; i < task.candidates.size(); i += step) {
      WeightGradientCandidate::Spec spec;
      llvm::cantFail(read_gradient_config(task.bucket, task.candidates[i], spec));
      std::visit([&](const auto& own) { expect_compiles(**compiler, emit(own), one.arch); }, spec);
    }
  }
}

}  // namespace
}  // namespace minuet
