// The tool from outside: reports, outputs, help.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/ply.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

Finished expect_done(const std::vector<std::string>& arguments) {
  Finished finished = minuet(arguments);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  return finished;
}

std::vector<std::string> run(std::vector<std::string> more, const std::string& network = "sparseresnet21d") {
  const std::string channels = network == "minkunet42" ? "4,4,6,8,10,8,6,4,5" : "4,6,8,7";
  more.insert(more.begin(), {"run", "--device", "cpu", "--network", network, "--channels", channels});
  return more;
}

std::vector<Point> random_points(int count) {
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  std::printf("seed %u\n", seed);
  std::uniform_real_distribution<float> place(-3.0f, 3.0f);
  const auto next = [&] { return static_cast<double>(place(random)); };
  std::vector<Point> points;
  for (int i = 0; i < count; ++i) points.push_back({next(), next(), next(), 0.25});
  return points;
}

std::string bin_of(const std::vector<Point>& points) {
  std::string bytes;
  for (const Point& point : points) {
    for (const double value : point) bytes += packed(static_cast<float>(value));
  }
  return bytes;
}

std::set<std::string> keys(const llvm::json::Object& object) {
  std::set<std::string> names;
  for (const auto& entry : object) names.insert(llvm::StringRef(entry.first).str());
  return names;
}

struct Matrix {
  std::vector<float> values;
  int64_t rows = 0, columns = 0;
};

Matrix matrix_in(const std::string& path) {
  Matrix matrix;
  auto values = read_npy_matrix(contents(path), matrix.rows, matrix.columns);
  if (values) matrix.values = *values;
  if (!values) ADD_FAILURE() << llvm::toString(values.takeError());
  return matrix;
}

TEST(Cli, JsonHasExactlyTheFieldsOfTheReadme) {
  const Folder folder;
  const std::string path = folder.path("report.json");
  const Finished finished = expect_done(
      run({"--synthetic", "room", "--points", "3000", "--voxel-size", "0.2", "--repeat", "2", "--json", path},
          "minkunet42"));
  EXPECT_THAT(finished.out, HasSubstr("encoder.0.down"));
  EXPECT_THAT(finished.out, HasSubstr("first (cold)"));
  const llvm::json::Object report = json_in(path);
  // kernels, launches and host_syncs are there on a GPU (processes_test.cc).
  EXPECT_EQ(keys(report),
            (std::set<std::string>{
                "version",  "device",  "description",  "network",          "dtype",   "weights",   "cloud",
                "seed",     "origin",  "voxel_size",   "points",           "skipped", "voxels",    "output",
                "inputs",   "outputs", "missing_head", "levels",           "layers",  "stages_ms", "first_ms",
                "total_ms", "repeats", "convolutions", "int8_convolutions"}));
  EXPECT_EQ(report.getString("device"), llvm::StringRef("cpu"));
  EXPECT_EQ(report.getString("network"), llvm::StringRef("minkunet42"));
  EXPECT_EQ(report.getString("dtype"), llvm::StringRef("fp32"));
  EXPECT_EQ(report.getObject("weights")->getInteger("random_seed"), int64_t{0});
  EXPECT_EQ(report.getNumber("voxel_size"), 0.2);
  EXPECT_EQ(report.getInteger("points"), int64_t{3000});
  EXPECT_EQ(report.getInteger("seed"), int64_t{1});
  EXPECT_EQ(keys(*report.getObject("output")), (std::set<std::string>{"rows", "channels", "non_finite"}));
  EXPECT_EQ(report.getObject("output")->getInteger("rows"), report.getInteger("voxels"));
  EXPECT_EQ(report.getObject("output")->getInteger("channels"), int64_t{5});
  EXPECT_EQ(keys(*report.getObject("stages_ms")),
            (std::set<std::string>{"voxelize", "sort", "map", "gather", "gemm", "scatter", "other"}));
  EXPECT_GT(*report.getNumber("first_ms"), 0);
  EXPECT_GT(*report.getNumber("total_ms"), 0);

  const llvm::json::Array& levels = *report.getArray("levels");
  ASSERT_EQ(levels.size(), 5u);
  int64_t stride = 1, above = INT64_MAX;
  for (const llvm::json::Value& entry : levels) {
    const llvm::json::Object& level = *entry.getAsObject();
    EXPECT_EQ(keys(level), (std::set<std::string>{"maps", "tensor_stride", "voxels"}));
    EXPECT_EQ(level.getString("maps"), llvm::StringRef("indexed"));
    EXPECT_EQ(*level.getArray("tensor_stride"), (llvm::json::Array{stride, stride, stride}));
    EXPECT_LE(*level.getInteger("voxels"), above);
    above = *level.getInteger("voxels");
    stride *= 2;
  }
  std::set<std::string> names;
  for (const llvm::json::Value& entry : *report.getArray("layers")) {
    const llvm::json::Object& layer = *entry.getAsObject();
    EXPECT_EQ(keys(layer),
              (std::set<std::string>{"name", "kernel_size", "stride", "in_channels", "out_channels", "pairs",
                                     "padded_rows", "gemm_groups", "dataflow", "kernel", "gather_ms",
                                     "gemm_ms", "scatter_ms"}));
    EXPECT_GT(*layer.getNumber("gemm_ms"), 0);
    EXPECT_NE(layer.getString("dataflow"), llvm::StringRef("auto"));
    EXPECT_EQ(layer.getArray("kernel_size")->size(), 3u);
    EXPECT_EQ(layer.getArray("stride")->size(), 3u);
    EXPECT_GT(*layer.getInteger("pairs"), 0);
    names.insert(layer.getString("name")->str());
  }
  for (const char* name : {"stem.0.conv", "encoder.0.down.conv", "encoder.3.residual.1.conv2",
                           "decoder.0.up.conv", "decoder.3.residual.0.shortcut.conv"}) {
    const llvm::StringRef prefix = llvm::StringRef(name);
    EXPECT_TRUE(names.count(name) || names.count(prefix.drop_back(5).str())) << name;
  }
}

