// Networks of several inputs and outputs from outside: what `minuet run` takes and writes for each of them is
// what networks of one input and one output give for the same layers.
#include <gmock/gmock.h>

#include <random>
#include <set>

#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

// The layers of all networks here. Parameters are random by the seed and the names of the layers alone.
#define LAYER_A R"({"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "near"})"
#define LAYER_B \
  R"({"op": "block", "name": "b", "out_channels": 6, "kernel_size": 2, "stride": 2, "output": "down"})"
#define LAYER_C(INPUT)                               \
  R"({"op": "block", "name": "c", "input": ")" INPUT \
  R"(", "out_channels": 5, "kernel_size": 3, "output": "far"})"

class CliGraph : public testing::Test {
 protected:
  CliGraph() {
    std::mt19937 random(7);
    std::vector<int32_t> voxels;
    for (int32_t x = 0; x < 9; ++x) {
      for (int32_t y = 0; y < 9; ++y) {
        const auto z = static_cast<int32_t>(random() % 9) - 4;
        voxels.insert(voxels.end(), {x - 4, y, z});
      }
    }
    folder_.file("v.npy", npy_bytes(voxels, {81, 3}));
    folder_.file("f.npy", random_features(random, 4));
    folder_.file("g.npy", random_features(random, 3));
  }

  static std::string random_features(std::mt19937& random, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(81 * columns));
    for (float& value : values) value = static_cast<float>(random() % 512) / 256 - 1;
    return npy_bytes(values, {81, columns});
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  /// Runs the network with these outputs, inputs (without the first) and layers.
  void run(const std::string& outputs, const std::string& inputs, const std::string& layers,
           std::vector<std::string> more) const {
    const std::string network =
        folder_.file("net.json", R"({"name": "net", "ndim": 3, "outputs": [)" + outputs +
                                     R"(], "inputs": [{"name": "points", "channels": 4})" + inputs +
                                     R"(], "layers": [)" + layers + "]}");
    more.insert(more.begin(), {"run", "--device", "cpu", "--network", network, "--coordinates", path("v.npy"),
                               "--features", path("f.npy")});
    const Finished finished = minuet(more);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
  }

  void expect_same(const std::string& one, const std::string& other) const {
    EXPECT_GT(contents(path(one)).size(), 400u) << one;
    EXPECT_EQ(contents(path(one)), contents(path(other))) << one << " and " << other;
  }

  const Folder folder_;
};

TEST_F(CliGraph, OutputsAreThoseOfNetworksWithOneOutput) {
  const std::string layers = LAYER_A "," LAYER_B "," LAYER_C("down");
  run(R"("near")", "", layers, {"--output", path("near.npy"), "--output-coordinates", path("near_c.npy")});
  run(R"("far")", "", layers, {"--output", path("far.npy"), "--output-coordinates", path("far_c.npy")});
  run(R"("near", "far")", "", layers,
      {"--output", path("first.npy"), "--output-of", "near=" + path("n.npy"), "--output-of",
       "far=" + path("o.npy"), "--coordinates-of", "far=" + path("oc.npy"), "--coordinates-of",
       "near=" + path("nc.npy"), "--json", path("report.json"), "--repeat", "2"});
  expect_same("n.npy", "near.npy");
  expect_same("first.npy", "near.npy");
  expect_same("nc.npy", "near_c.npy");
  expect_same("o.npy", "far.npy");
  expect_same("oc.npy", "far_c.npy");
  EXPECT_NE(contents(path("oc.npy")), contents(path("nc.npy")));

  const llvm::json::Object report = json_in(path("report.json"));
  ASSERT_EQ(report.getArray("inputs")->size(), 1u);
  ASSERT_EQ(report.getArray("outputs")->size(), 2u);
  const llvm::json::Object& far = *(*report.getArray("outputs"))[1].getAsObject();
  const llvm::json::Object& level = *(*report.getArray("levels"))[1].getAsObject();
  EXPECT_EQ(far.getString("name"), llvm::StringRef("far"));
  EXPECT_EQ(far.getInteger("level"), int64_t{1});
  EXPECT_EQ(far.getInteger("rows"), level.getInteger("voxels"));
  EXPECT_EQ(far.getInteger("channels"), int64_t{5});
  EXPECT_EQ(far.getInteger("non_finite"), int64_t{0});
  EXPECT_EQ(report.getObject("output")->getInteger("rows"), int64_t{81});
}

/// A network that is cut in two behind "down" gives what the whole network gives.
TEST_F(CliGraph, AnInputOnACoarserLevelHasTheOrderOfTheOutputsThere) {
  const std::string first = LAYER_A "," LAYER_B ",";
  run(R"("down", "far")", "", first + LAYER_C("down"),
      {"--output", path("down.npy"), "--output-of", "far=" + path("far.npy")});
  run(R"("near", "far")", R"(, {"name": "more", "channels": 6, "level": "down"})", first + LAYER_C("more"),
      {"--input-of", "more=" + path("down.npy"), "--output-of", "far=" + path("o.npy"), "--repeat", "2"});
  expect_same("o.npy", "far.npy");
}

/// A collapsed level and one of batch items have fewer axes, in the files and in the report.
TEST_F(CliGraph, OutputsThatLackAxes) {
  const std::string flat = folder_.file(
      "flat.json",
      R"({"name": "flat", "ndim": 3, "in_channels": 4, "shape": [9, 9, 9], "outputs": ["flat", "items"],
          "layers": [{"op": "collapse", "name": "a", "axis": 1, "output": "flat"},
                     {"op": "global_pool", "name": "b", "reduction": "average", "output": "items"}]})");
  std::vector<int32_t> voxels;
  for (int32_t x = 0; x < 9; ++x) {
    for (int32_t y = 0; y < 9; ++y) voxels.insert(voxels.end(), {x, y, (x * 5 + y / 3) % 9});
  }
  folder_.file("inside.npy", npy_bytes(voxels, {81, 3}));
  const std::vector<std::string> run{"run",           "--device",         "cpu",        "--network",  flat,
                                     "--coordinates", path("inside.npy"), "--features", path("f.npy")};
  std::vector<std::string> more = run;
  more.insert(more.end(), {"--output", path("flat.npy"), "--output-coordinates", path("flat_c.npy"),
                           "--output-of", "items=" + path("items.npy"), "--coordinates-of",
                           "items=" + path("items_c.npy"), "--json", path("report.json")});
  const Finished finished = minuet(more);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.err, "");
  // Each column of x and z has three voxels.
  std::vector<int32_t> columns;
  for (int32_t x = 0; x < 9; ++x) {
    for (int32_t step = 0; step < 3; ++step) columns.insert(columns.end(), {0, x, (x * 5 + step) % 9});
  }
  const std::string wanted = npy_bytes(columns, {27, 3}), written = contents(path("flat_c.npy"));
  ASSERT_EQ(written.size(), wanted.size());
  EXPECT_NE(written.find("(27, 3)"), std::string::npos);
  const auto rows_of = [](const std::string& npy) {
    std::set<std::string> rows;
    for (size_t at = npy.size() - 27 * 12; at < npy.size(); at += 12) rows.insert(npy.substr(at, 12));
    return rows;
  };
  EXPECT_EQ(rows_of(written), rows_of(wanted));
  EXPECT_EQ(contents(path("items_c.npy")), npy_bytes(std::vector<int32_t>{0}, {1, 1}));
  EXPECT_NE(contents(path("items.npy")).find("(1, 4)"), std::string::npos);
  const llvm::json::Object report = json_in(path("report.json"));
  const llvm::json::Array& levels = *report.getArray("levels");
  EXPECT_EQ(levels[1].getAsObject()->getArray("tensor_stride")->size(), 2u);
  EXPECT_EQ(levels[2].getAsObject()->getArray("tensor_stride")->size(), 0u);
  EXPECT_EQ(levels[2].getAsObject()->getInteger("voxels"), int64_t{1});
  more = run;
  more.insert(more.end(), {"--output", path("flat.ply")});
  const Finished refused = minuet(more);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              testing::HasSubstr("must end in .npy, because the output of flat has no positions: its "
                                 "rows lie on 2 of the network's 3 axes"));
}

