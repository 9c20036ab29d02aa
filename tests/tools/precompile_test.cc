// `minuet precompile`: needs NVRTC, and neither a GPU nor a driver.
#include <gmock/gmock.h>

#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

TEST(Precompile, CompilesOnceAndFindsAgain) {
  if (minuet({"info"}).out.find("NVRTC         not found") != std::string::npos) {
    GTEST_SKIP() << "NVRTC is not installed";
  }
  const Folder folder;
  const std::vector<std::string> command = {
      "precompile", "--network", "sparseresnet21d", "--channels", "16,16,16,16",       "--dtype",
      "fp16",       "--arch",    "sm_90a",          "--cache",    folder.path("cache")};
  const Finished cold = minuet(command);
  ASSERT_EQ(cold.code, 0) << cold.err;
  EXPECT_THAT(cold.out, HasSubstr("registers"));
  EXPECT_THAT(cold.out, HasSubstr("gather"));
  EXPECT_THAT(cold.out, HasSubstr(", 0 found on disk"));
  EXPECT_THAT(cold.out, HasSubstr(folder.path("cache")));
  const Finished warm = minuet(command);
  ASSERT_EQ(warm.code, 0) << warm.err;
  EXPECT_THAT(warm.out, HasSubstr(": 0 compiled"));
}

}  // namespace
}  // namespace minuet::tool
