// The tool from outside, with networks so small that every number of the output is known beforehand.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <random>

#include "codegen/base/sha256.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/ply.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

/// A head of an identity matrix: the output is the input's features.
class Identity : public testing::Test {
 protected:
  Identity() { write_weights("w.safetensors", 1, 0); }

  void write_weights(const std::string& name, float diagonal, float bias) const {
    FileTensor weight{{1, 4, 4}, std::vector<float>(16)};
    for (size_t i = 0; i < 4; ++i) weight.values[5 * i] = diagonal;
    llvm::cantFail(write_safetensors_file(
        folder_.path(name), {{"head.weight", weight}, {"head.bias", {{4}, std::vector<float>(4, bias)}}}));
  }
  Finished run(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run", "--device", "cpu"};
    all.insert(all.end(), more.begin(), more.end());
    const auto add = [&](const char* flag, const std::string& value) {
      if (std::find(all.begin(), all.end(), flag) == all.end()) all.insert(all.end(), {flag, value});
    };
    add("--network", network_);
    add("--weights", folder_.path("w.safetensors"));
    return minuet(all);
  }
  std::vector<float> features(const std::string& name) const {
    int64_t rows = 0, columns = 0;
    auto values = read_npy_matrix(contents(folder_.path(name)), rows, columns);
    if (values) return *values;
    ADD_FAILURE() << llvm::toString(values.takeError());
    return {};
  }

  const Folder folder_;
  const std::string network_ = folder_.file("id.json", R"({"name": "id", "ndim": 3, "in_channels": 4,
      "channels": [4], "layers": [{"op": "head", "name": "head", "classes": 4}]})");
};

/// UTM metres at 0.1 m, which float32 does not hold: the voxels of points, given back as integers, have their
/// middles where the points are.
TEST_F(Identity, GivenVoxelsLieOnThePointsGrid) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> place(-3, 3);
  std::string rows;
  for (int i = 0; i < 300; ++i) {
    for (const double middle : {450000.0, 5.4e6, 300.0}) rows += packed(middle + place(random));
  }
  std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (300, 3), }";
  header.resize(118, ' ');
  header.back() = '\n';
  const std::string points =
      folder_.file("points.npy", std::string("\x93NUMPY\x01\x00v\x00", 10) + header + rows);
  const std::string voxels = folder_.path("voxels.npy"), report = folder_.path("report.json");
  for (const std::vector<std::string>& origin :
       {std::vector<std::string>{"--origin", "450000,5400000,300"}, std::vector<std::string>{}}) {
    const auto with = [&](std::vector<std::string> all, const std::string& output) {
      all.insert(all.end(), origin.begin(), origin.end());
      all.insert(all.end(), {"--output", folder_.path(output)});
      const Finished finished = run(all);
      ASSERT_EQ(finished.code, 0) << finished.err;
    };
    with({points, "--output-coordinates", voxels}, "means.npy");
    with({voxels, "--json", report}, "middles.npy");
    with({"--coordinates", voxels}, "same.npy");
    with({voxels}, "middles.ply");
    const std::vector<float> means = features("means.npy"), middles = features("middles.npy");
    EXPECT_EQ(features("same.npy"), middles);
    const llvm::json::Object json = json_in(report);
    const llvm::json::Array& from = *json.getArray("origin");
    const Cloud grid = *read_npy_coordinates(contents(voxels), 3);
    const std::vector<Point> written = points_of(read_ply(contents(folder_.path("middles.ply"))));
    ASSERT_EQ(means.size(), middles.size());
    ASSERT_EQ(written.size(), middles.size() / 4);
    for (size_t row = 0; row < written.size(); ++row) {
      for (size_t axis = 0; axis < 3; ++axis) {
        const double middle = (grid.voxels[4 * row + 1 + axis] + 0.5) * 0.1;
        EXPECT_EQ(middles[4 * row + axis], static_cast<float>(middle - *from[axis].getAsNumber()));
        EXPECT_EQ(written[row][axis], middle);
        if (origin.empty()) continue;  // else both runs chose one of their own
        EXPECT_NEAR(means[4 * row + axis], middles[4 * row + axis], 0.0501);
      }
    }
  }
}

