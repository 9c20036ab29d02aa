// What a process compiles, the next one finds: by the counters of the tool, each run a process of its own.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "include/minuet/diagnostics.h"
#include "include/minuet/minuet.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/support/environment.h"
#include "tests/support/expect.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/commands/gpu.h"

namespace minuet::tool {
namespace {

struct Counts {
  int64_t compiled = -1, disk_hits = -1, bundle_hits = -1;
};

/// The architecture of cuda:0, which can be used.
std::string arch_of_the_gpu() {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.disable_disk_cache = 1;
  minuet_context* context = nullptr;
  minuet_device* device = nullptr;
  minuet_device_info info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(minuet_context_create(&options, &context), MINUET_OK);
  EXPECT_EQ(minuet_device_open(context, "cuda:0", nullptr, &device), MINUET_OK);
  EXPECT_EQ(minuet_device_query(device, &info), MINUET_OK);
  minuet_device_destroy(device);
  minuet_context_destroy(context);
  return info.arch;
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
    std::vector<std::string> all = {"run",     "--device", "cuda:0", "--repeat", "1",
                                    "--cache", cache(),    "--json", path};
    for (const char* word :
         {"--network", "minkunet42", "--dtype", "fp16", "--channels", "16,16,16,32,32,32,32,16,16"})
      all.push_back(word);
    all.insert(all.end(), cloud.begin(), cloud.end());
    return counts_of(all, path);
  }

  /// What the report at `path` says of the kernels of one run.
  static Counts counts_of(const std::vector<std::string>& arguments, const std::string& path) {
    const Finished finished = minuet(arguments);
    EXPECT_EQ(finished.code, 0) << finished.err;
    Counts counts;
    const llvm::json::Object report = json_in(path);
    const llvm::json::Object* kernels = report.getObject("kernels");
    if (kernels == nullptr) {
      ADD_FAILURE() << "the report has no \"kernels\"";
      return counts;
    }
    if (const auto compiled = kernels->getInteger("compiled")) counts.compiled = *compiled;
    if (const auto hits = kernels->getInteger("disk_hits")) counts.disk_hits = *hits;
    if (const auto hits = kernels->getInteger("bundle_hits")) counts.bundle_hits = *hits;
    return counts;
  }

  std::string cache() const { return folder_.path("cache"); }

  const Folder folder_;
};

/// An empty folder that nobody can write to while this lives, root neither where it may mount.
class ReadOnlyFolder {
 public:
  explicit ReadOnlyFolder(const std::string& path) : path_(path) {
    EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
    // A mount is seen by this thread and the processes that it starts.
    is_mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0 &&
                  ::mount(nullptr, path_.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    if (!is_mounted_) ::chmod(path_.c_str(), 0500);
    // Root that may not mount: nothing can be made in /proc, whoever asks.
    if (::access(path_.c_str(), W_OK) == 0) place_ = "/proc/no-cache-can-be-here";
  }
  ~ReadOnlyFolder() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    ::chmod(path_.c_str(), 0700);
  }
  ReadOnlyFolder(const ReadOnlyFolder&) = delete;
  ReadOnlyFolder& operator=(const ReadOnlyFolder&) = delete;
  const std::string& place() const { return place_.empty() ? path_ : place_; }

