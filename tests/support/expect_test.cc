// What is expected and not here fails; what is not expected skips with its reason.
#include "tests/support/expect.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>

#include <filesystem>
#include <fstream>

#include "tests/support/environment.h"
namespace minuet {
namespace {

using testing::HasSubstr;

class Expect : public testing::Test {
 protected:
  /// What a test reports that lacks `what` where `list` is expected.
  static testing::TestPartResult result_of(const char* list, const char* what) {
    const EnvironmentVariable expect("MINUET_EXPECT", list);
    testing::TestPartResultArray results;
    {
      testing::ScopedFakeTestPartResultReporter reporter(
          testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
      [what] { MINUET_SKIP_OR_FAIL(what, "it is not here"); }();
    }
    EXPECT_EQ(results.size(), 1);
    return results.GetTestPartResult(0);
  }
};

TEST_F(Expect, WhatIsNotNamedSkipsWithItsReason) {
  for (const char* list : {"", "golden", "golden,gpu", "browser,torch,jax"}) {
    const testing::TestPartResult result = result_of(list, "nvrtc");
    EXPECT_TRUE(result.skipped()) << list;
    EXPECT_THAT(result.message(), HasSubstr("it is not here"));
  }
}

TEST_F(Expect, WhatIsNamedFailsWithItsReason) {
  for (const char* list : {"nvrtc", "golden,nvrtc", "nvrtc,gpu"}) {
    const testing::TestPartResult result = result_of(list, "nvrtc");
    EXPECT_TRUE(result.fatally_failed()) << list;
    EXPECT_THAT(result.message(), HasSubstr("it is not here"));
    EXPECT_THAT(result.message(), HasSubstr("MINUET_EXPECT names nvrtc"));
  }
}

TEST_F(Expect, AListWithAnotherWordIsAMistake) {
  EXPECT_TRUE(result_of("nvtrc", "nvrtc").fatally_failed());
  EXPECT_TRUE(result_of("golden nvrtc", "gpu").fatally_failed());
}

TEST(GpuSeen, ByItsNode) {
  const std::filesystem::path folder = testing::TempDir() + "minuet-dev-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const auto node = [&](const char* name) { std::ofstream(folder / name) << ""; };
  for (const char* other : {"nvidiactl", "nvidia-uvm", "null", "nvidia"}) node(other);
  EXPECT_EQ(gpu_seen(folder, "libnobody-has.so"), "");
  node("nvidia0");
  EXPECT_EQ(gpu_seen(folder, "libnobody-has.so"), "there is " + (folder / "nvidia0").string());
  std::filesystem::remove_all(folder);
}

TEST(GpuSeen, NotByALibraryThatIsNoDriver) { EXPECT_EQ(gpu_seen("/nonexistent", "libc.so.6"), ""); }

TEST(GpuSeen, ByADriverThatShowsOne) {
  EXPECT_THAT(gpu_seen("/nonexistent", MINUET_DRIVER_OF_TWO), testing::EndsWith(" shows 2 devices"));
}

}  // namespace
}  // namespace minuet
