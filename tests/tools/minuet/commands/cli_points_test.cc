// From points to voxels and to labels through the tool: voxels that the tool makes on the device that runs
// the network, networks that make voxels themselves, and networks that make other levels in a run.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "tests/support/environment.h"
#include "tests/support/expect.h"
#include "tests/support/golden.h"
#include "tests/support/random.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/commands/gpu.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

constexpr const char* kTiny = R"({"name": "tiny", "ndim": 3, "in_channels": 4, "channels": [4],
    "layers": [{"op": "block", "name": "b", "width": 0, "kernel_size": 1}]})";
constexpr const char* kNarrow = "8,8,8,12,16,16,12,8,8";

/// The values of an NPY file of 4-byte elements as the tool writes it, row by row.
template <class T>
std::vector<T> values_in(const std::string& path) {
  const std::string bytes = contents(path);
  if (bytes.size() < 10) {
    ADD_FAILURE() << path << " has " << bytes.size() << " bytes";
    return {};
  }
  const size_t begin =
      10 + static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  std::vector<T> values((bytes.size() - begin) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + begin, sizeof(T) * values.size());
  return values;
}

/// Points in clusters, so that most voxels of 0.05 m have several, some of which are not finite.
std::vector<std::array<float, 4>> draw_points(int count, uint64_t seed, bool with_invalid) {
  Random random(seed);
  std::vector<std::array<float, 4>> points;
  for (int i = 0; i < count; ++i) {
    std::array<float, 4> point{};
    for (float& number : point) number = static_cast<float>(random.uniform(-0.6, 0.6));
    if (i % 3 != 0) point[2] = 0.02f * static_cast<float>(random.uniform(-1, 1));
    if (with_invalid && i % 17 == 5) point[1] = std::numeric_limits<float>::quiet_NaN();
    points.push_back(point);
  }
  return points;
}

std::string bin_of(const std::vector<std::array<float, 4>>& points) {
  std::string bytes;
  for (const auto& point : points)
    for (const float value : point) bytes += packed(value);
  return bytes;
}

/// The voxels of 0.05 m that have a finite point, counted from `corner`.
std::set<std::array<double, 3>> cells_of(const std::vector<std::array<float, 4>>& points,
                                         const std::array<double, 3>& corner) {
  std::set<std::array<double, 3>> cells;
  for (const auto& point : points) {
    std::array<double, 3> cell{};
    for (size_t a = 0; a < 3; ++a) cell[a] = std::floor((double{point[a]} - corner[a]) / 0.05);
    if (std::isfinite(cell[0]) && std::isfinite(cell[1]) && std::isfinite(cell[2])) cells.insert(cell);
  }
  return cells;
}

class CliPoints : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "cpu") return;
    if (const std::string reason = why_no_gpu(); !reason.empty()) MINUET_SKIP_OR_FAIL("gpu", reason);
  }
  Finished expect_done(std::vector<std::string> arguments, const std::vector<std::string>& more = {}) const {
    arguments.insert(arguments.end(), {"--device", GetParam(), "--cache", folder_.path("cache")});
    Finished finished = minuet(arguments, more);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished;
  }
  void expect_refused(std::vector<std::string> arguments, const std::string& words) const {
    arguments.insert(arguments.end(), {"--device", GetParam()});
    const Finished finished = minuet(arguments);
    EXPECT_EQ(finished.code, 2) << words;
    EXPECT_THAT(finished.err, HasSubstr(words));
  }
  /// The line of the report that begins with the number of points.
  std::string counts(const std::vector<std::string>& cloud) const {
    const std::string tiny = folder_.file("tiny.json", kTiny);
    const Finished finished = expect_done({"run", "--network", tiny, "--dtype", "fp32"}, cloud);
    const size_t at = finished.out.find(" points");
    if (at == std::string::npos) return finished.out;
    const size_t begin = finished.out.rfind('\n', at) + 1;
    return finished.out.substr(begin, finished.out.find(';', at) - begin);
  }
  bool is_cpu() const { return std::string(GetParam()) == "cpu"; }

  const Folder folder_;
};

