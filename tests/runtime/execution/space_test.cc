// Space to channel and back, as ops of networks and as single ops on maps of the caller, on every device and
// in every dtype, exact, within capacities and on pyramids: bit by bit those of plain loops.
#include "include/minuet/space.h"

#include "tests/runtime/network/union_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// The features of each coordinate, as stored.
using ByteRows = std::map<Coordinate, std::string>;

std::string list_of(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

int volume_of(const std::vector<int>& stride) {
  int volume = 1;
  for (const int each : stride) volume *= each;
  return volume;
}

/// The cell of a voxel at a tensor stride, and the number of the voxel among the children of its cell at
/// `stride`, with the axis x slowest.
struct Place {
  Coordinate cell;
  int child = 0;
};
Place place_of(const Coordinate& voxel, const std::vector<int>& fine, const std::vector<int>& stride) {
  Place place{voxel};
  for (size_t a = 0; a < stride.size(); ++a) {
    const int size = fine[a] * stride[a];
    int32_t& at = place.cell[a + 1];
    const int32_t below = ((at % size) + size) % size;
    at -= below;
    place.child = place.child * stride[a] + below / fine[a];
  }
  return place;
}

/// The features of all children of each cell side by side.
ByteRows side_by_side(const ByteRows& rows, const std::vector<int>& fine, const std::vector<int>& stride) {
  ByteRows cells;
  for (const auto& [voxel, bytes] : rows) {
    const Place place = place_of(voxel, fine, stride);
    std::string& cell =
        cells.emplace(place.cell, std::string(bytes.size() * static_cast<size_t>(volume_of(stride)), '\0'))
            .first->second;
    cell.replace(static_cast<size_t>(place.child) * bytes.size(), bytes.size(), bytes);
  }
  return cells;
}

/// The part of its cell's features for each voxel of `onto`, and 0 for voxels whose cell is not in `cells`.
ByteRows parts_of(const ByteRows& cells, const ByteRows& onto, const std::vector<int>& fine,
                  const std::vector<int>& stride, size_t part_bytes) {
  ByteRows parts;
  for (const auto& [voxel, bytes] : onto) {
    const Place place = place_of(voxel, fine, stride);
    const auto cell = cells.find(place.cell);
    parts[voxel] = cell == cells.end()
                       ? std::string(part_bytes, '\0')
                       : cell->second.substr(static_cast<size_t>(place.child) * part_bytes, part_bytes);
  }
  return parts;
}

/// The strides of two levels, one below the other, and the channels of the input.
struct SpaceCase {
  std::vector<int> first, second;
  int channels = 4;
};

class SpaceTest : public UnionTest {
 protected:
  ByteRows byte_rows(const std::vector<int32_t>& coordinates, const std::vector<char>& bytes,
                     size_t ndim) const {
    const size_t count = coordinates.size() / (1 + ndim);
    ByteRows rows;
    for (size_t row = 0; row < count; ++row) {
      const auto at = coordinates.begin() + static_cast<std::ptrdiff_t>(row * (1 + ndim));
      const size_t width = bytes.size() / count;
      rows.emplace(Coordinate(at, at + static_cast<std::ptrdiff_t>(1 + ndim)),
                   std::string(bytes.data() + row * width, width));
    }
    EXPECT_EQ(rows.size(), count) << "coordinates are repeated";
    return rows;
  }

  /// Both ops over two levels, one after the other and over both at once.
  UnionGraph graph_of(const SpaceCase& test) const {
    UnionGraph graph;
    graph.ndim = static_cast<int>(test.first.size());
    const auto down = [&](const char* input, const std::vector<int>& stride) {
      graph.add(std::string(R"("op": "space_to_channel", "input": ")") + input + R"(", "stride": )" +
                list_of(stride));
    };
    const auto up = [&](const char* input, const char* onto) {
      graph.add(std::string(R"("op": "channel_to_space", "input": ")") + input + R"(", "onto": ")" + onto +
                "\"");
    };
    down("input", test.first), down("r0", test.second);
    up("r1", "r0"), up("r0", "input"), up("r1", "input");
    return graph;
  }

  std::string text_of(const UnionGraph& graph, const SpaceCase& test) const {
    std::string text = graph.text();
    const std::string four = "\"in_channels\": 4";
    return text.replace(text.find(four), four.size(), "\"in_channels\": " + std::to_string(test.channels));
  }

  std::vector<char> features(const std::vector<int32_t>& cloud, const SpaceCase& test) const {
    const auto rows = static_cast<int64_t>(cloud.size() / (1 + test.first.size()));
    return encode(dtype(), oracle::draw_features(rows * test.channels, 17));
  }

  void check_runs(const SpaceCase& test, const std::vector<NetworkRun>& runs,
                  const std::vector<int32_t>& cloud) const {
    const size_t ndim = test.first.size(), width = static_cast<size_t>(test.channels * dtype_bytes(dtype()));
    const std::vector<int> ones(ndim, 1);
    std::vector<int> both = test.first;
    for (size_t a = 0; a < ndim; ++a) both[a] *= test.second[a];
    const auto rows_of = [&](size_t i) { return byte_rows(runs[i].coordinates, runs[i].bytes, ndim); };
    const ByteRows input = byte_rows(cloud, features(cloud, test), ndim);
    const ByteRows first = side_by_side(input, ones, test.first),
                   second = side_by_side(first, test.first, test.second);
    EXPECT_EQ(rows_of(0), first);
    EXPECT_EQ(rows_of(1), second);
    EXPECT_EQ(rows_of(2), first) << "channel_to_space(space_to_channel(x)) is not x";
    EXPECT_EQ(rows_of(3), input) << "channel_to_space(space_to_channel(x)) is not x";
    EXPECT_EQ(rows_of(4), parts_of(second, input, ones, both, width));
  }
};

std::vector<SpaceCase> cases_of(int ndim, bool is_short) {
  if (ndim == 1) return {{{2}, {3}, 5}, {{4}, {2}, 8}};
  if (ndim == 2) return {{{2, 2}, {1, 4}, 3}};
  if (ndim == 4) return {{{1, 2, 1, 3}, {2, 1, 1, 1}, 6}};
  if (is_short) return {{{2, 2, 2}, {1, 3, 1}, 16}};
  return {{{2, 2, 2}, {2, 2, 2}, 16}, {{1, 3, 2}, {4, 1, 1}, 7}, {{4, 3, 1}, {1, 1, 2}, 2}};
}

TEST_P(SpaceTest, NetworksCopyBits) {
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (const SpaceCase& test : cases_of(ndim, machine().is_software())) {
      const UnionGraph graph = graph_of(test);
      NetworkSpec spec;
      spec.description = text_of(graph, test), spec.dtype = dtype();
      SCOPED_TRACE(spec.description);
      const Plan plan = make_network(machine(), spec);
      // The library's own text makes the same network.
      EXPECT_NE(description_of(plan.get()).find("channel_to_space"), std::string::npos);
      spec.description = description_of(plan.get());
      EXPECT_EQ(description_of(make_network(machine(), spec).get()), spec.description);
      Random random(40 + static_cast<uint64_t>(ndim));
      for (const int64_t count : {120, 1, 0}) {
        const std::vector<int32_t> cloud = draw_cloud(graph, random, count);
        for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
          const minuet_execution_options options = options_of(method);
          const Execution execution = make_execution(machine(), plan.get(), &options);
          check_runs(test,
                     run_graph(machine(), plan.get(), execution.get(), cloud, {features(cloud, test)},
                               dtype(), ndim),
                     cloud);
        }
      }
    }
  }
}