TEST(Cli, EveryFormatGivesTheSameOutput) {
  const Folder folder;
  const std::vector<Point> points = random_points(700);
  const std::string raw = bin_of(points);
  std::string nuscenes, ascii_rows;
  for (const Point& point : points) {
    for (const double value : point) nuscenes += packed(static_cast<float>(value));
    nuscenes += packed(17.0f);
    char row[128];
    std::snprintf(row, sizeof(row), "%.9g %.9g %.9g %.9g\n", point[0], point[1], point[2], point[3]);
    ascii_rows += row;
  }
  const std::string properties =
      "property float x\nproperty float y\nproperty float z\nproperty float intensity\nend_header\n";
  const std::string count = std::to_string(points.size());
  const std::string pcd = "VERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nWIDTH " + count +
                          "\nHEIGHT 1\nPOINTS " + count + "\nDATA ";
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  folder.file("f.npy", npy_bytes(values, {static_cast<int64_t>(points.size()), 4}));
  const std::vector<std::vector<std::string>> inputs = {
      {folder.file("a.bin", raw)},
      {folder.file("b.bin", nuscenes), "--columns", "5"},
      {folder.file("c.ply", "ply\nformat binary_little_endian 1.0\nelement vertex " + count + "\n" +
                                properties + raw)},
      {folder.file("d.ply",
                   "ply\nformat ascii 1.0\nelement vertex " + count + "\n" + properties + ascii_rows)},
      {folder.file("e.pcd", pcd + "binary\n" + raw)},
      {folder.path("f.npy")},
      {folder.file("g.pcd", pcd + "ascii\n" + ascii_rows)}};
  std::string first;
  for (std::vector<std::string> input : inputs) {
    const std::string path = input[0];
    input.insert(input.end(), {"--voxel-size", "0.25", "--output", folder.path("out.npy")});
    expect_done(run(input));
    const std::string output = contents(folder.path("out.npy"));
    EXPECT_GT(output.size(), 200u);
    if (first.empty()) first = output;
    EXPECT_EQ(output, first) << path;
  }
}