/// Version 0.3 printed these lines, whose voxels its own loops on the CPU made.
TEST_P(CliPoints, CountsAreThoseOfTheVoxelsMadeOnTheCpu) {
  EXPECT_EQ(counts({"--synthetic", "room", "--points", "2000", "--seed", "7", "--voxel-size", "0.1"}),
            "2000 points, 1457 voxels of 0.1 m");
  EXPECT_EQ(counts({"--synthetic", "lidar", "--points", "3000", "--seed", "7", "--voxel-size", "0.2",
                    "--range", "-10,-10,-3,10,12,1", "--max-points", "2", "--max-voxels", "300"}),
            "3000 points, 1746 outside the range, 93 past --max-points, 782 past --max-voxels, 300 voxels of "
            "0.2 m");
  const std::vector<std::array<float, 4>> drawn = draw_points(400, 3, /*with_invalid=*/true);
  const std::string cloud = folder_.file("p.bin", bin_of(drawn));
  EXPECT_EQ(counts({cloud, "--skip-invalid", "--voxel-size", "0.05"}),
            "400 points, 24 invalid ones dropped, " + std::to_string(cells_of(drawn, {}).size()) +
                " voxels of 0.05 m");
}

TEST_P(CliPoints, CountsOfARecordedCloud) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  EXPECT_EQ(counts({shared_folder() + "/data/pcl_room_scan1.bin", "--columns", "3", "--voxel-size", "0.05"}),
            "112586 points, 27906 voxels of 0.05 m");
}

/// The voxels of one cloud, made by the tool and by the network, give the same bits.
TEST_P(CliPoints, ANetworkFromPointsGivesWhatVoxelsOfTheToolGive) {
  const std::vector<std::array<float, 4>> drawn = draw_points(900, 5, /*with_invalid=*/true);
  const std::string cloud = folder_.file("p.bin", bin_of(drawn));
  const auto layers = [](const char* first, const char* last) {
    return R"({"name": "both", "ndim": 3, )" + std::string(first) +
           R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3},
              {"op": "linear", "name": "b", "out_channels": 5)" +
           last + "]}";
  };
  const std::string voxels =
      folder_.file("voxels.json", layers(R"("in_channels": 4, "channels": [8], "layers": [)", "}"));
  const std::string points = folder_.file(
      "points.json",
      layers(R"("inputs": [{"name": "points", "channels": 4}], "channels": [8],
                               "outputs": ["scores", "labels"],
                               "layers": [{"op": "voxelize", "voxel_size": [0.05, 0.05, 0.05]},)",
             R"(}, {"op": "devoxelize", "output": "scores"}, {"op": "argmax", "output": "labels"})"));
  for (const char* dtype : {"fp32", "fp16"}) {
    SCOPED_TRACE(dtype);
    const std::vector<std::string> common = {
        "--dtype", dtype, "--dataflow", "gather-gemm-scatter", "--skip-invalid", "--repeat", "1"};
    std::vector<std::string> first = {"run",         cloud,          "--network",
                                      voxels,        "--voxel-size", "0.05",
                                      "--per-point", "--output",     folder_.path("v.npy")};
    first.insert(first.end(), common.begin(), common.end());
    expect_done(first);
    std::vector<std::string> second = {"run",         cloud,
                                       "--network",   points,
                                       "--output",    folder_.path("p.npy"),
                                       "--output-of", "labels=" + folder_.path("l.npy"),
                                       "--json",      folder_.path("r.json")};
    second.insert(second.end(), common.begin(), common.end());
    EXPECT_THAT(expect_done(second).out, HasSubstr("900 points, 53 invalid ones dropped, "));
    const std::string wanted = contents(folder_.path("v.npy"));
    EXPECT_GT(wanted.size(), 900u * 5 * 4);
    EXPECT_TRUE(contents(folder_.path("p.npy")) == wanted);
    // A label is the place of the greatest of the scores, and -1 of a dropped point.
    const std::vector<float> scores = values_in<float>(folder_.path("p.npy"));
    const std::vector<int32_t> labels = values_in<int32_t>(folder_.path("l.npy"));
    ASSERT_EQ(labels.size(), 900u);
    ASSERT_EQ(scores.size(), 900u * 5);
    for (size_t i = 0; i < labels.size(); ++i) {
      const float* const row = scores.data() + 5 * i;
      ASSERT_EQ(labels[i], i % 17 == 5 ? -1 : std::max_element(row, row + 5) - row) << i;
    }
    const llvm::json::Object report = json_in(folder_.path("r.json"));
    EXPECT_EQ(report.getBoolean("takes_points"), true);
    EXPECT_EQ(report.getInteger("skipped"), int64_t{53});
    EXPECT_EQ((*report.getArray("inputs"))[0].getAsObject()->getInteger("rows"), int64_t{900 - 53});
    EXPECT_EQ(report.getArray("inputs")->size(), 1u);
    EXPECT_EQ(report.getInteger("voxels"), static_cast<int64_t>(cells_of(drawn, {}).size()));
    EXPECT_EQ(report.getInteger("voxels"),
              (*report.getArray("levels"))[1].getAsObject()->getInteger("voxels"));
  }
}

