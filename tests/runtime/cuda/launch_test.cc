// A launch is what the kernel's row says: a kernel that asks for everything
// (tests/kernels_templates/device/relay.h).
#include <gmock/gmock.h>

#include <numeric>

#include "tests/runtime/cuda/launch_fixture.h"
#include "tests/support/software_cuda/control.h"

namespace minuet {
namespace {

using testing::HasSubstr;

constexpr i32 kStep = 3;  // what the row tells the compiler

class RelayTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const std::string missing = missing_arch(emit(RelaySpec{}), device().info().arch);
    if (!missing.empty()) GTEST_SKIP() << "the kernel needs " << missing;
  }

  /// `launches` in a row, each of which reads what the one before it wrote.
  void expect_right(const RelaySpec& spec, i32 count, int launches);
};

void RelayTest::expect_right(const RelaySpec& spec, i32 count, int launches) {
  SCOPED_TRACE(testing::Message() << display_name(spec) << ", " << count << " items");
  const Kernel<RelayParams> kernel = load(MINUET_SOURCE_DIR, spec);
  const i64 blocks =
      whole_clusters(stride_grid(count, spec.threads, device().multiprocessors()), spec.cluster);
  std::vector<i32> expected(static_cast<std::size_t>(count));
  std::iota(expected.begin(), expected.end(), 100);
  const TestBuffer even(device(), expected), odd(device(), count * 4), neighbours(device(), blocks * 4);
  for (int i = 0; i < launches; ++i) {
    const TestBuffer &in = i % 2 == 0 ? even : odd, &out = i % 2 == 0 ? odd : even;
    take(launcher().launch_stride(
        kernel, count, RelayParams{in.as<const i32>(), out.as<i32>(), count, neighbours.as<i32>()}));
    for (i32& value : expected) value += kStep;
  }
  take(launcher().wait());
  EXPECT_EQ((launches % 2 == 0 ? even : odd).read<i32>(), expected);
  const std::vector<i32> behind = neighbours.read<i32>();
  for (i32 block = 0; block < blocks; ++block) {
    ASSERT_EQ(behind[static_cast<std::size_t>(block)],
              block / spec.cluster * spec.cluster + (block + 1) % spec.cluster)
        << "block " << block << " of " << blocks;
  }
}

TEST_F(RelayTest, ClustersSharedMemoryOptionsAndProgrammaticLaunches) {
  const bool few = on_software_device();
  expect_right({}, 64, 1);  // one block of work, two of the cluster
  expect_right({}, few ? 500 : 100000, few ? 5 : 50);
  expect_right({.shared_bytes = 200 << 10, .cluster = 4, .threads = 32}, few ? 300 : 30000, few ? 4 : 50);
  expect_right({.shared_bytes = 1024, .cluster = 1}, few ? 300 : 30000, few ? 4 : 50);
  expect_right({.shared_bytes = 49 << 10, .cluster = 8, .threads = 32}, 1000, 3);
}

TEST_F(RelayTest, AGridOfPartsOfClustersIsRefused) {
  const Kernel<RelayParams> kernel = load(MINUET_SOURCE_DIR, RelaySpec{.cluster = 4});
  const StatusError error = take_status(launcher().launch(kernel, 6, RelayParams{}));
  EXPECT_EQ(error.code(), StatusCode::Internal);
  EXPECT_EQ(error.message(),
            "a kernel in clusters of 4 blocks would have 6 blocks, which is not a multiple of 4");
}

/// The launch that allows it must be the one right before on the caller's stream, in the same call and
/// without a join in between. Work of a branch changes nothing, and kernels there never read early.
TEST_F(RelayTest, KernelsReadEarlyOnlyBehindALaunchThatAllowsIt) {
  const Kernel<RelayParams> kernel = load(MINUET_SOURCE_DIR, RelaySpec{});
  const TestBuffer in(device(), std::vector<i32>(64)), out(device(), 64 * 4), neighbours(device(), 4096 * 4);
  const auto launch = [&] {
    take(launcher().launch_stride(kernel, 64,
                                  RelayParams{in.as<const i32>(), out.as<i32>(), 64, neighbours.as<i32>()}));
  };
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  EXPECT_FALSE(launcher().may_read_early());
  launcher().allow_early_reads();
  EXPECT_TRUE(launcher().may_read_early());
  launch();
  EXPECT_FALSE(launcher().may_read_early());
  launcher().allow_early_reads();
  const bool has_branches = launcher().usable_streams() > 1;
  take(launcher().begin_branch());
  EXPECT_EQ(launcher().may_read_early(), !has_branches);
  launch();
  launcher().allow_early_reads();
  EXPECT_EQ(launcher().may_read_early(), !has_branches);
  take(launcher().fill(out.as<>(), 0, 1));
  launcher().end_branch();
  EXPECT_EQ(launcher().may_read_early(), has_branches);
  take(launcher().join_branch());
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  launcher().allow_early_reads();
  take(launcher().fill(out.as<>(), 0, 1));
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  launcher().allow_early_reads();
  take(launcher().copy(out.as<>(), in.as<>(), 4));
  EXPECT_FALSE(launcher().may_read_early());
  i32 number = 0;
  launch();
  launcher().allow_early_reads();
  take(launcher().read_back(&number, in.as<>(), 4));
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  launcher().allow_early_reads();
  take(launcher().send(out.as<>(), &number, 4));
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  launcher().allow_early_reads();
  take(launcher().fork(2));
  EXPECT_TRUE(launcher().may_read_early());
  take(launcher().join(2));
  EXPECT_FALSE(launcher().may_read_early());
  launch();
  launcher().allow_early_reads();
  take(launcher().begin(launcher().stream()));
  EXPECT_FALSE(launcher().may_read_early());
  take(launcher().wait());
}

TEST_F(RelayTest, MoreSharedMemoryThanThereIsHasAName) {
  const RelaySpec spec{.shared_bytes = 1 << 20};
  gpu().load({emit_whole(MINUET_SOURCE_DIR, spec)});
  const StatusError error = take_status(device().kernel(spec).takeError());
  EXPECT_THAT(error.message(), HasSubstr("giving kernel " + display_name(spec) + " 1048576 bytes"));
}

/// The software device counts; a GPU does not tell.
TEST_F(RelayTest, ALaunchIsProgrammaticWhereTheRowSaysSo) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  if (control) control->reset();
  expect_right({}, 64, 3);
  const StagedGemmSpec plain{.warps = 1, .columns = 8, .stages = 2};
  take(launcher().launch(load(MINUET_SOURCE_DIR, plain), 1, GemmParams{}));  // no rows, no steps
  take(launcher().wait());
  EXPECT_EQ(launcher().counters().kernels, 4);
  if (!control) return;
  EXPECT_EQ(control->calls("cuLaunchKernelEx"), 4);
  EXPECT_EQ(control->calls("programmatic launch"), 3);
}

}  // namespace
}  // namespace minuet