TEST(Cli, LabelsAreTheLargestFeatureAndCoordinatesGoWithThem) {
  const Folder folder;
  const std::string cloud = folder.file("a.bin", bin_of(random_points(900)));
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {cloud, "--voxel-size", "0.3"});
    return run(more, "minkunet42");
  };
  expect_done(with({"--output", folder.path("f.npy"), "--output-coordinates", folder.path("c.npy")}));
  expect_done(with({"--output", folder.path("l.npy"), "--labels", "--random-weights"}));
  expect_done(with({"--output", folder.path("l.ply"), "--labels", "--random-weights"}));
  expect_done(with({"--output", folder.path("f.ply")}));
  const Matrix features = matrix_in(folder.path("f.npy")), coordinates = matrix_in(folder.path("c.npy"));
  EXPECT_EQ(features.columns, 5);
  EXPECT_EQ(coordinates.columns, 4);
  ASSERT_EQ(coordinates.rows, features.rows);
  ASSERT_GT(features.rows, 100);
  const std::string bytes = contents(folder.path("l.npy"));
  auto labels = parse_npy(bytes);
  ASSERT_TRUE(!!labels) << llvm::toString(labels.takeError());
  ASSERT_EQ(labels->shape, (std::vector<int64_t>{features.rows}));
  for (int64_t row = 0; row < features.rows; ++row) {
    const auto begin = features.values.begin() + row * features.columns;
    const auto label = std::max_element(begin, begin + features.columns) - begin;
    ASSERT_EQ(decode_integer(labels->type, labels->data.data() + 4 * row, false), label) << row;
  }
  const std::vector<Point> vertices = points_of(read_ply(contents(folder.path("l.ply"))));
  EXPECT_EQ(points_of(read_ply(contents(folder.path("f.ply")))), vertices);
  ASSERT_EQ(static_cast<int64_t>(vertices.size()), features.rows);
  for (size_t axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(vertices[7][axis], (coordinates.values[7 * 4 + 1 + axis] + 0.5f) * 0.3f, 1e-5f);
  }
}

TEST(Cli, OutputsByPointKeepThePoints) {
  const Folder folder;
  const std::string header =
      "ply\nformat ascii 1.0\nelement vertex 4\nproperty double x\nproperty double y\nproperty double z\n"
      "property uchar red\nproperty float reflectivity\nend_header\n";
  const std::string cloud = folder.file("a.PLY", header +
                                                     "450000.5 5400000 1 9 0.5\nnan 1 2 8 0.5\n"
                                                     "450009 5400001 1 7 0.25\n450000.51 5400000 1 6 1\n");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {cloud, "--voxel-size", "0.5", "--skip-invalid", "--random-weights", "--per-point"});
    const Finished finished = minuet(run(more, "minkunet42"));
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished;
  };
  const Finished finished = with({"--labels", "--output", folder.path("l.PLY")});
  EXPECT_THAT(finished.out, HasSubstr("weights: random, seed 0\n"));
  EXPECT_THAT(finished.out, HasSubstr("x y z <- properties x y z, intensity <- property reflectivity\n"));
  EXPECT_THAT(finished.out, HasSubstr("origin: 450004.5,5400000.5,1 m"));
  with({"--labels", "--output", folder.path("l.npy")});
  with({"--output", folder.path("f.npy")});
  llvm::Expected<Cloud> points = read_ply(contents(folder.path("l.PLY")));
  ASSERT_TRUE(!!points) << llvm::toString(points.takeError());
  ASSERT_EQ(points->count(), 4);
  EXPECT_EQ(points->points[2], (Point{450009, 5400001, 1, 0.25}));
  EXPECT_TRUE(std::isnan(points->points[1][0]));
  EXPECT_EQ(points->attributes[0].name, "original_red");
  EXPECT_EQ(points->attributes[0].values, std::string("\x09\x08\x07\x06"));
  const std::string labels = points->attributes.back().values;
  EXPECT_EQ(labels.substr(0, 4), labels.substr(12, 4));  // one voxel
  EXPECT_EQ(labels.substr(4, 4), packed<int32_t>(-1));
  const std::string npy = contents(folder.path("l.npy"));
  EXPECT_EQ(npy.substr(npy.size() - 16), labels);
  const Matrix features = matrix_in(folder.path("f.npy"));
  ASSERT_EQ(features.rows, 4);
  for (int64_t c = 0; c < features.columns; ++c) {
    EXPECT_EQ(features.values[c], features.values[3 * features.columns + c]);
    EXPECT_TRUE(std::isnan(features.values[features.columns + c]));
    EXPECT_FALSE(std::isnan(features.values[2 * features.columns + c]));
  }
}