/// Voxels are counted from the origin + `low`, in `run` and in `view`.
TEST_P(CliPoints, LowMovesTheVoxelsOfRunAndOfView) {
  const std::vector<std::array<float, 4>> drawn = draw_points(600, 19, /*with_invalid=*/false);
  const std::string cloud = folder_.file("p.bin", bin_of(drawn));
  const std::string network = folder_.file("low.json", R"({"name": "low", "ndim": 3,
      "inputs": [{"name": "points", "channels": 4}], "channels": [8],
      "layers": [{"op": "voxelize", "voxel_size": [0.05, 0.05, 0.05], "low": [0.011, 0.023, -0.017]},
                 {"op": "block", "name": "a", "width": 0, "kernel_size": 1}, {"op": "devoxelize"}]})");
  std::set<size_t> differ;
  for (const std::array<double, 3>& origin : {std::array<double, 3>{}, {0.017, 0.004, 0.009}}) {
    SCOPED_TRACE(origin[0]);
    std::vector<std::string> more;
    if (origin[0] != 0) more = {"--origin", "0.017,0.004,0.009"};
    const std::array<double, 3> corner{origin[0] + 0.011, origin[1] + 0.023, origin[2] - 0.017};
    const size_t voxels = cells_of(drawn, corner).size();
    differ.insert({voxels, cells_of(drawn, origin).size()});
    expect_done({"run", cloud, "--network", network, "--json", folder_.path("r.json")}, more);
    EXPECT_EQ(json_in(folder_.path("r.json")).getInteger("voxels"), static_cast<int64_t>(voxels));
    const std::string out =
        expect_done({"view", cloud, "--network", network, "--output", folder_.path("v.html")}, more).out;
    EXPECT_THAT(out, testing::ContainsRegex("\n +1 +" + std::to_string(voxels) + " "));
  }
  EXPECT_EQ(differ.size(), 4u) << "each place gives another number of voxels";
}

/// A copy of a description with a range: points outside are in no voxel, and counted.
TEST_P(CliPoints, ARangeOfTheNetworkDropsPointsAndVoxelsKeepTheirPlace) {
  const std::vector<std::array<float, 4>> drawn = draw_points(500, 9, /*with_invalid=*/false);
  const std::string cloud = folder_.file("p.bin", bin_of(drawn));
  const std::string network = folder_.file("range.json", R"({"name": "range", "ndim": 3,
      "inputs": [{"name": "points", "channels": 4}], "outputs": ["voxels", "features"],
      "layers": [{"op": "voxelize", "voxel_size": [0.1, 0.1, 0.1], "range": [[-0.2, -0.3, -0.4], [0.6, 0.5, 0.4]],
                  "output": "voxels0"},
                 {"op": "relu", "output": "voxels"}, {"op": "devoxelize", "output": "features"}]})");
  int64_t outside = 0;
  for (const auto& point : drawn) {
    bool is_inside = true;
    const float low[] = {-0.2f, -0.3f, -0.4f}, high[] = {0.6f, 0.5f, 0.4f};
    for (size_t a = 0; a < 3; ++a) is_inside &= point[a] >= low[a] && point[a] < high[a];
    outside += !is_inside;
  }
  ASSERT_GT(outside, 50);
  const Finished finished =
      expect_done({"run", cloud, "--network", network, "--output", folder_.path("o.ply"), "--output-of",
                   "features=" + folder_.path("f.npy"), "--repeat", "1"});
  EXPECT_THAT(finished.out, HasSubstr("500 points, " + std::to_string(outside) + " outside the range, "));
  EXPECT_EQ(values_in<float>(folder_.path("f.npy")).size(), 500u * 4);
  // The position of a voxel is its centre, which its points are around.
  const std::string ply = contents(folder_.path("o.ply"));
  const size_t begin = ply.find("end_header\n") + 11;
  ASSERT_NE(ply.find("property float x"), std::string::npos);
  std::array<float, 7> row{};
  ASSERT_EQ((ply.size() - begin) % sizeof(row), 0u);
  for (size_t at = begin; at < ply.size(); at += sizeof(row)) {
    std::memcpy(row.data(), ply.data() + at, sizeof(row));
    for (size_t a = 0; a < 3; ++a) {
      if (row[3 + a] > 0) {
        ASSERT_NEAR(row[a], row[3 + a], 0.0501) << "axis " << a;
      }
    }
  }
  expect_refused({"run", cloud, "--network", network, "--origin", "1,0,0"}, "has a range at a fixed place");
}

