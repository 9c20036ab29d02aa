// The kernels that the shim runs whole (tests/kernels_templates/cluster_test.cc, mma_test.cc), on a GPU:
// clusters, mbarriers, bulk copies, tensor cores, and more shared memory than 48 KB.
#include "tests/kernels_templates/gemm_problem.h"
#include "tests/runtime/cuda/launch_fixture.h"

namespace minuet {
namespace {

class ClusterTest : public LaunchTest {
 protected:
  template <class Spec>
  void expect_right(const Spec& spec, u64 seed, i32 rows, i32 steps);
};

template <class Spec>
void ClusterTest::expect_right(const Spec& spec, u64 seed, i32 rows, i32 steps) {
  const bool few = on_software_device();
  if (few) rows = std::min(rows, 70), steps = std::min(steps, 9);
  SCOPED_TRACE(display_name(spec));
  const Kernel<GemmParams> kernel = load(MINUET_SOURCE_DIR, spec);
  const GemmProblem problem = random_gemm(seed, spec.io, rows, spec.columns, steps, spec.step_words);
  const TestBuffer a(device(), problem.a), b(device(), problem.b);
  const TestBuffer out(device(), std::vector<u32>(problem.expected.size(), 0xffffffffu));
  const i64 blocks = ceil_div(rows, gemm_tile_rows(spec)) * kernel.needs.cluster;
  const GemmParams params{a.as<const u32>(), b.as<const u32>(), out.as<float>(), rows, steps};
  const auto run = [&] {
    take(launcher().launch(kernel, blocks, params));
    take(launcher().wait());
    return out.read<float>();
  };
  const std::vector<float> first = run();
  EXPECT_LE(worst_error(problem, first), kGemmBound) << "problem " << seed;
  // The cluster's sums are added in the order of its ranks, however its blocks run.
  for (int again = 0; again < (few ? 1 : 20); ++again) ASSERT_EQ(run(), first) << "launch " << again;
}

TEST_F(ClusterTest, ClusterGemm) {
  if (!missing_arch(emit(ClusterGemmSpec{}), device().info().arch).empty()) {
    GTEST_SKIP() << "clusters and bulk copies come with sm_90";
  }
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) {
    if (on_software_device() && io != DType::F16) continue;  // the shim's own tests have all three
    // 64 KB of stages, more steps than stages, and a last tile that is not full.
    const ClusterGemmSpec large{.io = io, .warps = 4, .columns = 64, .step_words = 64, .stages = 4};
    EXPECT_GT(kernel_needs(large).dynamic_shared_bytes, 49152);
    expect_right(large, 41, 1000, 27);
    ClusterGemmSpec four = large;
    four.cluster = 4;
    expect_right(four, 42, 300, 50);
    expect_right(ClusterGemmSpec{.io = io, .stages = 2}, 43, 5000, 9);
    expect_right(ClusterGemmSpec{.io = io, .columns = 8, .cluster = 1}, 44, 33, 1);
  }
}

TEST_F(ClusterTest, StagedGemm) {
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) {
    if (on_software_device() && io != DType::F16) continue;  // the shim's own tests have all three
    expect_right(StagedGemmSpec{.io = io, .warps = 4, .columns = 64, .step_words = 32, .stages = 4}, 45, 1000,
                 17);
    expect_right(StagedGemmSpec{.io = io, .warps = 1, .columns = 8, .stages = 2}, 46, 70, 3);
  }
}

}  // namespace
}  // namespace minuet