TEST(Cli, PlyOutputsKeepTheComments) {
  const Folder folder;
  const std::string ours = "comment written by minuet\n",
                    theirs = "comment crs:  EPSG 25832\nobj_info scan 7\n";
  std::string cloud =
      folder.file("a.ply", "ply\nformat ascii 1.0\n" + theirs +
                               "element vertex 1\nproperty float x\nproperty float y\n"
                               "property float z\nproperty float intensity\nend_header\n1 2 3 4\n");
  for (const char* name : {"b.ply", "c.ply"}) {
    expect_done(run({cloud, "--per-point", "--output", folder.path(name)}, "minkunet42"));
    cloud = folder.path(name);
    EXPECT_THAT(contents(cloud), testing::StartsWith("ply\nformat binary_little_endian 1.0\n" + ours +
                                                     theirs + "element vertex 1\n"));
  }
  expect_done(run({cloud, "--output", folder.path("voxels.ply")}));
  EXPECT_THAT(contents(folder.path("voxels.ply")), testing::Not(HasSubstr("crs")));
}

TEST(Cli, PlyOutputsTellBatchesAndTimesApart) {
  const Folder folder;
  const auto attributes = [&](const std::vector<int32_t>& voxels, int32_t ndim) {
    const std::string network = folder.file(
        "net.json", R"({"name": "net", "in_channels": 4, "channels": [4], "ndim": )" + std::to_string(ndim) +
                        R"(, "layers": [{"op": "block", "name": "a", "width": 0, "kernel_size": 1}]})");
    const int64_t rows = static_cast<int64_t>(voxels.size()) / (1 + ndim);
    expect_done({"run", "--device", "cpu", "--network", network, "--coordinates",
                 folder.file("c.npy", npy_bytes(voxels, {rows, 1 + ndim})), "--output",
                 folder.path("o.ply")});
    llvm::Expected<Cloud> cloud = read_ply(contents(folder.path("o.ply")));
    std::map<std::string, std::string> values;
    if (!cloud) ADD_FAILURE() << llvm::toString(cloud.takeError());
    for (const Attribute& attribute : cloud->attributes) values[attribute.name] = attribute.values;
    return values;
  };
  const auto plain = attributes({0, 1, 1, 1, 0, 2, 2, 2}, 3);
  EXPECT_EQ(plain.count("batch") + plain.count("t"), 0u);
  const auto batches = attributes({2, 1, 1, 1, 0, 1, 1, 1}, 3);
  EXPECT_EQ(batches.at("batch"), packed(2) + packed(0));
  EXPECT_EQ(batches.count("t"), 0u);
  const auto times = attributes({0, 1, 1, 1, -7, 0, 1, 1, 1, 400}, 4);
  EXPECT_EQ(times.count("batch"), 0u);
  EXPECT_EQ(times.at("t"), packed(-7) + packed(400));
}