/// The levels that a network makes may need more rows than the cloud has.
TEST_P(CliPoints, OutputsGrowWithTheLevelsOfARun) {
  const std::string network = folder_.file("grow.json", R"({"name": "grow", "ndim": 3, "in_channels": 4,
      "channels": [8], "outputs": ["scores", "children", "kept"],
      "layers": [{"op": "block", "name": "a", "width": 0, "kernel_size": 2, "stride": 2, "output": "x"},
                 {"op": "linear", "name": "s", "out_channels": 8, "output": "scores"},
                 {"op": "subdivide", "input": "x", "by": "scores", "threshold": -1000, "output": "children"},
                 {"op": "linear", "name": "t", "out_channels": 1, "output": "t"},
                 {"op": "prune", "input": "children", "by": "t", "top_k": 7, "output": "kept"}]})");
  const std::string cloud = folder_.file("p.bin", bin_of(draw_points(300, 11, /*with_invalid=*/false)));
  std::vector<std::string> run = {"run",  cloud,        "--network",           network,    "--voxel-size",
                                  "0.02", "--dataflow", "gather-gemm-scatter", "--repeat", "2"};
  const auto give = [&](const char* flag, const char* name, const char* file) {
    run.insert(run.end(), {flag, std::string(name) + "=" + folder_.path(file)});
  };
  give("--output-of", "scores", "s.npy"), give("--output-of", "children", "c.npy");
  give("--output-of", "kept", "k.npy"), give("--coordinates-of", "children", "cc.npy");
  expect_done(run);
  const size_t coarse = values_in<float>(folder_.path("s.npy")).size() / 8;
  EXPECT_GT(coarse * 8, 300u);
  EXPECT_EQ(values_in<float>(folder_.path("c.npy")).size(), coarse * 8 * 8);
  EXPECT_EQ(values_in<int32_t>(folder_.path("cc.npy")).size(), coarse * 8 * 4);
  EXPECT_EQ(values_in<float>(folder_.path("k.npy")).size(), 7u * 8);
  expect_refused({"tune", "run", "object_0.01", "--network", network}, "such a network cannot be tuned");
}

