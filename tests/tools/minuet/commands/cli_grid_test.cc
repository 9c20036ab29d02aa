// Detection networks through the tool: from points to the bird's-eye tensor.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "tests/support/compare.h"
#include "tests/support/detection_oracle.h"
#include "tests/support/random.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

constexpr const char* kRange = "-1,0.5,-3,1.2,2.25,1";
constexpr const char* kVoxelSize = "0.05,0.05,0.1";
/// What they make: 44 x 35 voxels, and 40 along z, where the network has one cell more.
constexpr oracle::Triple kShape{44, 35, 41};
constexpr double kLow[3] = {-1, 0.5, -3}, kHigh[3] = {1.2, 2.25, 1}, kSize[3] = {0.05, 0.05, 0.1};

Finished expect_done(const std::vector<std::string>& arguments, const std::vector<std::string>& more = {}) {
  Finished finished = minuet(arguments, more);
  EXPECT_EQ(finished.code, 0) << finished.err;
  return finished;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& words) {
  const Finished finished = minuet(arguments);
  EXPECT_EQ(finished.code, 2) << words;
  EXPECT_THAT(finished.err, HasSubstr(words));
}

/// Points inside and outside the range, several in most voxels.
std::vector<std::array<float, 4>> draw_points(int count, uint64_t seed) {
  Random random(seed);
  std::vector<std::array<float, 4>> points;
  for (int i = 0; i < count; ++i) {
    std::array<float, 4> point{};
    for (size_t axis = 0; axis < 3; ++axis) {
      const double middle = 0.5 * (kLow[axis] + kHigh[axis]), width = (kHigh[axis] - kLow[axis]) * 0.6;
      point[axis] = static_cast<float>(middle + width * random.uniform(-1, 1));
    }
    // Most points lie on a floor.
    if (i % 3 != 0) point[2] = -1.73f + 0.02f * static_cast<float>(random.uniform(-1, 1));
    point[3] = static_cast<float>(random.uniform());
    points.push_back(point);
    if (i % 2 == 0) points.push_back({point[0] + 0.004f, point[1], point[2], point[3] / 2});
  }
  return points;
}

std::string bin_of(const std::vector<std::array<float, 4>>& points) {
  std::string bytes;
  for (const auto& point : points)
    for (const float value : point) bytes += packed(value);
  return bytes;
}

struct Voxels {
  oracle::DetectionInput input;
  int64_t outside = 0, past_points = 0, past_voxels = 0;
};

/// The definition: cells in float32, means in fp64, the first points of a voxel and the first voxels.
Voxels voxelize(const std::vector<std::array<float, 4>>& points, int channels, int64_t most_points,
                int64_t most_voxels) {
  Voxels voxels;
  voxels.input.shape = kShape;
  voxels.input.channels = channels;
  std::map<std::array<int, 3>, size_t> rows;
  std::vector<std::array<double, 4>> sums;
  std::vector<int64_t> counts;
  for (const auto& point : points) {
    std::array<int, 3> cell{};
    bool is_inside = true;
    for (size_t a = 0; a < 3; ++a) {
      const auto low = static_cast<float>(kLow[a]), size = static_cast<float>(kSize[a]);
      is_inside &= point[a] >= low && point[a] < static_cast<float>(kHigh[a]);
      cell[a] = static_cast<int>(std::floor((point[a] - low) / size));
      is_inside &= cell[a] < kShape[a] - (a == 2 ? 1 : 0);
    }
    voxels.outside += !is_inside;
    if (!is_inside) continue;
    const bool is_new = rows.count(cell) == 0;
    if (is_new && most_voxels > 0 && static_cast<int64_t>(rows.size()) == most_voxels) {
      ++voxels.past_voxels;
      continue;
    }
    const size_t row = rows.emplace(cell, rows.size()).first->second;
    if (is_new) {
      sums.push_back({});
      counts.push_back(0);
      voxels.input.coordinates.insert(voxels.input.coordinates.end(), {0, cell[0], cell[1], cell[2]});
    }
    if (most_points > 0 && counts[row] == most_points) {
      ++voxels.past_points;
      continue;
    }
    ++counts[row];
    for (size_t c = 0; c < 4; ++c) sums[row][c] += static_cast<double>(point[c]);
  }
  for (size_t row = 0; row < sums.size(); ++row) {
    for (const double sum : sums[row])
      voxels.input.features.push_back(static_cast<float>(sum / static_cast<double>(counts[row])));
    for (int c = 4; c < channels; ++c) voxels.input.features.push_back(0);
  }
  return voxels;
}

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Reads an NPY file of float32 of any rank, as this tool writes it.
Tensor tensor_in(const std::string& path) {
  const std::string bytes = contents(path);
  Tensor tensor;
  const size_t at = bytes.find("'shape': (");
  if (at == std::string::npos) {
    ADD_FAILURE() << "no shape in " << path;
    return tensor;
  }
  for (size_t i = at + 10; bytes[i] != ')';) {
    if (bytes[i] < '0' || bytes[i] > '9') {
      ++i;
      continue;
    }
    int64_t extent = 0;
    for (; bytes[i] >= '0' && bytes[i] <= '9'; ++i) extent = 10 * extent + (bytes[i] - '0');
    tensor.shape.push_back(extent);
  }
  const size_t begin =
      10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  tensor.values.resize((bytes.size() - begin) / 4);
  std::memcpy(tensor.values.data(), bytes.data() + begin, 4 * tensor.values.size());
  return tensor;
}

