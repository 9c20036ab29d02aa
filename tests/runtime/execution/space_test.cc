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
  bool is_dense = false;  // The map of a single op has dense_offsets even if it needs none.
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

/// A graph whose tensors have 8 and 3 channels, which are parts of concatenations of 11. Rows of 11 elements
/// are aligned to one element only.
class SpaceColumnsTest : public SpaceTest {
 protected:
  void SetUp() override {
    SpaceTest::SetUp();
    add(R"("op": "linear", "input": "input", "out_channels": 8)");           // r0
    add(R"("op": "linear", "input": "input", "out_channels": 3)");           // r1
    add_concat("r0", "r1");                                                  // r2
    add(R"("op": "space_to_channel", "input": "r0", "stride": 2)");          // r3
    add(R"("op": "space_to_channel", "input": "r1", "stride": 2)");          // r4
    add_concat("r3", "r4");                                                  // r5: 64 + 24
    add(R"("op": "max_pool", "input": "r3", "kernel_size": 1)");             // r6
    add(R"("op": "channel_to_space", "input": "r6", "onto": "input")");      // r7
    add(R"("op": "channel_to_space", "input": "r4", "onto": "input")");      // r8
    add_concat("r8", "r7");                                                  // r9: 3 + 8
    add(R"("op": "space_to_channel", "input": "r9", "stride": [3, 1, 1])");  // r10
    add(R"("op": "channel_to_space", "input": "r10", "onto": "r9")");        // r11
  }

  void add(const std::string& fields) { graph_.add(fields); }
  void add_concat(const std::string& first, const std::string& second) {
    const std::string name = "\"name\": \"r" + std::to_string(graph_.results) + "\", ";
    add(R"("op": "concat", "with": ")" + second + R"(", "input": ")" + first + "\"");
    graph_.layers.erase(graph_.layers.find(name), name.size());  // A concatenation has no name.
  }

  /// The features of two results side by side.
  static ByteRows both_of(const ByteRows& first, const ByteRows& second) {
    ByteRows both = first;
    for (auto& [voxel, bytes] : both) bytes += second.at(voxel);
    return both;
  }

  UnionGraph graph_;
};

TEST_P(SpaceColumnsTest, NetworksReadAndWriteColumns) {
  const Plan plan = plan_of(graph_);
  Random random(3);
  const std::vector<int32_t> cloud = draw_cloud(graph_, random, 150);
  const std::vector<NetworkRun> runs = run(graph_, plan.get(), cloud, MINUET_MAPS_INDEXED);
  const auto rows_at = [&](size_t i) { return byte_rows(runs[i].coordinates, runs[i].bytes, 3); };
  const std::vector<int> ones{1, 1, 1}, two{2, 2, 2};
  const ByteRows eight = rows_at(0), three = rows_at(1);
  const size_t width = static_cast<size_t>(11 * dtype_bytes(dtype()));
  ASSERT_EQ(rows_at(2).begin()->second.size(), width);
  EXPECT_EQ(rows_at(2), both_of(eight, three));
  EXPECT_EQ(rows_at(3), side_by_side(eight, ones, two));
  EXPECT_EQ(rows_at(4), side_by_side(three, ones, two));
  EXPECT_EQ(rows_at(5), both_of(rows_at(3), rows_at(4)));
  EXPECT_EQ(rows_at(7), eight);
  EXPECT_EQ(rows_at(8), three);
  EXPECT_EQ(rows_at(9), both_of(three, eight));
  EXPECT_EQ(rows_at(10), side_by_side(rows_at(9), ones, {3, 1, 1}));
  EXPECT_EQ(rows_at(11), rows_at(9));
}