/// A file of a mask keeps the rows whose number is not 0, in their order.
TEST_P(CliPoints, AMaskFromAFileKeepsRows) {
  const std::string network = folder_.file("mask.json", R"({"name": "mask", "ndim": 3,
      "inputs": [{"name": "points", "channels": 4},
                 {"name": "keep", "channels": 1, "type": "mask", "level": "points"}],
      "outputs": ["kept"],
      "layers": [{"op": "prune", "input": "points", "by": "keep", "output": "kept0"},
                 {"op": "relu", "output": "kept"}]})");
  Random random(23);
  constexpr float kMarks[] = {0, 1, -0.0f, 0.25f, -3, 0, 200, 1e-30f};
  std::vector<int32_t> coordinates, wanted_coordinates;
  std::vector<float> features, marks, wanted;
  for (int32_t i = 0; i < 200; ++i) {
    const int32_t row[] = {0, i % 7, i / 7, -i};
    const float mark = kMarks[random.below(std::size(kMarks))];
    coordinates.insert(coordinates.end(), row, row + 4);
    marks.push_back(mark);
    if (mark != 0) wanted_coordinates.insert(wanted_coordinates.end(), row, row + 4);
    for (int c = 0; c < 4; ++c) {
      features.push_back(static_cast<float>(random.uniform(-1, 1)));
      if (mark != 0) wanted.push_back(std::max(features.back(), 0.0f));
    }
  }
  ASSERT_GT(wanted.size(), 200u);
  ASSERT_LT(wanted.size(), 700u);
  const std::string cells = folder_.file("c.npy", npy_bytes(coordinates, {200, 4}));
  const std::string of_cells = folder_.file("f.npy", npy_bytes(features, {200, 4}));
  const std::string mask = folder_.file("m.npy", npy_bytes(marks, {200, 1}));
  const std::vector<std::string> run = {
      "run",     "--coordinates", cells,        "--features",         of_cells, "--network", network,
      "--dtype", "fp32",          "--dataflow", "gather-gemm-scatter"};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = run;
    all.insert(all.end(), more);
    return all;
  };
  expect_done(with({"--repeat", "2", "--input-of", "keep=" + mask, "--output-of",
                    "kept=" + folder_.path("k.npy"), "--coordinates-of", "kept=" + folder_.path("kc.npy")}));
  EXPECT_EQ(values_in<float>(folder_.path("k.npy")), wanted);
  EXPECT_EQ(values_in<int32_t>(folder_.path("kc.npy")), wanted_coordinates);
  marks.pop_back();
  const std::string few = folder_.file("few.npy", npy_bytes(marks, {199, 1}));
  expect_refused(with({"--input-of", "keep=" + few}), "has 199 rows, but level 0");
  marks.push_back(1);
  const std::string wide = folder_.file("wide.npy", npy_bytes(marks, {100, 2}));
  expect_refused(with({"--input-of", "keep=" + wide}), "has 2 columns, but the input 'keep' has 1 channels");
  expect_refused(run, "give those of keep too");
}

TEST_P(CliPoints, BenchTimesPointsInBothModes) {
  const std::string network = folder_.file("points.json", R"({"name": "points", "ndim": 3,
      "inputs": [{"name": "points", "channels": 4}], "channels": [8],
      "layers": [{"op": "voxelize", "voxel_size": [0.05, 0.05, 0.05]},
                 {"op": "block", "name": "a", "width": 0, "kernel_size": 1}, {"op": "devoxelize"}]})");
  const std::string cloud = folder_.file("p.bin", bin_of(draw_points(700, 13, /*with_invalid=*/false)));
  const Folder results;
  for (const bool replays : {false, true}) {
    SCOPED_TRACE(replays);
    std::vector<std::string> words = {
        "bench",    "--network",           network, "--cloud", cloud, "--variants", "2", "--warm-up", "1",
        "--output", results.path("b.json")};
    if (replays) words.push_back("--replay");
    expect_done(words);
    const llvm::json::Object result = json_in(results.path("b.json"));
    EXPECT_THAT(result.getString("method")->str(), HasSubstr("from points in device memory"));
    const llvm::json::Object& entry = *(*result.getArray("clouds"))[0].getAsObject();
    const llvm::json::Object& voxels = *entry.getObject("voxels");
    EXPECT_GT(*voxels.getInteger("min"), 100);
    EXPECT_LT(*voxels.getInteger("max"), 700);
    EXPECT_GE(*voxels.getInteger("unthinned"), *voxels.getInteger("max"));
    EXPECT_GT(*entry.getObject("wall_ms")->getNumber("median"), 0);
    if (replays) {
      EXPECT_EQ(entry.getInteger("did_not_fit"), int64_t{0});
    } else {
      EXPECT_EQ(entry.getObject("points")->getInteger("unthinned"), int64_t{700});
    }
  }
  const Finished page = minuet({"report", results.path(""), "--output", folder_.path("page.html")});
  EXPECT_EQ(page.code, 0) << page.err;
}

