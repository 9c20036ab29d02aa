// Bad input: one sentence on stderr, exit code 2, nothing on stdout, and never a crash.
#include <gmock/gmock.h>

#include "tests/tools/bytes.h"
#include "tests/tools/folder.h"
#include "tools/minuet/writers/npy.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

void expect_refused(const std::vector<std::string>& arguments,
                    const testing::Matcher<std::string>& sentence) {
  std::string line;
  for (const std::string& argument : arguments) line += " " + argument;
  SCOPED_TRACE("minuet" + line);
  const Finished finished = minuet(arguments);
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_THAT(finished.err, testing::StartsWith("minuet: "));
  EXPECT_THAT(finished.err, sentence);
  EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1) << finished.err;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& words) {
  expect_refused(arguments, testing::Matcher<std::string>(HasSubstr(words)));
}
void expect_refused(const std::vector<std::string>& arguments, const char* words) {
  expect_refused(arguments, std::string(words));
}

/// `run --device cpu` with narrow widths, and what the test adds.
std::vector<std::string> narrow_run(std::vector<std::string> more) {
  std::vector<std::string> all = {"run",        "--device", "cpu", "--network", "sparseresnet21d",
                                  "--channels", "4,4,4,4"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string bin(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values) bytes += packed(value);
  return bytes;
}

TEST(CliErrors, Flags) {
  expect_refused({}, "command is missing");
  expect_refused({"fly"}, "fly");
  expect_refused({"run"}, "no cloud");
  expect_refused({"run", "--sideways", "x"}, "--sideways");
  expect_refused({"run", "a.bin", "--synthetic", "room"}, "exclude");
  expect_refused({"run", "--features", "f.npy", "a.bin"}, "--coordinates");
  expect_refused({"run", "a.bin", "--repeat", "many"}, "--repeat");
  expect_refused({"run", "a.bin", "--repeat", "0"}, "--repeat");
  expect_refused({"run", "a.bin", "--columns", "2"}, "--columns");
  expect_refused({"run", "a.bin", "--output", "out.txt"}, ".npy or .ply");
  expect_refused({"run", "a.bin", "--labels"}, "--output");
  expect_refused({"run", "--synthetic", "room", "--points", "-5"}, "--points");
  expect_refused(narrow_run({"--synthetic", "moon"}), "moon");
  expect_refused(narrow_run({"--synthetic", "room", "--dtype", "fp8"}), "fp8");
  expect_refused({"run", "--synthetic", "room", "--device", "tpu"}, "tpu");
  expect_refused({"run", "--synthetic", "room", "--device", "cuda:977"},
                 testing::AnyOf(HasSubstr("there is no CUDA driver"), HasSubstr("there is no GPU cuda:977")));
  expect_refused({"run", "--synthetic", "room", "--device", "cpu", "--network", "resnet50"}, "resnet50");
  expect_refused({"run", "--synthetic", "room", "--device", "cpu", "--channels", "1,2"}, "2");
  expect_refused({"run", "--synthetic", "room", "--device", "cpu", "--channels", "1,x"}, "--channels");
  expect_refused({"precompile", "--network", "nothing"}, "nothing");
  expect_refused({"precompile", "--dtype", "int8"}, "int8");
  expect_refused({"precompile", "--network", "sparseresnet21d", "--arch", "sm_1"}, "sm_1");
  expect_refused({"bench", "--device", "cpu", "--cloud", "mars"}, "mars");
}

TEST(CliErrors, Benchmarks) {
  const Folder folder;
  const auto refused = [](std::vector<std::string> more, const std::string& words) {
    more.insert(more.begin(), {"bench", "--device", "cpu", "--network", "sparseresnet21d"});
    expect_refused(more, words);
  };
  const std::string voxels = folder.path("voxels.npy"), cloud = folder.file("one.bin", bin({1, 2, 3, 4}));
  write_bytes(voxels, npy_bytes(std::vector<int32_t>{1, 2, 3}, {1, 3}));
  refused({"--cloud", folder.path("none.ply")}, "none.ply");
  refused({"--cloud", folder.file("cloud.xyz", "1 2 3")}, "cloud.xyz");
  refused({"--cloud", folder.file("bad.pcd", "nonsense")}, "bad.pcd");
  refused({"--cloud", folder.file("nan.bin", bin({1, 2, NAN, 4}))}, "NaN");
  refused({"--cloud", voxels}, "holds voxels");
  refused({"--cloud", cloud, "--voxel-size", "0"}, "voxel size");
  refused({"--cloud", cloud, "--voxel-size", "big"}, "--voxel-size");
  refused({"--cloud", "object_0.01", "--voxel-size", "0.1"}, "--voxel-size");
  refused({"--cloud", "object_0.01", "--columns", "5"}, "--columns");
  refused({"--cloud", "os1_0.1", "--data", folder.path("")}, "--data");
  // Before anything is measured: stdout is empty.
  for (const char* output : {"/nowhere/x.json", "/nowhere/", "/proc/x.json"}) {
    refused({"--cloud", cloud, "--output", output}, output);
  }
  refused({"--cloud", cloud, "--output", folder.path("x.txt")}, ".json");
  refused({"--cloud", cloud, "--output", folder.path("x.json"), "--dtype", "fp32,bf16"}, "one --network");
  refused({"--cloud", cloud, "--output", folder.path(""), "--dtype", "bf16,bf16"}, "two results");
}

TEST(CliErrors, ExtentsThatAKindCannotHave) {
  const std::string lidar = "a lidar cloud is 10 to 1000 metres across, and --extent is ";
  expect_refused(narrow_run({"--synthetic", "lidar", "--points", "1000", "--extent", "0.5"}), lidar + "0.5:");
  expect_refused(narrow_run({"--synthetic", "lidar", "--extent", "1e6"}), lidar + "1e+06:");
  expect_refused(narrow_run({"--synthetic", "lidar", "--extent", "nan"}), "--extent");
  expect_refused(narrow_run({"--synthetic", "room", "--extent", "1e-3"}), "0.5 to 1e+06 metres");
}

TEST(CliErrors, Files) {
  const Folder folder;
  expect_refused(narrow_run({folder.path("missing.bin")}), "missing.bin");
  expect_refused(narrow_run({folder.file("empty.bin", "")}), "empty");
  expect_refused(narrow_run({folder.file("cloud.xyz", "1 2 3\n")}), ".npy");
  expect_refused(narrow_run({"/tmp/.npy/../.."}), "does not end in");
  expect_refused(narrow_run({folder.file("short.bin", bin({1, 2, 3}))}), "truncated");
  expect_refused(narrow_run({folder.file("nan.bin", bin({1, 2, NAN, 4}))}), "--skip-invalid");
  expect_refused(narrow_run({folder.file("far.bin", bin({1e12f, 2, 3, 4}))}), "too coarse for voxels");
  for (const char* name : {"bad.ply", "bad.pcd", "bad.npy"}) {
    expect_refused(narrow_run({folder.file(name, "nonsense")}), "not a");
    expect_refused(narrow_run({folder.file(name, "nonsense"), "--skip-invalid"}), name);
  }
  llvm::sys::fs::create_directory(folder.path("folder.npy"));
  expect_refused(narrow_run({folder.path("folder.npy")}), "folder.npy");
}

TEST(CliErrors, VoxelSizes) {
  const Folder folder;
  const std::string cloud = folder.file("cloud.bin", bin({1, 2, 3, 4}));
  for (const char* size : {"0", "-0.1", "nan", "inf", "0.0", "1e-50", "big", ""}) {
    expect_refused(narrow_run({cloud, "--voxel-size", size}), "voxel");
  }
}

TEST(CliErrors, CloudsOutsideTheKeyRange) {
  const Folder folder;
  const std::string path = folder.path("far.npy");
  const int32_t least = -2147483647 - 1, most = 2147483647;
  const std::vector<int32_t> corners = {0, least, least, least, 0, most, most, most};
  write_bytes(path, npy_bytes(corners, {2, 4}));
  expect_refused(narrow_run({path, "--voxel-size", "1e-6"}), "too coarse");
  const std::string features = folder.file("ones.npy", npy_bytes(std::vector<float>(8, 1.0f), {2, 4}));
  expect_refused(narrow_run({"--coordinates", path, "--features", features}), "64-bit key");
}

TEST(CliErrors, Voxels) {
  const Folder folder;
  const std::string twice = folder.path("twice.npy"), good = folder.path("good.npy");
  write_bytes(twice, npy_bytes(std::vector<int32_t>{1, 2, 3, 1, 2, 3}, {2, 3}));
  write_bytes(good, npy_bytes(std::vector<int32_t>{1, 2, 3, 1, 2, 4}, {2, 3}));
  expect_refused(narrow_run({twice}), "duplicate");
  const std::string three = folder.path("three.npy"), wide = folder.path("wide.npy"),
                    bad = folder.path("bad.npy");
  write_bytes(three, npy_bytes(std::vector<float>(12), {3, 4}));
  write_bytes(wide, npy_bytes(std::vector<float>(10), {2, 5}));
  write_bytes(bad, npy_bytes(std::vector<float>(8, NAN), {2, 4}));
  expect_refused(narrow_run({"--coordinates", good, "--features", three}), "3 rows");
  expect_refused(narrow_run({"--coordinates", good, "--features", wide}), "5 columns");
  expect_refused(narrow_run({"--coordinates", good, "--features", bad}), "nan");
  expect_refused(narrow_run({"--coordinates", bad}), "integers");
}

TEST(CliErrors, Weights) {
  const Folder folder;
  const std::string cloud = folder.file("cloud.bin", bin({1, 2, 3, 4}));
  expect_refused(narrow_run({cloud, "--weights", folder.path("missing.safetensors")}), "missing.safetensors");
  expect_refused(narrow_run({cloud, "--weights", folder.file("short.safetensors", "abc")}),
                 "short.safetensors");
  const std::string header = R"({"head.weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::string other = packed<uint64_t>(header.size()) + header + packed(1.0f);
  expect_refused(narrow_run({cloud, "--weights", folder.file("other.safetensors", other)}), "stage.0");
  const std::string huge = packed<uint64_t>(~uint64_t{0} >> 1) + header;
  expect_refused(narrow_run({cloud, "--weights", folder.file("huge.safetensors", huge)}), "huge.safetensors");
}

TEST(CliErrors, NetworkFiles) {
  const Folder folder;
  const std::string cloud = folder.file("cloud.bin", bin({1, 2, 3, 4}));
  for (const char* text : {"", "{", "[]", "{}", "{\"name\": 3}", "\xff\xfe"}) {
    expect_refused({"run", "--device", "cpu", cloud, "--network", folder.file("network.json", text)},
                   "network");
  }
}

TEST(CliErrors, OutputsThatCannotBeWritten) {
  const Folder folder;
  const std::string cloud = folder.file("cloud.bin", bin({1, 2, 3, 4}));
  expect_refused(narrow_run({cloud, "--output", "/nowhere/out.npy"}), "/nowhere/out.npy");
  expect_refused(narrow_run({cloud, "--output-coordinates", "/nowhere/c.npy"}), "/nowhere/c.npy");
  expect_refused(narrow_run({cloud, "--json", "/nowhere/r.json"}), "/nowhere/r.json");
  llvm::sys::fs::create_directory(folder.path("out.npy"));
  expect_refused(narrow_run({cloud, "--output", folder.path("out.npy")}), "out.npy");
}

}  // namespace
}  // namespace minuet::tool