/// A level by the reached rule lacks the cells of some voxels.
TEST_P(SpaceTest, NetworksReadLevelsWithHoles) {
  UnionGraph graph;
  graph.add(R"("op": "space_to_channel", "input": "input", "stride": 2)");
  graph.add(R"("op": "max_pool", "input": "r0", "rule": "reached", "kernel_size": 1, "stride": [2, 1, 1])");
  graph.add(R"("op": "channel_to_space", "input": "r1", "onto": "input")");
  const Plan plan = plan_of(graph);
  Random random(3);
  const std::vector<int32_t> cloud = draw_cloud(graph, random, 150);
  const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED);
  const auto rows_at = [&](size_t i) { return byte_rows(runs[i].coordinates, runs[i].bytes, 3); };
  const ByteRows input = byte_rows(cloud, features_of(graph, cloud), 3), holes = rows_at(1);
  EXPECT_EQ(rows_at(0), side_by_side(input, {1, 1, 1}, {2, 2, 2}));
  const size_t width = static_cast<size_t>(2 * dtype_bytes(dtype()));  // 32 channels of 16 children
  const ByteRows expected = parts_of(holes, input, {1, 1, 1}, {4, 2, 2}, width);
  EXPECT_EQ(rows_at(2), expected);
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

  /// The coordinates of level 1.
  std::vector<int32_t> coarse_coordinates(TestPyramid& pyramid, int64_t capacity) {
    const Buffer coordinates(machine(), capacity * 4 * static_cast<int64_t>(sizeof(int32_t)));
    check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                     pyramid.buffer().bytes(), 1, static_cast<int32_t*>(coordinates.data()),
                                     nullptr));
    check(minuet_device_synchronize(machine().device(), nullptr));
    return coordinates.read<int32_t>();
  }

  static bool is_dense(const std::vector<int>& stride) {
    return std::any_of(stride.begin(), stride.end(), [](int each) { return each > 2; });
  }
};

TEST_P(SpaceOpTest, OnMapsOfTheCaller) {
  const std::vector<SpaceCase> cases = {
      {{2, 2, 2}, {}, 16}, {{2, 1, 2}, {}, 4, true}, {{3}, {}, 5}, {{2, 4}, {}, 8}, {{1, 2, 1, 3}, {}, 3}};
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
    // With strides of 1 and 2 alone, either form of the map serves.
    options.dense_offsets = is_dense(test.first) || test.is_dense;
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

/// A map with a centred kernel has other children. The message says what to ask for.
TEST_P(SpaceOpTest, CentredMapsAreRefused) {
  const std::vector<int32_t> cloud{0, 1, 2, 0, 4, 5};
  const Coordinates fine = make_set(machine(), 2, cloud, {1, 1, 1, 1}),
                    coarse = downsample(fine.get(), {3, 2, 1, 1});
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  options.kernel_size[0] = 3, options.kernel_size[1] = 2;
  minuet_kernel_map* made = nullptr;
  check(minuet_kernel_map_create(fine.get(), coarse.get(), &options, nullptr, &made));
  const KernelMap map(made, {minuet_kernel_map_destroy});
  const Plan down = plan_of({3, 2}, 4, true);
  const Execution execution = make_execution(machine(), down.get());
  EXPECT_EQ(prepare_map(execution.get(), map.get()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(),
              HasSubstr("make the map with kernel_size 3, 2, dilation 1, 1, dense_offsets and padding 0, 0"));
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
    options.keep_coordinates = 2;
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
      EXPECT_THAT(last_error(), HasSubstr("add MINUET_PURPOSE_POOLING to the map's purposes"));
      EXPECT_EQ(minuet_plan_run_bytes(up.get(), machine().arch().c_str(), &arguments, &bytes),
                MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("add MINUET_PURPOSE_TRANSPOSED_POOLING to the map's purposes"));
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
    const ByteRows cells = side_by_side(byte_rows(cloud, given, 3), {1, 1, 1}, test.first);
    std::vector<char> all = wide.read<char>();
    const auto bytes =
        static_cast<std::ptrdiff_t>(cells.size() * kWide * static_cast<size_t>(dtype_bytes(dtype())));
    EXPECT_EQ(std::count(all.begin() + bytes, all.end(), '\0'),
              static_cast<std::ptrdiff_t>(all.size()) - bytes);
    std::vector<int32_t> coordinates = coarse_coordinates(pyramid, levels[1].capacity);
    coordinates.resize(4 * cells.size());
    all.resize(static_cast<size_t>(bytes));
    EXPECT_EQ(byte_rows(coordinates, all, 3), cells);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(SpaceTest);
MINUET_INSTANTIATE_DEVICE_TEST(SpaceColumnsTest);
MINUET_INSTANTIATE_DEVICE_TEST(SpaceOpTest);

}  // namespace
}  // namespace minuet::abi