 private:
  const std::string path_;
  std::string place_;
  bool is_mounted_ = false;
};

using ProcessesOnTheGpu = Processes;

/// A cloud's extent and size are no part of any kernel, not even where its keys are longer.
TEST_F(ProcessesOnTheGpu, OnlyTheFirstCompiles) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
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

/// With a bundle and nothing else: no compiler, none allowed, and no folder to keep kernels in.
TEST_F(ProcessesOnTheGpu, R22_ABundleAloneGivesTheSameBytesAsACompiler) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
  if (const std::string reason = why_no_nvrtc(); !reason.empty()) MINUET_SKIP_OR_FAIL("nvrtc", reason);
  const std::string network =
      folder_.file("tiny.json", R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [8],
          "layers": [{"op": "block", "name": "b", "width": 0, "kernel_size": 3},
                     {"op": "block", "name": "c", "width": 0, "kernel_size": 2, "stride": 2}]})");
  const auto run_with = [&](const std::string& cache, const std::string& output) {
    const std::string report = folder_.path("report.json");
    return counts_of(
        {"run", "--device", "cuda:0", "--network", network, "--dtype", "fp16", "--repeat", "1", "--cache",
         cache, "--json", report, "--output", output, "--synthetic", "object", "--points", "500"},
        report);
  };
  const Counts compiled = run_with(cache(), folder_.path("compiled.npy"));
  EXPECT_GT(compiled.compiled, 0);
  EXPECT_EQ(compiled.bundle_hits, 0);
  const std::string bundles = folder_.path("bundles");
  const Finished made = minuet({"precompile", "--network", network, "--dtype", "fp16", "--arch",
                                arch_of_the_gpu(), "--cache", cache(), "--output", bundles});
  ASSERT_EQ(made.code, 0) << made.err;

  const ReadOnlyFolder nowhere(folder_.path("read only"));
  ASSERT_NE(::access(nowhere.place().c_str(), W_OK), 0) << nowhere.place();
  Counts bundled;
  {
    const EnvironmentVariable path("MINUET_BUNDLE_PATH", bundles), jit("MINUET_NO_JIT", "1"),
        nvrtc("MINUET_NVRTC", "/nowhere");
    bundled = run_with(nowhere.place(), folder_.path("bundled.npy"));
  }
  EXPECT_EQ(bundled.compiled, 0);
  EXPECT_EQ(bundled.disk_hits, 0);
  EXPECT_EQ(bundled.bundle_hits, compiled.compiled);
  const std::string bytes = contents(folder_.path("compiled.npy"));
  EXPECT_GT(bytes.size(), 1000u);
  EXPECT_TRUE(contents(folder_.path("bundled.npy")) == bytes);
}

/// The README's way for a segmenter: its head is compiled here, by its weights or by its JSON, and runs
/// there.
TEST_F(ProcessesOnTheGpu, R22_ASegmenterRunsWithItsHeadFromABundleAlone) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
  if (const std::string reason = why_no_nvrtc(); !reason.empty()) MINUET_SKIP_OR_FAIL("nvrtc", reason);
  const auto segmenter = [&](const std::string& name, const std::string& classes) {
    return folder_.file(name, R"({"name": "segmenter", "ndim": 3, "in_channels": 4, "channels": [8],
        "layers": [{"op": "block", "name": "b", "width": 0, "kernel_size": 3},
                   {"op": "head", "name": "head")" +
                                  classes + "}]}");
  };
  const std::string open = segmenter("open.json", ""),
                    closed = segmenter("closed.json", R"(, "classes": 19)");
  const auto filled = [](std::vector<int64_t> shape, int64_t count) {
    return FileTensor{std::move(shape), std::vector<float>(static_cast<size_t>(count), 0.5f)};
  };
  std::map<std::string, FileTensor> tensors{{"b.conv.weight", filled({27, 4, 8}, 27 * 4 * 8)},
                                            {"head.weight", filled({1, 8, 19}, 8 * 19)},
                                            {"head.bias", filled({19}, 19)}};
  for (const char* part : {"weight", "bias", "running_mean", "running_var"})
    tensors["b.bn." + std::string(part)] = filled({8}, 8);
  const std::string weights = folder_.path("weights.safetensors");
  llvm::cantFail(write_safetensors_file(weights, tensors));
  const std::vector<std::vector<std::string>> here = {{"--network", open, "--weights", weights},
                                                      {"--network", closed}};
  for (const std::vector<std::string>& network : here) {
    const std::string bundles = folder_.path("bundles of " + std::to_string(network.size()));
    const Finished made =
        minuet({"precompile", "--arch", arch_of_the_gpu(), "--cache", cache(), "--output", bundles}, network);
    ASSERT_EQ(made.code, 0) << made.err;
    const EnvironmentVariable path("MINUET_BUNDLE_PATH", bundles), jit("MINUET_NO_JIT", "1"),
        nvrtc("MINUET_NVRTC", "/nowhere");
    const std::string report = folder_.path("report.json"), labels = folder_.path("labels.npy");
    std::vector<std::string> words = {
        "run", "--device", "cuda:0", "--repeat", "1", "--cache", folder_.path("unused")};
    for (const char* word :
         {"--network", network[1].c_str(), "--weights", weights.c_str(), "--synthetic", "object", "--points",
          "500", "--labels", "--output", labels.c_str(), "--json", report.c_str()})
      words.push_back(word);
    const Counts counts = counts_of(words, report);
    EXPECT_EQ(counts.compiled, 0);
    EXPECT_GT(counts.bundle_hits, 0);
    EXPECT_GT(contents(labels).size(), 500u);
  }
}

}  // namespace
}  // namespace minuet::tool