TEST_P(CliPoints, FlagsThatDoNotFitSayWhatToDo) {
  const std::string cloud = folder_.file("p.bin", bin_of(draw_points(50, 15, /*with_invalid=*/true)));
  const std::vector<std::string> run = {"run",        cloud,  "--network", "minkunet34c_points",
                                        "--channels", kNarrow};
  const auto refuse = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> all = run;
    all.insert(all.end(), more.begin(), more.end());
    expect_refused(all, words);
  };
  refuse({}, "which is not finite: --skip-invalid drops such points");
  refuse({"--voxel-size", "0.1"}, "makes voxels of 0.05 m itself: omit --voxel-size");
  refuse({"--range", "0,0,0,1,1,1"}, "makes voxels of 0.05 m itself: omit --range");
  refuse({"--max-points", "3"}, "set most_points_per_voxel and most_voxels of the layer voxelize");
  refuse({"--skip-invalid", "--output-coordinates", folder_.path("c.npy")},
         "has a row for each point of the cloud, in its order: omit --output-coordinates");
  refuse({"--skip-invalid", "--coordinates-of", "labels=" + folder_.path("c.npy")}, "name another output");
  refuse({"--skip-invalid", "--in-channels", "5"}, "the network takes points of 5 columns");
  const std::string voxels = folder_.file("v.npy", npy_bytes(std::vector<int32_t>{0, 1, 2, 3}, {1, 4}));
  expect_refused({"run", "--coordinates", voxels, "--network", "minkunet34c_points"},
                 "this cloud holds voxels: name a cloud of points");
  expect_refused({"bench", "--cloud", cloud, "--network", "minkunet34c_points", "--voxel-size", "0.1"},
                 "omit --voxel-size");
  expect_refused({"tune", "run", "object_0.01", "--network", "minkunet34c_points"},
                 "tune one with the same layers without voxelize and devoxelize");
  expect_refused({"run", cloud, "--skip-invalid", "--network", "shape_autoencoder"}, "or --in-channels 4");
}

/// One command from a file of points to labels, and one that times it.
TEST_P(CliPoints, ShippedNetworksFromPointsToLabels) {
  const std::string cloud = folder_.file("p.bin", bin_of(draw_points(900, 17, /*with_invalid=*/false)));
  const std::vector<std::string> narrow = {"--channels", kNarrow};
  for (const char* network : {"minkunet34c_points", "spvcnn_point_branch"}) {
    SCOPED_TRACE(network);
    expect_done({"run", cloud, "--network", network, "--random-weights", "--labels", "--output",
                 folder_.path("labels.npy"), "--output-of", "scores=" + folder_.path("s.npy"), "--output-of",
                 "labels=" + folder_.path("l.npy")},
                narrow);
    EXPECT_EQ(values_in<int32_t>(folder_.path("labels.npy")).size(), 900u);
    EXPECT_EQ(values_in<int32_t>(folder_.path("labels.npy")), values_in<int32_t>(folder_.path("l.npy")));
    expect_done({"view", cloud, "--network", network, "--output", folder_.path("page.html")});
    if (std::string(network) == "spvcnn_point_branch") continue;
    expect_done({"run", cloud, "--network", "minkunet34c", "--voxel-size", "0.05", "--per-point", "--output",
                 folder_.path("v.npy")},
                narrow);
    const std::vector<float> scores = values_in<float>(folder_.path("s.npy"));
    EXPECT_EQ(scores.size(), 900u * 8);
    EXPECT_EQ(scores, values_in<float>(folder_.path("v.npy")));
  }
  expect_done({"run", cloud, "--network", "shape_autoencoder", "--in-channels", "4", "--voxel-size", "0.1",
               "--channels", "8,8,8,8,8,8,2,2,16,16,4", "--output-of",
               "subdivision.1=" + folder_.path("s.npy"), "--output-of", "decoded=" + folder_.path("d.npy")});
  // A child exists whose score is above 0.
  int64_t children = 0;
  for (const float score : values_in<float>(folder_.path("s.npy"))) children += score > 0;
  EXPECT_GT(children, 0);
  EXPECT_EQ(static_cast<int64_t>(values_in<float>(folder_.path("d.npy")).size()), 7 * children);
}

INSTANTIATE_TEST_SUITE_P(On, CliPoints, testing::Values("cpu", "cuda:0"), [](const auto& info) {
  return std::string(info.param).substr(0, info.param[1] == 'p' ? 3 : 4);
});

}  // namespace
}  // namespace minuet::tool