std::vector<std::string> run(const std::string& network, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"run",  "--device",     "cpu",      "--network",  network,       "--range",
                                  kRange, "--voxel-size", kVoxelSize, "--channels", "8,8,12,16,20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

using Evaluate = oracle::DetectionOutput (*)(oracle::Checkpoint&, const oracle::DetectionInput&);
const std::vector<int32_t> kWidths = {8, 8, 12, 16, 20};

void check_network(const std::string& network, Evaluate evaluate, int channels, int64_t most_points,
                   int64_t most_voxels) {
  SCOPED_TRACE(network);
  const Folder folder;
  const auto points = draw_points(400, 46);
  const Voxels voxels = voxelize(points, channels, most_points, most_voxels);
  ASSERT_GT(voxels.outside, 0);
  ASSERT_EQ(voxels.past_points > 0, most_points > 0);
  ASSERT_EQ(voxels.past_voxels > 0, most_voxels > 0);
  oracle::Checkpoint checkpoint(7);
  const oracle::DetectionOutput expected = evaluate(checkpoint, voxels.input);
  const std::string weights = folder.path("w.safetensors"), cloud = folder.file("p.bin", bin_of(points));
  write_safetensors(weights, checkpoint.all());
  std::vector<std::string> more = {
      cloud,    "--columns",          "4", "--weights", weights, "--output", folder.path("bev.npy"),
      "--json", folder.path("r.json")};
  if (most_points > 0) more.insert(more.end(), {"--max-points", std::to_string(most_points)});
  if (most_voxels > 0) more.insert(more.end(), {"--max-voxels", std::to_string(most_voxels)});
  const Finished finished = expect_done(run(network, more));
  EXPECT_THAT(finished.out, HasSubstr("range: -1,0.5,-3 to 1.2,2.25,1 m, 44 x 35 x 41 cells"));
  const Tensor bev = tensor_in(folder.path("bev.npy"));
  EXPECT_EQ(bev.shape, std::vector<int64_t>(expected.bev_shape.begin(), expected.bev_shape.end()));
  EXPECT_TRUE(is_close(bev.values, expected.bev, expected.bev_shape[3], error_bound(DType::F32, true)));
  const llvm::json::Object report = json_in(folder.path("r.json"));
  EXPECT_EQ(report.getInteger("outside"), voxels.outside);
  EXPECT_EQ(report.getInteger("past_max_points"), voxels.past_points);
  EXPECT_EQ(report.getInteger("past_max_voxels"), voxels.past_voxels);
  EXPECT_EQ(report.getInteger("voxels"), static_cast<int64_t>(voxels.input.coordinates.size()) / 4);
  EXPECT_EQ(*report.getArray("shape"), (llvm::json::Array{44, 35, 41}));
  EXPECT_EQ(*report.getArray("range"), (llvm::json::Array{-1.0, 0.5, -3.0, 1.2, 2.25, 1.0}));
  const llvm::json::Object& output = *report.getObject("output");
  EXPECT_EQ(*output.getArray("shape"), llvm::json::Array(expected.bev_shape));
  EXPECT_EQ(output.get("rows"), nullptr);
}

TEST(CliGrid, NetworksFromPointsToTheBirdsEyeTensor) {
  check_network(
      "voxel_backbone_8x",
      [](oracle::Checkpoint& checkpoint, const oracle::DetectionInput& input) {
        return oracle::voxel_backbone_8x(checkpoint, kWidths, input);
      },
      4, 0, 0);
  check_network(
      "voxel_res_backbone_8x",
      [](oracle::Checkpoint& checkpoint, const oracle::DetectionInput& input) {
        return oracle::voxel_res_backbone_8x(checkpoint, kWidths, input);
      },
      4, 1, 0);
  check_network(
      "bevfusion_encoder",
      [](oracle::Checkpoint& checkpoint, const oracle::DetectionInput& input) {
        return oracle::bevfusion_encoder(checkpoint, kWidths, input);
      },
      5, 1, 150);
}

/// The number of bird's-eye cells that are at most one away from a cell of the level.
int64_t cells_around(const oracle::DetectionLevel& level) {
  std::set<std::array<int32_t, 2>> cells;
  for (size_t i = 0; i < level.coordinates.size(); i += 4) {
    for (int32_t x = -1; x <= 1; ++x)
      for (int32_t y = -1; y <= 1; ++y)
        cells.insert({level.coordinates[i + 1] / level.tensor_stride[0] + x,
                      level.coordinates[i + 2] / level.tensor_stride[1] + y});
  }
  return static_cast<int64_t>(cells.size());
}

TEST(CliGrid, DefaultsAreKittisAndNuScenes) {
  const Folder folder;
  const std::string cloud =
      folder.file("p.bin", bin_of({{5.02f, 1, -0.95f, 0.5f}, {200, 0, 0, 0}, {30.02f, -20.02f, 0.05f, 1}}));
  const auto report_of = [&](const std::string& network) {
    expect_done({"run", cloud, "--columns", "4", "--device", "cpu", "--network", network, "--json",
                 folder.path("r.json"), "--output", folder.path("bev.npy")});
    return json_in(folder.path("r.json"));
  };
  llvm::json::Object report = report_of("voxel_backbone_8x");
  EXPECT_EQ(*report.getArray("shape"), (llvm::json::Array{1408, 1600, 41}));
  EXPECT_EQ(*report.getObject("output")->getArray("shape"), (llvm::json::Array{1, 256, 200, 176}));
  EXPECT_EQ(report.getInteger("outside"), int64_t{1});
  report = report_of("bevfusion_encoder");
  EXPECT_EQ(*report.getArray("shape"), (llvm::json::Array{1440, 1440, 41}));
  EXPECT_EQ(*report.getObject("output")->getArray("shape"), (llvm::json::Array{1, 256, 180, 180}));
  report = report_of("voxelnext");
  EXPECT_EQ(*report.getArray("shape"), (llvm::json::Array{1440, 1440, 41}));
  const llvm::json::Object& output = *report.getObject("output");
  EXPECT_EQ(output.getInteger("channels"), int64_t{128});
  oracle::DetectionInput input;
  input.shape = {1440, 1440, 41};
  input.coordinates = {0, 786, 733, 20, 0, 1120, 453, 25};
  input.features.assign(2 * 4, 1);
  oracle::Checkpoint checkpoint(1);
  const oracle::DetectionOutput expected = oracle::voxelnext(checkpoint, {4, 4, 4, 4, 4, 4}, input);
  const auto rows = static_cast<int64_t>(expected.levels.at("encoded").coordinates.size() / 4);
  EXPECT_EQ(output.getInteger("rows"), rows);
  EXPECT_GT(rows, cells_around(expected.levels.at("x_conv4"))) << "the unions have more cells";
}

TEST(CliGrid, ListsTheNetworks) {
  const Finished finished = expect_done({"run", "--list-networks"});
  const std::vector<std::string> names = {"minkunet42",
                                          "sparseresnet21d",
                                          "minkunet14a",
                                          "minkunet18a",
                                          "minkunet34a",
                                          "minkunet34c",
                                          "spunet34",
                                          "softgroup_unet",
                                          "voxel_backbone_8x",
                                          "voxel_res_backbone_8x",
                                          "bevfusion_encoder",
                                          "voxelnext",
                                          "octformer_block",
                                          "minkunet34c_points",
                                          "spvcnn_point_branch",
                                          "shape_autoencoder"};
  llvm::SmallVector<llvm::StringRef, 16> lines;
  llvm::StringRef(finished.out).split(lines, '\n', -1, /*KeepEmpty=*/false);
  ASSERT_EQ(lines.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(lines[i].split(' ').first, llvm::StringRef(names[i]));
    EXPECT_FALSE(lines[i].split(' ').second.trim().empty());
  }
}

/// Voxels of a file are cells of the grid, and a batch of them has as many images.
TEST(CliGrid, VoxelsOfAFile) {
  const Folder folder;
  const std::vector<int32_t> cells = {0, 3, 4, 5, 2, 43, 34, 40};
  const std::string coordinates = folder.file("c.npy", npy_bytes(cells, {2, 4}));
  expect_done(run("voxel_backbone_8x", {"--coordinates", coordinates, "--output", folder.path("bev.npy")}));
  EXPECT_EQ(tensor_in(folder.path("bev.npy")).shape, (std::vector<int64_t>{3, 40, 5, 6}));
  const std::vector<int32_t> far = {0, 3, 4, 41};
  expect_refused(run("voxel_backbone_8x", {"--coordinates", folder.file("f.npy", npy_bytes(far, {1, 4}))}),
                 "axis 2");
  const std::vector<int32_t> last_batch = {std::numeric_limits<int32_t>::max(), 3, 4, 5};
  expect_refused(
      run("voxel_backbone_8x", {"--coordinates", folder.file("b.npy", npy_bytes(last_batch, {1, 4}))}),
      "voxel 0 has the batch index 2147483647");
}

TEST(CliGrid, TheShapeOfAJsonFileMustFitTheRange) {
  const Folder folder;
  const std::string cloud = folder.file("p.bin", bin_of(draw_points(50, 3)));
  const auto network = [&](const std::string& shape) {
    return folder.file("n.json",
                       R"({"name": "n", "ndim": 3, "in_channels": 4, "shape": )" + shape + R"(, "layers": [
        {"op": "block", "name": "a", "out_channels": 4, "kernel_size": 3},
        {"op": "to_dense", "output": "dense"}]})");
  };
  const auto shape_with = [&](const std::string& shape) {
    expect_done({"run", cloud, "--columns", "4", "--device", "cpu", "--network", network(shape), "--range",
                 kRange, "--voxel-size", kVoxelSize, "--output", folder.path("o.npy")});
    return tensor_in(folder.path("o.npy")).shape;
  };
  EXPECT_EQ(shape_with("[44, 36, 41]"), (std::vector<int64_t>{1, 4, 44, 36, 41}));
  expect_refused({"run", cloud, "--device", "cpu", "--network", network("[44, 37, 39]"), "--range", kRange,
                  "--voxel-size", kVoxelSize},
                 "along y, but the network");
  expect_refused({"run", cloud, "--device", "cpu", "--network", network("[44, 36, 41]")},
                 "has a shape, so the place of its cells must be known: give --range");
}

