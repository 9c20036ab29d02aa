// What a process compiles, the next one finds: by the counters of the tool, each run a process of its own.
#include <gmock/gmock.h>

#include <memory>
#include <regex>

#include "include/minuet/minuet.h"
#include "llvm/Support/JSON.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

struct Counts {
  int64_t compiled = -1, disk_hits = -1;
};

/// Why cuda:0 cannot be used, or "".
std::string why_no_gpu() {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.disable_disk_cache = 1;
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  if (minuet_context_create(&options, &context) != MINUET_OK) return "";
  const minuet_status status = minuet_device_open(context, "cuda:0", &device);
  char text[1024] = "no GPU";
  if (status != MINUET_OK) minuet_last_error(text, sizeof(text));
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return status == MINUET_UNAVAILABLE ? text : "";
}

std::string why_no_nvrtc() {
  auto info = std::make_unique<minuet_system_info>();
  info->struct_size = sizeof(*info);
  if (minuet_query_system(info.get()) != MINUET_OK || info->nvrtc[0] != '\0') return "";
  EXPECT_EQ(std::string(info->missing).find("minuet-compile"), std::string::npos) << info->missing;
  return std::string("NVRTC is not installed: ") + info->missing;
}

class Processes : public testing::Test {
 protected:
  /// One inference in a process of its own.
  Counts run(std::vector<std::string> cloud) {
    const std::string path = folder_.path("report.json");
    std::vector<std::string> all = {
        "run",      "--device", "cuda:0",  "--network",  "minkunet42",
        "--repeat", "1",        "--cache", cache(),      "--json",
        path,       "--dtype",  "fp16",    "--channels", "16,16,16,32,32,32,32,16,16"};
    all.insert(all.end(), cloud.begin(), cloud.end());
    const Finished finished = minuet(all);
    EXPECT_EQ(finished.code, 0) << finished.err;
    Counts counts;
    llvm::Expected<llvm::json::Value> report = llvm::json::parse(contents(path));
    if (!report) {
      ADD_FAILURE() << llvm::toString(report.takeError());
      return counts;
    }
    const llvm::json::Object* root = report->getAsObject();
    const llvm::json::Object* kernels = root ? root->getObject("kernels") : nullptr;
    if (kernels == nullptr) {
      ADD_FAILURE() << "the report has no \"kernels\"";
      return counts;
    }
    if (const auto compiled = kernels->getInteger("compiled")) counts.compiled = *compiled;
    if (const auto hits = kernels->getInteger("disk_hits")) counts.disk_hits = *hits;
    return counts;
  }

  Counts precompile(const std::string& dtype) {
    const Finished finished =
        minuet({"precompile", "--network", "sparseresnet21d", "--channels", "16,16,32,32", "--dtype", dtype,
                "--arch", "sm_90a", "--cache", cache()});
    EXPECT_EQ(finished.code, 0) << finished.err;
    std::smatch match;
    Counts counts;
    if (!std::regex_search(finished.out, match, std::regex("([0-9]+) compiled, ([0-9]+) found"))) {
      ADD_FAILURE() << "no counts in: " << finished.out;
      return counts;
    }
    counts.compiled = std::stoll(match[1]);
    counts.disk_hits = std::stoll(match[2]);
    return counts;
  }

  std::string cache() const { return folder_.path("cache"); }

 private:
  const Folder folder_;
};

using ProcessesOnTheGpu = Processes;
using ProcessesThatCompile = Processes;

/// A cloud's extent and size are no part of any kernel, not even where its keys are longer.
TEST_F(ProcessesOnTheGpu, OnlyTheFirstCompiles) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  const Counts cold = run({"--synthetic", "lidar", "--points", "20000", "--voxel-size", "0.4"});
  EXPECT_GT(cold.compiled, 0);
  EXPECT_EQ(cold.disk_hits, 0);
  const Counts second = run({"--synthetic", "lidar", "--points", "20000", "--voxel-size", "0.4"});
  EXPECT_EQ(second.compiled, 0);
  EXPECT_GT(second.disk_hits, 0);
  // Short keys, then 200,000 cells an axis: more than 50 bits a key.
  for (const std::vector<std::string>& cloud :
       {std::vector<std::string>{"--synthetic", "random", "--points", "900", "--extent", "1"},
        {"--synthetic", "random", "--points", "70000", "--extent", "20000", "--seed", "4"},
        {"--synthetic", "room", "--points", "200000", "--voxel-size", "0.03"},
        {"--synthetic", "object", "--points", "1"}}) {
    const Counts other = run(cloud);
    EXPECT_EQ(other.compiled, 0) << testing::PrintToString(cloud);
    EXPECT_GT(other.disk_hits, 0) << testing::PrintToString(cloud);
  }
}

/// The same with no GPU; kernels of the Map step know no dtype, so another dtype finds them.
TEST_F(ProcessesThatCompile, PrecompileTwice) {
  if (const std::string reason = why_no_nvrtc(); !reason.empty()) GTEST_SKIP() << reason;
  const Counts cold = precompile("fp16");
  EXPECT_GT(cold.compiled, 0);
  EXPECT_EQ(cold.disk_hits, 0);
  const Counts warm = precompile("fp16");
  EXPECT_EQ(warm.compiled, 0);
  EXPECT_EQ(warm.disk_hits, cold.compiled);
  const Counts other = precompile("bf16");
  EXPECT_GT(other.compiled, 0);
  EXPECT_GT(other.disk_hits, 0);
  EXPECT_EQ(other.compiled + other.disk_hits, cold.compiled);
}

}  // namespace
}  // namespace minuet::tool
