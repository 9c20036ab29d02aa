// pyramid.hpp: each wrapper passes on what it is given and gives back what the library answers; and throws.
#include "include/minuet/pyramid.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>

namespace {

using testing::ElementsAre;

constexpr const char* kTwoLevels = R"({"name": "n", "ndim": 3, "in_channels": 1, "channels": [2], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
  {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2}]})";
constexpr std::int64_t kRoom = 4;

class HppPyramidTest : public testing::Test {
 protected:
  HppPyramidTest() {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = kTwoLevels;
    options.dataflow = MINUET_DATAFLOW_FUSED;
    network_.emplace(minuet::Plan::network(context_, options));
    network_->load(device_);
  }

  /// Makes the memory of a pyramid, and builds it. The CPU's device memory is the host's.
  void build(const minuet::Pyramid& pyramid) {
    const minuet::Pyramid::Bytes bytes = pyramid.bytes("cpu");
    EXPECT_GT(bytes.workspace, 0);
    pyramid.load(device_);
    buffer_.emplace(device_, static_cast<std::size_t>(bytes.buffer));
    const minuet::Buffer<char> workspace(device_, static_cast<std::size_t>(bytes.workspace));
    const minuet::Buffer<std::int32_t> counts(device_, 3);
    minuet_pyramid_arguments given = MINUET_PYRAMID_ARGUMENTS_INIT;
    given.buffer = buffer_->get(), given.buffer_bytes = bytes.buffer;
    given.workspace = workspace.get(), given.workspace_bytes = bytes.workspace;
    given.coordinates = coordinates_.get(), given.most = 3;
    given.counts = counts.get();
    pyramid.build(device_, given);
    EXPECT_THAT(counts.download(), ElementsAre(3, 3, 2));
    given.most = kRoom + 1;
    EXPECT_THROW(pyramid.build(device_, given), minuet::Exception);
  }
  std::int64_t buffer_bytes() const { return static_cast<std::int64_t>(buffer_->size()); }

  const minuet::Context context_;
  const minuet::Device device_{context_, "cpu"};
  const minuet::Buffer<std::int32_t> coordinates_{
      device_, std::vector<std::int32_t>{0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9}};
  std::optional<minuet::Plan> network_;
  std::optional<minuet::Buffer<char>> buffer_;
};