/// The file is replaced while the run waits for its cloud, which is a pipe.
TEST_F(Identity, TheDigestIsOfTheWeightsThatWereRun) {
  write_weights("other.safetensors", 0, 7);
  const std::string weights = folder_.path("w.safetensors"), ran = contents(weights);
  const std::string cloud = folder_.path("cloud.npy"), report = folder_.path("report.json");
  ASSERT_EQ(::mkfifo(cloud.c_str(), 0600), 0);
  std::future<Finished> finished = std::async(std::launch::async, [&] {
    return run({cloud, "--json", report, "--output", folder_.path("o.npy")});
  });
  std::ofstream pipe(cloud, std::ios::binary);  // goes on when the run has opened its end
  std::filesystem::rename(folder_.path("other.safetensors"), weights);
  pipe << npy_bytes(std::vector<int32_t>{1, 2, 3}, {1, 3});
  pipe.close();
  ASSERT_EQ(finished.get().code, 0);
  EXPECT_EQ(features("o.npy"), (std::vector<float>{0.15f, 0.25f, 0.35f, 0}));
  EXPECT_EQ(*json_in(report).getObject("weights"),
            (llvm::json::Object{{"file", weights}, {"sha256", sha256_hex(ran)}}));
}

TEST_F(Identity, WeightsMayBeAPipe) {
  const std::string cloud = folder_.path("cloud.npy"), pipe = folder_.path("pipe");
  std::ofstream(cloud, std::ios::binary) << npy_bytes(std::vector<int32_t>{1, 2, 3}, {1, 3});
  for (const bool is_whole : {true, false}) {
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::future<Finished> finished = std::async(std::launch::async, [&] {
      return run({cloud, "--weights", pipe, "--output", folder_.path("o.npy")});
    });
    const std::string bytes = contents(folder_.path("w.safetensors"));
    std::ofstream(pipe, std::ios::binary) << bytes.substr(0, bytes.size() - (is_whole ? 0 : 4));
    const Finished done = finished.get();
    EXPECT_EQ(done.code, is_whole ? 0 : 2) << done.err;
    EXPECT_THAT(done.err, is_whole ? HasSubstr("") : HasSubstr("weights file " + pipe + ": tensor "));
    std::filesystem::remove(pipe);
  }
  EXPECT_EQ(features("o.npy"), (std::vector<float>{0.15f, 0.25f, 0.35f, 0}));
}

/// A block that gives 80000 for 400, which fp16 does not hold; behind it only a ReLU of its negative is left.
TEST_F(Identity, OverflowsOfHiddenLayersAreTold) {
  const auto tensor = [](std::vector<int64_t> shape, float value) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    return FileTensor{std::move(shape), std::vector<float>(count, value)};
  };
  std::map<std::string, FileTensor> tensors;
  for (const auto& [name, weight] : {std::pair{"a", 50.0f}, std::pair{"b", -1.0f}}) {
    tensors[std::string(name) + ".conv.weight"] = tensor({1, 4, 4}, weight);
    for (const char* part : {"bias", "running_mean"})
      tensors[std::string(name) + ".bn." + part] = tensor({4}, 0);
    for (const char* part : {"weight", "running_var"})
      tensors[std::string(name) + ".bn." + part] = tensor({4}, 1);
  }
  llvm::cantFail(write_safetensors_file(folder_.path("deep.safetensors"), tensors));
  const std::string network = folder_.file("deep.json", R"({"name": "deep", "ndim": 3, "in_channels": 4,
      "channels": [4], "layers": [{"op": "block", "name": "a", "width": 0},
                                  {"op": "block", "name": "b", "width": 0}]})");
  std::ofstream(folder_.path("c.npy"), std::ios::binary) << npy_bytes(std::vector<int32_t>{1, 2, 3}, {1, 3});
  std::ofstream(folder_.path("f.npy"), std::ios::binary) << npy_bytes(std::vector<float>(4, 400.0f), {1, 4});
  const std::string report = folder_.path("report.json");
  const auto deep = [&](const char* dtype) {
    const Finished finished =
        run({"--coordinates", folder_.path("c.npy"), "--features", folder_.path("f.npy"), "--dtype", dtype,
             "--network", network, "--weights", folder_.path("deep.safetensors"), "--json", report});
    EXPECT_EQ(finished.code, 0) << finished.err;
    const llvm::json::Object json = json_in(report);
    const llvm::json::Value* const overflow = json.get("overflow");
    return std::pair(finished.err, overflow ? *overflow : llvm::json::Value(nullptr));
  };
  const auto [lost, layer] = deep("fp16");
  EXPECT_THAT(
      lost,
      HasSubstr("the layer a gives numbers that are infinite or NaN (the largest fp16 number is 65504)"));
  EXPECT_EQ(layer, llvm::json::Value("a"));
  const auto [whole, none] = deep("bf16");
  EXPECT_EQ(whole, "");
  EXPECT_EQ(none, llvm::json::Value(nullptr));
}

}  // namespace
}  // namespace minuet::tool
