// What pages are made of: packed numbers, texts that stand in HTML, and the data of `minuet view`.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "codegen/base/json_text.h"
#include "tests/tools/folder.h"
#include "tests/tools/minuet/cloud/bytes.h"
#include "tests/tools/minuet/cloud/cpu_voxelizer.h"
#include "tools/minuet/cloud/writers/npy.h"
#include "tools/minuet/pages/page.h"
#include "tools/minuet/pages/view_data.h"

namespace minuet::tool {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string from_base64(llvm::StringRef text) {
  const llvm::StringRef letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char letter : text.rtrim('=')) {
    bits = bits << 6 | static_cast<uint32_t>(letters.find(letter));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  return bytes;
}

template <class T>
std::vector<T> values_in(const llvm::json::Object& packed) {
  const std::string bytes = from_base64(*packed.getString("data"));
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// As pages/page.js unpacks them.
std::vector<double> unpacked(const llvm::json::Object& packed) {
  std::vector<double> values;
  if (*packed.getInteger("bits") == 32) {
    for (const float value : values_in<float>(packed)) values.push_back(static_cast<double>(value));
    return values;
  }
  for (const uint16_t steps : values_in<uint16_t>(packed))
    values.push_back(steps == 65535 ? kNaN : *packed.getNumber("least") + *packed.getNumber("step") * steps);
  return values;
}

TEST(PackedNumbers, IntegersComeBackExactly) {
  const std::vector<double> values = {-3, 65531, 0, 17};
  EXPECT_EQ(unpacked(pack_numbers(values)), values);
  EXPECT_EQ(unpacked(pack_numbers({5, 5, 5})), (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(unpacked(pack_numbers({0.1})), std::vector<double>{0.1});
  EXPECT_TRUE(unpacked(pack_numbers({})).empty());
}

TEST(PackedNumbers, OthersToAStepOfTheirRange) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(std::sin(i) * 40);
  const std::vector<double> again = unpacked(pack_numbers(values));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(again[i], values[i], 80.0 / 65534 / 2 + 1e-12);
  EXPECT_EQ(unpacked(pack_floats({1e-9, 1e9})), (std::vector<double>{double{1e-9f}, double{1e9f}}));
}

TEST(PackedNumbers, WhatIsNoNumberIsNone) {
  const std::vector<double> again = unpacked(pack_numbers({1, kNaN, 2, INFINITY}));
  EXPECT_EQ(again[0], 1);
  EXPECT_TRUE(std::isnan(again[1]));
  EXPECT_EQ(again[2], 2);
  EXPECT_TRUE(std::isnan(again[3]));
  EXPECT_TRUE(std::isnan(unpacked(pack_numbers({kNaN}))[0]));
}

TEST(Page, TextsStayTexts) {
  EXPECT_EQ(html_text("<b> & \"x\""), "&lt;b&gt; &amp; &quot;x&quot;");
  const std::string json = script_json(llvm::json::Object{{"name", "</script><!--"}});
  EXPECT_THAT(json, Not(HasSubstr("<")));
  EXPECT_EQ(*llvm::cantFail(parse_json(json)).getAsObject()->getString("name"),
            llvm::StringRef("</script><!--"));
}

TEST(Page, HasAllThatItNames) {
  const std::string page = fill_page("view.html", {{"title", "{{data}}"}, {"data", "{}"}, {"version", "1"}});
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("<title>{{data}}</title>"));  // values are not filled again
  EXPECT_THAT(page, HasSubstr("class Scene"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme"));
  EXPECT_THAT(page, HasSubstr("id=\"data\">{}</script>"));
}

/// Five points in two voxels of 1 m, which lie in one of stride 2; the fourth is not a number.
Input five_points() {
  Input input;
  input.cloud.points = {
      {1.5, 0.5, 0.5, 0}, {0.25, 0.5, 0.5, 1}, {1.75, 0.5, 0.5, 3}, {kNaN, 0, 0, 0}, {0.5, 0.5, 0, 2}};
  input.frame.voxel_size = cubic(1);
  input.voxels =
      llvm::cantFail(voxelize(input.cloud.points, cubic(1), /*skip_invalid=*/true, cpu_voxelizer()));
  return input;
}

std::vector<ViewLevel> two_levels() {
  return {{1, {0, 1, 0, 0, 0, 0, 0, 0}, {2, 2}, 4, {0, 1}}, {2, {0, 0, 0, 0}, {1}, 1, {0, 0}}};
}

const llvm::json::Object& set_of(const llvm::json::Object& view, size_t which) {
  return *(*view.getArray("sets"))[which].getAsObject();
}

std::vector<double> column_of(const llvm::json::Object& set, llvm::StringRef name) {
  for (const llvm::json::Value& column : *set.getArray("columns")) {
    if (column.getAsObject()->getString("name") == name)
      return unpacked(*column.getAsObject()->getObject("numbers"));
  }
  ADD_FAILURE() << "no column " << name.str();
  return {};
}

TEST(ViewData, PointsLieByVoxelAndVoxelsHaveTheirMeans) {
  const Input input = five_points();
  ViewColumns columns = llvm::cantFail(read_columns({}, input));
  ASSERT_EQ(columns.numbers.size(), 1u);  // intensity
  const llvm::json::Object view = view_json(input, two_levels(), columns, {}, {"title", "cpu", 3});
  EXPECT_EQ(view.getInteger("points"), int64_t{5});
  EXPECT_EQ(view.getInteger("skipped"), int64_t{1});
  ASSERT_EQ(view.getArray("sets")->size(), 3u);

  const llvm::json::Object& points = set_of(view, 0);
  EXPECT_EQ(points.getInteger("count"), int64_t{4});
  const auto x = unpacked(*(*points.getArray("position"))[0].getAsObject());
  EXPECT_THAT(x, ElementsAre(testing::DoubleNear(1.5, 1e-4), testing::DoubleNear(1.75, 1e-4),
                             testing::DoubleNear(0.25, 1e-4), testing::DoubleNear(0.5, 1e-4)));
  EXPECT_THAT(column_of(points, "intensity"), ElementsAre(0, 3, 1, 2));

  EXPECT_THAT(column_of(set_of(view, 1), "points"), ElementsAre(2, 2));
  EXPECT_THAT(column_of(set_of(view, 1), "neighbours"), ElementsAre(2, 2));
  EXPECT_THAT(column_of(set_of(view, 1), "intensity"), ElementsAre(1.5, 1.5));
  EXPECT_THAT(column_of(set_of(view, 2), "points"), ElementsAre(4));
  EXPECT_THAT(column_of(set_of(view, 2), "intensity"), ElementsAre(1.5));
  EXPECT_EQ(set_of(view, 2).getInteger("stride"), int64_t{2});
}

TEST(ViewData, VoxelsOfOtherSizesOnEachAxis) {
  Input input = five_points();
  const auto of = [&] { return view_json(input, two_levels(), {}, {}, {"title", "cpu", 3}); };
  EXPECT_EQ(*of().get("voxel_size"), llvm::json::Value(1.0));  // a number, as pages had it before
  EXPECT_EQ(*set_of(of(), 1).get("scale"), llvm::json::Value(1.0));
  input.frame.voxel_size = {1, 2, 4};
  const llvm::json::Object view = of();
  const llvm::json::Value sizes = llvm::json::Array{1.0, 2.0, 4.0};
  EXPECT_EQ(*view.get("voxel_size"), sizes);
  EXPECT_EQ(*set_of(view, 0).get("scale"), llvm::json::Value(1));
  for (const size_t level : {1, 2}) EXPECT_EQ(*set_of(view, level).get("scale"), sizes);
}

TEST(ViewData, VoxelsThatRepeatOthersAreLeftOut) {
  Input input;
  input.cloud.is_voxels = true;
  input.cloud.voxels = {0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  input.frame.voxel_size = cubic(1);
  input.voxels = features_from_centres(input.cloud, cubic(1));
  std::vector<ViewLevel> levels = two_levels();
  levels[0].parents = {0, -1, 1};
  ViewColumns columns;
  columns.labels = {5, 6, 7};
  const llvm::json::Object view = view_json(input, levels, columns, {}, {"title", "cpu", 3});
  ASSERT_EQ(view.getArray("sets")->size(), 2u);  // no points
  EXPECT_EQ(view.getArray("labels")->size(), 2u);
  EXPECT_THAT(unpacked(*set_of(view, 0).getObject("labels")), ElementsAre(0, 1));
  EXPECT_THAT(column_of(set_of(view, 1), "voxels"), ElementsAre(2));
}

TEST(ViewData, VoxelsHaveTheLabelOfMostPoints) {
  const Input input = five_points();
  ViewColumns columns;
  columns.labels = {7, 40, 7, 7, 3};
  const llvm::json::Object view = view_json(input, two_levels(), columns, {}, {"title", "cpu", 3});
  // Labels by their places in the list: 3, 7, 40. The dropped point counts for nothing.
  const llvm::json::Array& labels = *view.getArray("labels");
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(labels[1].getAsObject()->getInteger("value"), int64_t{7});
  EXPECT_EQ(labels[1].getAsObject()->getInteger("count"), int64_t{2});
  EXPECT_THAT(unpacked(*set_of(view, 0).getObject("labels")), ElementsAre(1, 1, 2, 0));
  EXPECT_THAT(unpacked(*set_of(view, 1).getObject("labels")), ElementsAre(1, 0));  // of equals the least
  EXPECT_THAT(unpacked(*set_of(view, 2).getObject("labels")), ElementsAre(1));
}

TEST(ViewData, FilesHaveARowForEachPointOrVoxel) {
  const Folder folder;
  const Input input = five_points();
  ViewOptions options;
  options.labels = folder.file("l.npy", npy_bytes(std::vector<int32_t>{4, 9}, {2}));
  EXPECT_THAT(llvm::cantFail(read_columns(options, input)).labels, ElementsAre(4, 9, 4, -1, 9));
  options.labels = folder.file("l5.npy", npy_bytes(std::vector<int32_t>{1, 2, 3, 4, -1}, {5, 1}));
  EXPECT_THAT(llvm::cantFail(read_columns(options, input)).labels, ElementsAre(1, 2, 3, 4, -1));
  options.labels.clear();
  options.features = folder.file("f.npy", npy_bytes(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  options.feature_columns = {1};
  const std::vector<ViewColumn> numbers = llvm::cantFail(read_columns(options, input)).numbers;
  ASSERT_EQ(numbers.size(), 2u);
  EXPECT_EQ(numbers[1].name, "feature 1");
  EXPECT_EQ(numbers[1].values[0], 2);
  EXPECT_EQ(numbers[1].values[4], 4);
  EXPECT_TRUE(std::isnan(numbers[1].values[3]));
}

TEST(ViewData, WrongFilesAreRefused) {
  const Folder folder;
  const Input input = five_points();
  const auto says = [&](const ViewOptions& options) { return error_of(read_columns(options, input)); };
  const auto of_labels = [&](const std::string& bytes) {
    ViewOptions options;
    options.labels = folder.file("l.npy", bytes);
    return says(options);
  };
  EXPECT_THAT(
      of_labels(npy_bytes(std::vector<int32_t>{1, 2, 3}, {3})),
      HasSubstr("has 3 rows, but the cloud has 5 points in 2 voxels: give a file with a row for each"));
  EXPECT_THAT(of_labels(npy_bytes(std::vector<float>{1, 2}, {2})),
              HasSubstr("labels must be integers, but this array"));
  EXPECT_THAT(of_labels(npy_bytes(std::vector<int32_t>{1, 2, 3, 4}, {2, 2})),
              HasSubstr("the shape of this one is [2, 2]"));
  EXPECT_THAT(of_labels(npy_bytes(std::vector<int32_t>{1, -2}, {2})), HasSubstr("the label -2 in row 1"));
  EXPECT_THAT(of_labels("no array"), HasSubstr("l.npy"));
  ViewOptions options;
  options.features = folder.file("f.npy", npy_bytes(std::vector<float>{1, 2, 3, 4}, {2, 2}));
  options.feature_columns = {2};
  EXPECT_THAT(says(options), HasSubstr("--feature-columns 2: "));
  options.labels = folder.path("none.npy");
  EXPECT_THAT(says(options), HasSubstr("none.npy"));
}

}  // namespace
}  // namespace minuet::tool