TEST(Cli, OutputsCountFromZeroWhateverTheOrigin) {
  const Folder folder;
  std::vector<float> points;
  for (int i = 0; i < 50; ++i) {
    for (const int factor : {1, 3, 7, 0})
      points.push_back(0.5f * static_cast<float>(i * factor % 41) + 0.25f);
  }
  const std::string cloud = folder.file("a.npy", npy_bytes(points, {50, 4}));
  const auto outputs = [&](const std::string& origin) {
    expect_done(run({cloud, "--voxel-size", "0.5", "--origin", origin, "--output", folder.path("o.ply"),
                     "--output-coordinates", folder.path("c.npy")},
                    "minkunet42"));
    return std::make_pair(points_of(read_ply(contents(folder.path("o.ply")))),
                          contents(folder.path("c.npy")));
  };
  EXPECT_EQ(outputs("0,0,0"), outputs("-16,8,32"));
  const Finished refused = minuet(run(
      {cloud, "--voxel-size", "0.5", "--origin", "0.3,0,0", "--output-coordinates", folder.path("c.npy")}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("not a whole number of voxels"));
}

TEST(Cli, InvalidPointsAreDroppedAndCounted) {
  const Folder folder;
  std::vector<Point> points = random_points(50);
  points[3][0] = NAN;
  points[9][2] = INFINITY;
  const std::string cloud = folder.file("a.bin", bin_of(points));
  const Finished finished = minuet(run({cloud, "--skip-invalid"}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "minuet: 2 points with NaN or infinite numbers were dropped\n");
  EXPECT_THAT(finished.out, HasSubstr("50 points, 2 invalid ones dropped"));
}

TEST(Cli, TheFirstOfEqualVoxelsIsKeptOnRequest) {
  const Folder folder;
  const std::string voxels =
      folder.file("c.npy", npy_bytes(std::vector<int32_t>{1, 2, 3, 4, 5, 6, 1, 2, 3}, {3, 3}));
  const Finished refused = minuet(run({"--coordinates", voxels}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("duplicates"));
  expect_done(run({"--coordinates", voxels, "--keep-first-duplicate"}));
}

TEST(Cli, EveryDtypeRunsOnTheCpu) {
  const Folder folder;
  const std::string cloud = folder.file("a.bin", bin_of(random_points(300)));
  std::vector<Matrix> outputs;
  for (const char* dtype : {"fp32", "tf32", "fp16", "bf16"}) {
    expect_done(run({cloud, "--dtype", dtype, "--output", folder.path("o.npy")}));
    outputs.push_back(matrix_in(folder.path("o.npy")));
    ASSERT_EQ(outputs.back().values.size(), outputs[0].values.size());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < outputs[0].values.size(); ++i) {
      difference += std::pow(static_cast<double>(outputs.back().values[i] - outputs[0].values[i]), 2);
      norm += std::pow(static_cast<double>(outputs[0].values[i]), 2);
    }
    EXPECT_GT(norm, 0);
    EXPECT_LT(std::sqrt(difference / norm), 0.05) << dtype;
  }
}

TEST(Cli, VoxelsWithABatchColumn) {
  const Folder folder;
  folder.file("c.npy", npy_bytes(std::vector<int32_t>{2, 5, 5, 5, 0, 1, 1, 1}, {2, 4}));
  expect_done(run({folder.path("c.npy"), "--output-coordinates", folder.path("o.npy")}, "minkunet42"));
  EXPECT_EQ(matrix_in(folder.path("o.npy")).values, (std::vector<float>{2, 5, 5, 5, 0, 1, 1, 1}));
}

TEST(Cli, SyntheticCloudsDependOnTheSeedAlone) {
  const Folder folder;
  const auto output = [&](const std::string& kind, const std::string& seed) {
    expect_done(run({"--synthetic", kind, "--points", "2000", "--voxel-size", "0.01", "--seed", seed,
                     "--output-coordinates", folder.path("c.npy")}));
    return contents(folder.path("c.npy"));
  };
  for (const char* kind : {"lidar", "room", "object", "random"}) {
    EXPECT_EQ(output(kind, "3"), output(kind, "3"));
    EXPECT_NE(output(kind, "3"), output(kind, "4"));
  }
}

TEST(Cli, TheCpuInfersOnceUnlessAskedToRepeat) {
  const Finished finished = expect_done(run({"--synthetic", "object", "--points", "500", "--json", "-"}));
  const llvm::json::Object report = json_of(finished.out);
  EXPECT_EQ(report.getInteger("repeats"), int64_t{0});
  const double total = *report.getNumber("total_ms");
  EXPECT_GT(total, 0);
  EXPECT_LE(total, *report.getNumber("first_ms"));
}

TEST(Cli, HelpIsWorthReading) {
  const Finished all = expect_done({"--help"});
  for (const char* word : {"run", "info", "bench", "precompile", "Examples", "Exit codes"}) {
    EXPECT_THAT(all.out, HasSubstr(word));
  }
  const Finished run_help = expect_done({"run", "--help"});
  for (const char* word : {"--columns", "--voxel-size",   "--network",   "--channels", "--weights",
                           "--dtype",   "--device",       "--repeat",    "--output",   "--output-coordinates",
                           "--json",    "--skip-invalid", "--synthetic", "--points",   "--extent",
                           "--seed",    "metres",         "Examples",    "default",    "nuScenes"}) {
    EXPECT_THAT(run_help.out, HasSubstr(word));
  }
  for (const char* command : {"view", "bench", "precompile", "info"}) {
    EXPECT_THAT(expect_done({command, "--help"}).out, HasSubstr("--cache"));
  }
  EXPECT_THAT(expect_done({"--version"}).out, testing::StartsWith("minuet "));
}

TEST(Cli, InfoNamesWhatIsThere) {
  const Finished finished = expect_done({"info"});
  for (const char* word : {"cpu", "driver", "NVRTC", "LLVM", "cache folder"})
    EXPECT_THAT(finished.out, HasSubstr(word));
}

std::vector<std::string> bench(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--device", "cpu", "--network", "sparseresnet21d"});
  return more;
}

TEST(Cli, BenchWritesItsResult) {
  const Folder folder;
  const std::string path = folder.path("bench.json");
  const Finished finished =
      expect_done(bench({"--cloud", "object_0.01", "--variants", "2", "--commit", "abc", "--output", path}));
  EXPECT_THAT(finished.out, HasSubstr("object_0.01"));
  const llvm::json::Object result = json_in(path);
  EXPECT_EQ(result.getString("network"), llvm::StringRef("sparseresnet21d"));
  EXPECT_EQ(result.getString("commit"), llvm::StringRef("abc"));
  EXPECT_TRUE(result.get("missing_head"));
  ASSERT_EQ(result.getArray("clouds")->size(), 1u);
  const llvm::json::Object& cloud = *(*result.getArray("clouds"))[0].getAsObject();
  for (const char* key : {"cloud", "voxels", "wall_ms", "stages_ms", "counters", "levels"}) {
    EXPECT_TRUE(cloud.get(key)) << key;
  }
  EXPECT_EQ(cloud.getNumber("voxel_size"), 0.01);
  EXPECT_GT(*cloud.getObject("wall_ms")->getNumber("median"), 0);
}

TEST(Cli, BenchTakesTheUsersOwnClouds) {
  const Folder folder;
  std::vector<Point> points = random_points(400);
  points[7][1] = NAN;
  const std::string five = folder.path("five.BIN");
  std::string rows;
  for (const Point& point : points) {
    for (const float value : point) rows += packed(value);
    rows += packed(17.0f);
  }
  folder.file("five.BIN", rows);
  const std::string one = folder.file("one.bin", bin_of({{500000, 4000000, 7, 1}, {500020, 4000000, 7, 1}}));
  Finished finished = minuet(bench({"--cloud", five, "--columns", "5", "--voxel-size", "0.5", "--dtype",
                                    "fp32,fp16", "--output", folder.path("")}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "minuet: 1 point of '" + five + "' with NaN or infinite numbers was dropped\n");
  for (const char* name : {"sparseresnet21d_fp32.json", "sparseresnet21d_fp16.json"}) {
    const llvm::json::Object result = json_in(folder.path(name));
    EXPECT_FALSE(result.get("commit"));
    const llvm::json::Object& cloud = *(*result.getArray("clouds"))[0].getAsObject();
    EXPECT_EQ(cloud.getString("origin"), llvm::StringRef(five));
    EXPECT_EQ(cloud.getNumber("voxel_size"), 0.5);
    EXPECT_GT(*cloud.getObject("voxels")->getInteger("unthinned"), 100);
  }
  finished = minuet(bench({"--cloud", five, "--columns", "5", "--voxel-size", "0.5,0.5,1", "--dtype", "fp32",
                           "--output", folder.path("sizes.json")}));
  EXPECT_EQ(finished.code, 0) << finished.err;
  const llvm::json::Object sizes = json_in(folder.path("sizes.json"));
  EXPECT_EQ(*(*sizes.getArray("clouds"))[0].getAsObject()->get("voxel_size"),
            llvm::json::Value(llvm::json::Array{0.5, 0.5, 1}));
  // Two points that are never both thinned away, far from the origin, where fp16 would not hold them.
  expect_done(bench({"--cloud", one, "--dtype", "fp16", "--voxel-size", "5", "--variants", "50"}));
}

TEST(Cli, BenchWritesNothingThatItIsNotToldTo) {
  const Folder folder;
  const std::string cloud = folder.file("a.bin", bin_of(random_points(50)));
  llvm::SmallString<128> here;
  ASSERT_FALSE(llvm::sys::fs::current_path(here));
  const std::string empty = folder.path("empty");
  ASSERT_FALSE(llvm::sys::fs::create_directory(empty));
  ASSERT_FALSE(llvm::sys::fs::set_current_path(empty));
  const Finished finished = expect_done(bench({"--cloud", cloud}));
  ASSERT_FALSE(llvm::sys::fs::set_current_path(here));
  EXPECT_THAT(finished.out, HasSubstr("median, ms"));
  EXPECT_THAT(finished.out, HasSubstr(cloud));
  EXPECT_FALSE(llvm::sys::fs::remove(empty));  // which removes empty folders only
}

}  // namespace
}  // namespace minuet::tool