TEST(CliGrid, ContradictionsAreRefused) {
  const Folder folder;
  const std::string cloud = folder.file("p.bin", bin_of(draw_points(20, 4)));
  const std::string bev = folder.path("bev.npy");
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all = {cloud, "--columns", "4"};
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(run("voxel_backbone_8x", all), words);
  };
  refused({"--output", folder.path("bev.ply")},
          "must end in .npy, because the output of voxel_backbone_8x is");
  refused({"--output", bev, "--labels", "--random-weights"},
          "--labels is for outputs with a row for each voxel");
  refused({"--output", bev, "--per-point"}, "--per-point is for outputs with a row for each voxel");
  refused({"--output-coordinates", folder.path("c.npy")}, "--output-coordinates is for outputs with a row");
  refused({"--origin", "1,2,3"}, "--range and --origin exclude each other");
  refused({"--max-points", "0"}, "--max-points");
  expect_refused({"run", cloud, "--network", "voxel_backbone_8x", "--origin", "1,2,3"},
                 "--origin is for networks whose input has no shape");
  expect_refused({"run", cloud, "--max-voxels", "3"}, "add --range and a cloud of points");
  expect_refused({"run", cloud, "--range", "0,0,0,1,1"}, "has 5 numbers: give six");
  expect_refused({"run", cloud, "--range", "0,0,0,1,0,1"}, "goes from 0 to 0 along y");
  expect_refused(
      {"run", cloud, "--network", "voxel_backbone_8x", "--range", "0,0,0,1,1,1", "--voxel-size", "4"},
      "has 0 voxels");
  // 8 cells along z leave none behind the last layer.
  expect_refused(
      {"run", cloud, "--device", "cpu", "--network", "voxel_backbone_8x", "--range", "0,0,0,4,4,0.8"},
      "kernel_size");
}