/// The bytes of the exact run, and zeros behind them.
TEST_P(SpaceTest, NetworksWithinCapacitiesAndOnPyramids) {
  const SpaceCase test{{2, 2, 2}, {3, 1, 2}, 4};
  const UnionGraph graph = graph_of(test);
  const Plan plan = plan_of(graph);
  Random random(8);
  Capacities capacities{90, 80, 70};
  for (const int64_t voxels : {60, 0}) {
    const std::vector<int32_t> cloud = draw_cloud(graph, random, voxels);
    const std::vector<NetworkRun> exact = run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED);
    check_runs(test, exact, cloud);
    minuet_execution_options options = options_of(MINUET_MAPS_INDEXED);
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    const Execution within = make_execution(machine(), plan.get(), &options);
    for (int repetition = 0; repetition < 2; ++repetition) {
      expect_within(graph, plan.get(), capacities, cloud, exact,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      check(prepare(machine(), within.get(), cloud));
                      check(run_arrays(within.get(), in, out));
                    });
    }
    minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
    of_network.network = plan.get();
    of_network.level_capacity = capacities.data();
    of_network.level_count = static_cast<int32_t>(capacities.size());
    TestPyramid pyramid(machine(), of_network);
    pyramid.build(cloud);
    expect_within(graph, plan.get(), capacities, cloud, exact,
                  [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                    run_on(machine(), plan.get(), pyramid.run_arguments(), in, out);
                  });
  }
}