TEST_F(HppPyramidTest, OfANetwork) {
  const minuet::Pyramid pyramid(context_, *network_, {kRoom, kRoom}, 1u << 1);
  build(pyramid);
  const minuet::Buffer<std::int32_t> places(device_, kRoom * 4);
  pyramid.coordinates(device_, buffer_->get(), buffer_bytes(), 1, places.get());
  EXPECT_THAT(places.download(), ElementsAre(0, 0, 0, 0, 0, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THROW(pyramid.coordinates(device_, buffer_->get(), buffer_bytes(), 0, places.get()),
               minuet::Exception);
  EXPECT_THROW(minuet::Pyramid(context_, *network_, {kRoom}), minuet::Exception);

  minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
  given.pyramid = pyramid.get();
  const std::int64_t bytes = minuet::run_bytes(*network_, "cpu", given);
  const minuet::Buffer<char> workspace(device_, static_cast<std::size_t>(bytes));
  const minuet::Buffer<float> features(device_, std::vector<float>(kRoom, 1)),
      output(device_, std::vector<float>(2 * kRoom, 7));
  const minuet_array in = minuet::array(features.get(), {kRoom, 1}, MINUET_ELEMENT_F32);
  const minuet_array out = minuet::array(output.get(), {kRoom, 2}, MINUET_ELEMENT_F32);
  given.buffer = buffer_->get(), given.buffer_bytes = buffer_bytes();
  given.workspace = workspace.get(), given.workspace_bytes = bytes;
  given.inputs = &in, given.outputs = &out;
  given.input_count = given.output_count = 1;
  minuet::run_load(*network_, device_, given);
  minuet::run(*network_, device_, given);
  const std::vector<float> values = output.download();
  EXPECT_NE(values[0], 7);
  EXPECT_THAT(std::vector<float>(values.begin() + 4, values.end()), ElementsAre(0, 0, 0, 0));
  // The same with parameters that are prepared.
  std::deque<minuet::Buffer<float>> held;
  std::vector<minuet_array> parameters;
  for (std::int32_t i = 0; i < network_->info().parameter_tensors; ++i) {
    const minuet_parameter_info info = network_->parameter(i);
    minuet_array value = {};
    value.rank = info.rank;
    std::size_t count = 1;
    for (std::int32_t axis = 0; axis < info.rank; ++axis) {
      value.shape[axis] = info.shape[axis];
      count *= static_cast<std::size_t>(info.shape[axis]);
    }
    held.emplace_back(device_, std::vector<float>(count, 0.5f));
    value.data = held.back().get();
    parameters.push_back(value);
  }
  const std::int64_t prepared_bytes = minuet::prepared_bytes(*network_, "cpu", given);
  const minuet::Buffer<char> prepared(device_, static_cast<std::size_t>(prepared_bytes));
  minuet::prepare_parameters(*network_, device_, given, parameters, MINUET_WEIGHTS_MINUET, prepared.get(),
                             prepared_bytes);
  minuet_run_arguments with = given;
  with.prepared = prepared.get(), with.prepared_bytes = prepared_bytes;
  minuet::run(*network_, device_, with);
  EXPECT_NE(output.download(), values);
  parameters.pop_back();
  EXPECT_THROW(minuet::prepare_parameters(*network_, device_, given, parameters, MINUET_WEIGHTS_MINUET,
                                          prepared.get(), prepared_bytes),
               minuet::Exception);
  --given.workspace_bytes;
  EXPECT_THROW(minuet::run(*network_, device_, given), minuet::Exception);
  given.map = 1;
  EXPECT_THROW(minuet::run_bytes(*network_, "cpu", given), minuet::Exception);
}

TEST_F(HppPyramidTest, OfLevelsAndMaps) {
  minuet_pyramid_level levels[2] = {};
  levels[0].capacity = levels[1].capacity = kRoom;
  levels[0].parent = -1;
  for (int32_t a = 0; a < 3; ++a) levels[1].stride[a] = 2;
  minuet_pyramid_map map = {};
  map.kernel_size[0] = 3;
  map.purposes = MINUET_PURPOSE_EXPORT;
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = levels, options.level_count = 2;
  options.maps = &map, options.map_count = 1;
  minuet::Pyramid made(context_, options);
  const minuet::Pyramid pyramid = std::move(made);
  build(pyramid);
  const minuet::Buffer<std::int32_t> source_row(device_, kRoom), set_row(device_, kRoom);
  pyramid.rows(device_, buffer_->get(), buffer_bytes(), source_row.get(), set_row.get());
  const std::vector<std::int32_t> sources = source_row.download(), rows = set_row.download();
  for (std::int32_t row = 0; row < 3; ++row) EXPECT_EQ(sources[static_cast<std::size_t>(rows[row])], row);
  EXPECT_THROW(pyramid.rows(device_, buffer_->get(), 0, source_row.get(), nullptr), minuet::Exception);

  const minuet::Buffer<std::int32_t> pairs(device_, 15), count(device_, 1);
  pyramid.export_pairs(device_, buffer_->get(), buffer_bytes(), 0, pairs.get(), 5, count.get());
  EXPECT_THAT(count.download(), ElementsAre(5));
  std::vector<std::array<std::int32_t, 3>> found;
  const std::vector<std::int32_t> words = pairs.download();
  for (std::size_t i = 0; i < 15; i += 3) found.push_back({words[i], words[i + 1], words[i + 2]});
  using Pair = std::array<std::int32_t, 3>;
  EXPECT_THAT(found, testing::UnorderedElementsAre(Pair{0, 0, 1}, Pair{1, 0, 0}, Pair{1, 1, 1}, Pair{1, 2, 2},
                                                   Pair{2, 1, 0}));
  EXPECT_THROW(pyramid.export_pairs(device_, buffer_->get(), buffer_bytes(), 1, pairs.get(), 5, count.get()),
               minuet::Exception);
  options.level_count = 0;
  EXPECT_THROW(minuet::Pyramid(context_, options), minuet::Exception);
}

}  // namespace