/// Networks whose input has no shape take voxels of a range too, with features in the cloud's own frame.
TEST(CliGrid, OtherNetworksTakeARange) {
  const Folder folder;
  const std::string cloud = folder.file("p.bin", bin_of(draw_points(60, 5)));
  const Finished finished = expect_done(
      {"run", cloud, "--columns", "4", "--device", "cpu", "--network", "sparseresnet21d", "--channels",
       "4,4,4,4", "--range", kRange, "--voxel-size", "0.1", "--output-coordinates", folder.path("c.npy")});
  EXPECT_THAT(finished.out, HasSubstr("22 x 18 x 40 cells"));
  EXPECT_THAT(finished.out, HasSubstr("outside the range"));
}

TEST(CliGrid, BenchAndViewTakeThem) {
  const Folder folder;
  const std::string cloud = folder.file("p.bin", bin_of(draw_points(300, 6)));
  const std::vector<std::string> grid = {"--range", kRange, "--voxel-size", kVoxelSize};
  for (const char* network : {"voxel_res_backbone_8x", "bevfusion_encoder"}) {
    const Finished bench =
        expect_done({"bench", "--device", "cpu", "--network", network, "--cloud", cloud, "--columns", "4",
                     "--variants", "1", "--output", folder.path("b.json")},
                    grid);
    EXPECT_THAT(bench.out, HasSubstr("median, ms"));
    const llvm::json::Object result = json_in(folder.path("b.json"));
    EXPECT_EQ(*(*result.getArray("clouds"))[0].getAsObject()->getArray("voxel_size"),
              (llvm::json::Array{0.05, 0.05, 0.1}));
  }
  const Finished replay = expect_done({"bench", "--device", "cpu", "--network", "voxel_backbone_8x",
                                       "--cloud", cloud, "--columns", "4", "--variants", "1", "--replay"},
                                      grid);
  EXPECT_THAT(replay.out, HasSubstr("median, ms"));
  expect_done(run("voxel_backbone_8x", {cloud, "--columns", "4", "--replay", "--repeat", "2"}));
  const Finished view = expect_done({"view", cloud, "--columns", "4", "--device", "cpu", "--network",
                                     "voxel_backbone_8x", "--output", folder.path("v.html")},
                                    grid);
  EXPECT_THAT(view.out, HasSubstr("outside the range; voxels of 0.05 x 0.05 x 0.1 m"));
}

}  // namespace
}  // namespace minuet::tool