/// Columns of a concatenation, in whose rows the access has another alignment; and a level by the reached
/// rule, which lacks the cells of some voxels.
TEST_P(SpaceTest, NetworksReadColumnsAndLevelsWithHoles) {
  UnionGraph graph;
  graph.add(R"("op": "max_pool", "input": "input")");
  graph.add(R"("op": "concat", "with": "input", "input": "r0")");
  graph.layers.replace(graph.layers.find(R"("name": "r1", )"), 14, "");
  graph.add(R"("op": "space_to_channel", "input": "input", "stride": 2)");
  graph.add(R"("op": "space_to_channel", "input": "r1", "stride": 2)");
  graph.add(R"("op": "max_pool", "input": "r2", "rule": "reached", "kernel_size": 1, "stride": [2, 1, 1])");
  graph.add(R"("op": "channel_to_space", "input": "r4", "onto": "input")");
  const Plan plan = plan_of(graph);
  Random random(3);
  const std::vector<int32_t> cloud = draw_cloud(graph, random, 150);
  const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED);
  const auto rows_at = [&](size_t i) { return byte_rows(runs[i].coordinates, runs[i].bytes, 3); };
  EXPECT_EQ(rows_at(2), side_by_side(rows_at(0), {1, 1, 1}, {2, 2, 2}));
  EXPECT_EQ(rows_at(3), side_by_side(rows_at(1), {1, 1, 1}, {2, 2, 2}));
  const ByteRows input = rows_at(0), holes = rows_at(4);
  const size_t width = static_cast<size_t>(32 * dtype_bytes(dtype())) / 16;
  const ByteRows expected = parts_of(holes, input, {1, 1, 1}, {4, 2, 2}, width);
  EXPECT_EQ(rows_at(5), expected);
  size_t zeros = 0;
  for (const auto& [voxel, bytes] : expected) zeros += bytes == std::string(width, '\0') ? 1 : 0;
  EXPECT_GT(zeros, 0u);
  EXPECT_LT(zeros, expected.size());
}

/// Single ops on sets and maps of the caller.
class SpaceOpTest : public SpaceTest {
 protected:
  Plan plan_of(const std::vector<int>& stride, int channels, bool is_down) {
    minuet_space_options options = MINUET_SPACE_OPTIONS_INIT;
    options.ndim = static_cast<int32_t>(stride.size());
    options.dtype = abi_dtype(dtype());
    options.channels = channels;
    std::copy(stride.begin(), stride.end(), options.stride);
    minuet_plan* made = nullptr;
    check((is_down ? minuet_plan_create_space_to_channel : minuet_plan_create_channel_to_space)(
        machine().context(), &options, &made));
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }

  static bool is_dense(const std::vector<int>& stride) {
    return std::any_of(stride.begin(), stride.end(), [](int each) { return each > 2; });
  }
};