/// A network without a shape that pools batch items; in capacity mode too.
TEST_F(CliGraph, PoolingOfBatchItems) {
  const std::string layers =
      LAYER_B R"(, {"op": "global_pool", "name": "p", "reduction": "max", "output": "far"})";
  run(R"("far")", "", layers, {"--output", path("far.npy")});
  EXPECT_NE(contents(path("far.npy")).find("(1, 6)"), std::string::npos);
  run(R"("far")", "", layers, {"--output", path("o.npy"), "--replay", "--repeat", "2"});
  EXPECT_EQ(contents(path("o.npy")), contents(path("far.npy")));
}

/// What an argmax gives is written as int32, and is what --labels writes of the features before it.
TEST_F(CliGraph, IntegersOfAnArgmax) {
  const std::string layers = LAYER_A R"(, {"op": "argmax", "output": "labels"})";
  run(R"("near")", "", layers, {"--output", path("labels.npy"), "--labels", "--random-weights"});
  run(R"("labels", "near")", "", layers,
      {"--output", path("same.npy"), "--labels", "--random-weights", "--output-of",
       "labels=" + path("column.npy")});
  expect_same("same.npy", "labels.npy");
  const std::string column = contents(path("column.npy")), flat = contents(path("labels.npy"));
  EXPECT_NE(column.find("'<i4'"), std::string::npos);
  EXPECT_NE(column.find("(81, 1)"), std::string::npos);
  EXPECT_EQ(column.substr(column.size() - 81 * 4), flat.substr(flat.size() - 81 * 4));
}

TEST_F(CliGraph, AnInputOnLevel0HasTheOrderOfTheCloud) {
  const std::string more = R"(, {"name": "more", "channels": 4, "level": "points"})";
  run(R"("far")", "", LAYER_C("points"), {"--output", path("far.npy")});
  run(R"("near", "far")", more, LAYER_A "," LAYER_C("more"),
      {"--input-of", "more=" + path("f.npy"), "--output-of", "far=" + path("o.npy")});
  expect_same("o.npy", "far.npy");
}

/// Several inputs are told apart by their names, whatever the order of the flags.
TEST_F(CliGraph, InputsAreFoundByName) {
  const std::string more = R"(, {"name": "p", "channels": 3, "level": "points"},
      {"name": "q", "channels": 4, "level": "points"})";
  const std::string last =
      R"(, {"op": "block", "name": "d", "input": "p", "out_channels": 5, "kernel_size": 3, "output": "end"})";
  const auto with = [&](const std::string& one, const std::string& other, const std::string& output) {
    run(R"("near", "far", "end")", more, LAYER_A "," LAYER_C("q") + last,
        {"--input-of", one, "--input-of", other, "--output-of", "far=" + path(output)});
  };
  run(R"("far")", "", LAYER_C("points"), {"--output", path("far.npy")});
  with("p=" + path("g.npy"), "q=" + path("f.npy"), "o.npy");
  with("q=" + path("f.npy"), "p=" + path("g.npy"), "o2.npy");
  expect_same("o.npy", "far.npy");
  expect_same("o2.npy", "far.npy");
}

}  // namespace
}  // namespace minuet::tool
