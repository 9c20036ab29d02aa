// NVTX ranges of an inference, as a profiler sees them that NVTX opens (tests/support/nvtx_listener.c).
#include <gmock/gmock.h>

#include "llvm/ADT/StringRef.h"
#include "tests/support/environment.h"
#include "tests/support/expect.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/commands/gpu.h"

namespace minuet::tool {
namespace {

constexpr const char* kNetwork =
    R"({"name": "two", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [
        {"op": "block", "name": "first", "width": 0, "kernel_size": 3},
        {"op": "block", "name": "second", "width": 0, "kernel_size": 3}]})";

/// One line a call of NVTX's.
std::vector<std::string> ranges_of(const std::string& device, const std::optional<std::string>& wanted) {
  const Folder folder;
  const std::string seen = folder.path("seen");
  const EnvironmentVariable listener("NVTX_INJECTION64_PATH", NVTX_LISTENER),
      file("NVTX_LISTENER_FILE", seen), variable("MINUET_NVTX", wanted);
  const Finished finished = minuet({"run", "--device", device, "--network", folder.file("two.json", kNetwork),
                                    "--synthetic", "object", "--points", "300", "--voxel-size", "0.1",
                                    "--dataflow", "gather-gemm-scatter", "--maps", "sorted"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  llvm::SmallVector<llvm::StringRef, 64> lines;
  const std::string text = contents(seen);
  llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
  return {lines.begin(), lines.end()};
}

TEST(Nvtx, CallsAndLayersAreRanges) {
  EXPECT_THAT(ranges_of("cpu", "1"), testing::ElementsAre("domain minuet", "push prepare", "pop", "push run",
                                                          "push first", "pop", "push second", "pop", "pop"));
}

TEST(Nvtx, NothingUnlessAskedFor) {
  EXPECT_TRUE(ranges_of("cpu", "0").empty());
  EXPECT_TRUE(ranges_of("cpu", std::nullopt).empty());
}

TEST(NvtxOnTheGpu, StepsAreRangesWithinLayers) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
  const std::vector<std::string> seen = ranges_of("cuda:0", "1");
  const auto layer = std::find(seen.begin(), seen.end(), "push first");
  ASSERT_NE(layer, seen.end());
  EXPECT_THAT(std::vector<std::string>(layer, layer + 8),
              testing::ElementsAre("push first", "start gather", "end", "start gemm", "end", "start scatter",
                                   "end", "pop"));
  const std::vector<std::string> before(seen.begin(), layer);
  EXPECT_THAT(before, testing::Contains("start sort"));
  EXPECT_THAT(before, testing::Contains("start map"));
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](auto& line) { return line.rfind("start", 0) == 0; }),
            std::count(seen.begin(), seen.end(), "end"));
}

}  // namespace
}  // namespace minuet::tool