TEST_P(SpaceOpTest, OnMapsOfTheCaller) {
  const std::vector<SpaceCase> cases = {
      {{2, 2, 2}, {}, 16}, {{3}, {}, 5}, {{2, 4}, {}, 8}, {{1, 2, 1, 3}, {}, 3}};
  for (const SpaceCase& test : cases) {
    const size_t ndim = test.first.size();
    const int volume = volume_of(test.first);
    SCOPED_TRACE(list_of(test.first));
    UnionGraph graph;
    graph.ndim = static_cast<int>(ndim);
    Random random(5);
    const std::vector<int32_t> cloud = draw_cloud(graph, random, 100);
    const auto rows = static_cast<int64_t>(cloud.size() / (1 + ndim));
    const Coordinates fine = make_set(machine(), graph.ndim, cloud, {1, 1, 1, 1});
    oracle::Axes stride{1, 1, 1, 1};
    std::copy(test.first.begin(), test.first.end(), stride.begin());
    const Coordinates coarse = downsample(fine.get(), stride);
    const int64_t cells = minuet_coordinates_rows(coarse.get());
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::copy(test.first.begin(), test.first.end(), options.kernel_size);
    options.dense_offsets = is_dense(test.first);
    minuet_kernel_map *made = nullptr, *back = nullptr;
    check(minuet_kernel_map_create(fine.get(), coarse.get(), &options, nullptr, &made));
    const KernelMap down_map(made, {minuet_kernel_map_destroy});
    check(minuet_kernel_map_transpose(made, &back));
    const KernelMap up_map(back, {minuet_kernel_map_destroy});

    const Plan down = plan_of(test.first, test.channels, true),
               up = plan_of(test.first, test.channels, false);
    EXPECT_EQ(info_of(down.get()).out_channels, volume * test.channels);
    EXPECT_EQ(info_of(up.get()).in_channels, volume * test.channels);
    const std::vector<char> given = features(cloud, test);
    const Buffer input(machine(), given);
    const Buffer wide(machine(), cells * volume * test.channels * dtype_bytes(dtype()));
    const Buffer output(machine(), static_cast<int64_t>(given.size()));
    const Execution of_down = make_execution(machine(), down.get()),
                    of_up = make_execution(machine(), up.get());
    check(prepare_map(of_down.get(), down_map.get()));
    check(prepare_map(of_up.get(), up_map.get()));
    check(run_tensors(of_down.get(), {tensor(input, rows, test.channels, dtype())},
                      tensor(wide, cells, volume * test.channels, dtype())));
    check(run_tensors(of_up.get(), {tensor(wide, cells, volume * test.channels, dtype())},
                      tensor(output, rows, test.channels, dtype())));
    const std::vector<int32_t> coordinates = coordinates_of(machine(), coarse.get(), graph.ndim);
    EXPECT_EQ(byte_rows(coordinates, wide.read<char>(), ndim),
              side_by_side(byte_rows(cloud, given, ndim), std::vector<int>(ndim, 1), test.first));
    EXPECT_EQ(output.read<char>(), given) << "channel_to_space(space_to_channel(x)) is not x";
    // The map of one direction does not serve the other.
    EXPECT_EQ(prepare_map(of_down.get(), up_map.get()), MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(prepare_map(of_up.get(), down_map.get()), MINUET_INVALID_ARGUMENT);
  }
}

/// On a pyramid of the caller, the map of a pooling serves both ops.
TEST_P(SpaceOpTest, OnPyramidsOfTheCaller) {
  constexpr int kChannels = 4, kWide = 8 * kChannels;
  UnionGraph graph;
  Random random(6);
  const std::vector<int32_t> cloud = draw_cloud(graph, random, 80);
  const auto rows = static_cast<int64_t>(cloud.size() / 4);
  const SpaceCase test{{2, 2, 2}, {}, kChannels};
  const minuet_pyramid_level levels[] = {level_of(rows + 20), level_of(rows + 7, 0, 2)};
  for (const uint32_t purposes : {MINUET_PURPOSE_POOLING | MINUET_PURPOSE_TRANSPOSED_POOLING,
                                  static_cast<int>(MINUET_PURPOSE_CONVOLUTION)}) {
    const minuet_pyramid_map map = map_between(0, 1, 2, purposes);
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.levels = levels, options.level_count = 2;
    options.maps = &map, options.map_count = 1;
    TestPyramid pyramid(machine(), options);
    pyramid.build(cloud);
    std::vector<char> padded = features(cloud, test);
    const std::vector<char> given = padded;
    padded.resize(static_cast<size_t>(levels[0].capacity * kChannels * dtype_bytes(dtype())), '\xff');
    const Buffer input(machine(), padded);
    const Buffer wide(machine(), levels[1].capacity * kWide * dtype_bytes(dtype()));
    const Buffer output(machine(), levels[0].capacity * kChannels * dtype_bytes(dtype()));
    const Plan down = plan_of(test.first, kChannels, true), up = plan_of(test.first, kChannels, false);
    const minuet_run_arguments arguments = pyramid.run_arguments();
    if (purposes == MINUET_PURPOSE_CONVOLUTION) {
      int64_t bytes = 0;
      EXPECT_EQ(minuet_plan_run_bytes(down.get(), machine().arch().c_str(), &arguments, &bytes),
                MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("purposes"));
      continue;
    }
    run_on(machine(), down.get(), arguments,
           {array_of(tensor(input, levels[0].capacity, kChannels, dtype()))},
           {array_of(tensor(wide, levels[1].capacity, kWide, dtype()))});
    run_on(machine(), up.get(), arguments, {array_of(tensor(wide, levels[1].capacity, kWide, dtype()))},
           {array_of(tensor(output, levels[0].capacity, kChannels, dtype()))});
    std::vector<char> expected = given;
    expected.resize(padded.size());
    EXPECT_EQ(output.read<char>(), expected);
    const std::vector<char> all = wide.read<char>();
    const size_t cells = side_by_side(byte_rows(cloud, given, 3), {1, 1, 1}, test.first).size(),
                 bytes = cells * kWide * static_cast<size_t>(dtype_bytes(dtype()));
    EXPECT_EQ(std::count(all.begin() + static_cast<std::ptrdiff_t>(bytes), all.end(), '\0'),
              static_cast<std::ptrdiff_t>(all.size() - bytes));
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(SpaceTest);
MINUET_INSTANTIATE_DEVICE_TEST(SpaceOpTest);

}  // namespace
}  // namespace minuet::abi
