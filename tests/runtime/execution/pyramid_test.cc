// Networks on pyramids: the bits of capacity mode, whatever was in the memory before, from copies of the
// buffer, in graphs and from many threads.
#include <thread>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/by_hand.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class NetworkPyramidTest : public CapacityTest {
 protected:
  minuet_pyramid_options options_of(minuet_plan* plan, const Capacities& capacities) const {
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan;
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    return options;
  }
  minuet_array array(void* data, int64_t rows, int32_t channels) const {
    return array_of(tensor(data, rows, channels, abi_dtype(dtype())));
  }
  /// The output's bytes, [capacity, channels]; all memory is poisoned before.
  std::vector<char> run(TestPyramid& pyramid, const Capacities& capacities, const Cloud& cloud) {
    pyramid.build(cloud.coordinates);
    Room room(machine(), capacities[0], dtype());
    room.fill(cloud);
    run_on(machine(), network_.get(), pyramid.run_arguments(),
           {array(room.features.data(), capacities[0], 4)},
           {array(room.output.data(), capacities[0], kWidths.back())});
    return room.output.read<char>();
  }
  std::vector<char> expected(minuet_execution* execution, const Capacities& capacities, const Cloud& cloud) {
    Room room(machine(), capacities[0], dtype());
    room.fill(cloud);
    enqueue(execution, room, nullptr);
    return room.output.read<char>();
  }
};

TEST_P(NetworkPyramidTest, GivesTheBitsOfCapacityMode) {
  const Cloud largest = scene(500, kSeed + 1);
  const Capacities capacities = suggested(largest);
  const Execution execution = within(capacities, 64, MINUET_MAPS_INDEXED);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  for (const Cloud& cloud :
       {largest, Cloud({}, dtype()), scene(40), Cloud({0, 7, -3, 2}, dtype()), largest}) {
    EXPECT_EQ(run(pyramid, capacities, cloud), expected(execution.get(), capacities, cloud)) << cloud.count();
  }
}

TEST_P(NetworkPyramidTest, TellsTheStatusAndTheCounts) {
  const Cloud cloud = scene(300);
  const Capacities capacities = suggested(cloud);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  const Execution execution = within(capacities, 64, MINUET_MAPS_INDEXED);
  Room room(machine(), capacities[0], dtype());
  const Buffer status(machine(), 4), counts(machine(), 4 * (1 + kLevels));
  const auto build = [&](const Cloud& given, int32_t said) {
    room.fill(given, said);
    minuet_pyramid_arguments arguments =
        pyramid.arguments(room.coordinates.integers(), capacities[0], room.count.integers());
    arguments.status = static_cast<uint32_t*>(status.data());
    arguments.counts = static_cast<int32_t*>(counts.data());
    check(minuet_pyramid_build(pyramid.get(), machine().device(), &arguments, nullptr));
    enqueue(execution.get(), room, nullptr);
    std::vector<int32_t> expected;
    const uint32_t expected_status = status_of(execution.get(), &expected);
    EXPECT_EQ(status.read<uint32_t>().front(), expected_status);
    EXPECT_EQ(counts.read<int32_t>(), expected);
    return expected_status;
  };
  EXPECT_EQ(build(cloud, static_cast<int32_t>(cloud.count())), 0u);
  EXPECT_EQ(build(cloud, static_cast<int32_t>(capacities[0]) + 1), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
  EXPECT_EQ(build(cloud, -1), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
  Cloud doubled = cloud;
  std::copy_n(cloud.coordinates.begin(), 4, doubled.coordinates.begin() + 8);
  EXPECT_EQ(build(doubled, static_cast<int32_t>(doubled.count())), uint32_t{MINUET_CLOUD_DUPLICATE});
  // A run on a pyramid of a cloud that does not fit gives zeros.
  room.output.poison();
  run_on(machine(), network_.get(), pyramid.run_arguments(), {array(room.features.data(), capacities[0], 4)},
         {array(room.output.data(), capacities[0], kWidths.back())});
  expect_zeros(room);
  for (size_t level = 1; level < capacities.size(); ++level) {
    Capacities tight = capacities;
    tight[level] = 1;
    TestPyramid too_small(machine(), options_of(network_.get(), tight));
    room.fill(cloud);
    minuet_pyramid_arguments arguments =
        too_small.arguments(room.coordinates.integers(), cloud.count(), nullptr);
    arguments.status = static_cast<uint32_t*>(status.data());
    check(minuet_pyramid_build(too_small.get(), machine().device(), &arguments, nullptr));
    EXPECT_EQ(status.read<uint32_t>().front(), uint32_t{MINUET_CLOUD_PAST_CAPACITY}) << "level " << level;
  }
}

TEST_P(NetworkPyramidTest, ACopyOfTheBufferServesAsWell) {
  const Cloud cloud = scene(300);
  const Capacities capacities = suggested(cloud);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  const std::vector<char> direct = run(pyramid, capacities, cloud);
  const Buffer copy(machine(), pyramid.buffer().read<char>());
  pyramid.buffer().poison(), pyramid.workspace().poison();
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  minuet_run_arguments moved = pyramid.run_arguments();
  moved.buffer = copy.data();
  run_on(machine(), network_.get(), moved, {array(room.features.data(), capacities[0], 4)},
         {array(room.output.data(), capacities[0], kWidths.back())});
  EXPECT_EQ(room.output.read<char>(), direct);
}

/// Memory that begins on a multiple of 16 and of no more.
TEST_P(NetworkPyramidTest, OfMemoryAnywhere) {
  const Cloud cloud = scene(200);
  const Capacities capacities = suggested(cloud);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  const std::vector<char> direct = run(pyramid, capacities, cloud);
  const Buffer buffer(machine(), pyramid.buffer().bytes() + 16);
  const Buffer workspace(machine(), pyramid.workspace().bytes() + 16);
  const Buffer coordinates(machine(), cloud.coordinates);
  minuet_pyramid_arguments given = pyramid.arguments(coordinates.integers(), cloud.count(), nullptr);
  given.buffer = static_cast<char*>(buffer.data()) + 16;
  given.workspace = static_cast<char*>(workspace.data()) + 16;
  check(minuet_pyramid_build(pyramid.get(), machine().device(), &given, nullptr));
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  minuet_run_arguments moved = pyramid.run_arguments();
  moved.buffer = given.buffer;
  const Buffer run_workspace(machine(), run_bytes(machine(), network_.get(), moved) + 16);
  const minuet_array input = array(room.features.data(), capacities[0], 4);
  const minuet_array output = array(room.output.data(), capacities[0], kWidths.back());
  moved.workspace = static_cast<char*>(run_workspace.data()) + 16;
  moved.workspace_bytes = run_workspace.bytes() - 16;
  moved.inputs = &input, moved.outputs = &output, moved.input_count = moved.output_count = 1;
  check(minuet_plan_run(network_.get(), machine().device(), &moved, nullptr));
  EXPECT_EQ(room.output.read<char>(), direct);
}

/// A pyramid that was described by hand has more levels and maps than a network needs, in another order.
TEST_P(NetworkPyramidTest, NetworksFindTheirLevelsAndMaps) {
  const Cloud cloud = scene(300);
  Capacities capacities = suggested(cloud);
  std::vector<minuet_pyramid_level> levels{level_of(capacities[0])};
  levels.push_back(level_of(capacities[0], 0, 3));
  const auto number = [](int level) { return level == 0 ? 0 : level + 1; };
  for (int level = 1; level < kLevels; ++level)
    levels.push_back(level_of(capacities[static_cast<size_t>(level)], number(level - 1), 2));
  std::vector<minuet_pyramid_map> maps{map_between(0, 1, 3, MINUET_PURPOSE_CONVOLUTION)};
  constexpr uint32_t kBoth = MINUET_PURPOSE_CONVOLUTION | MINUET_PURPOSE_TRANSPOSED_CONVOLUTION;
  for (int level = kLevels - 1; level >= 0; --level) {
    if (level > 0) maps.push_back(map_between(number(level - 1), number(level), 2, kBoth));
    maps.push_back(map_between(number(level), number(level), 1, MINUET_PURPOSE_CONVOLUTION));
    maps.push_back(map_between(number(level), number(level), 3, MINUET_PURPOSE_CONVOLUTION));
  }
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = levels.data(), options.level_count = static_cast<int32_t>(levels.size());
  options.maps = maps.data(), options.map_count = static_cast<int32_t>(maps.size());
  TestPyramid pyramid(machine(), options);
  TestPyramid of_network(machine(), options_of(network_.get(), capacities));
  EXPECT_EQ(run(pyramid, capacities, cloud), run(of_network, capacities, cloud));

  const auto refused = [&](const std::vector<minuet_pyramid_level>& some_levels,
                           const std::vector<minuet_pyramid_map>& some_maps, const std::string& words) {
    options.levels = some_levels.data(), options.level_count = static_cast<int32_t>(some_levels.size());
    options.maps = some_maps.data(), options.map_count = static_cast<int32_t>(some_maps.size());
    const TestPyramid lacking(machine(), options);
    const minuet_run_arguments given = lacking.run_arguments();
    int64_t bytes = 0;
    EXPECT_EQ(minuet_plan_run_bytes(network_.get(), machine().arch().c_str(), &given, &bytes),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused({levels.begin(), levels.end() - 1}, {maps[0]}, "no level of tensor stride 16 x 16 x 16");
  refused(levels, {maps.begin(), maps.end() - 1},
          "no map from level 0 to level 0 with kernel size 3 x 3 x 3");
  for (minuet_pyramid_map& map : maps) {
    if (map.purposes == kBoth) map.purposes = MINUET_PURPOSE_CONVOLUTION;
  }
  refused(levels, maps, "a transposed convolution: add MINUET_PURPOSE_TRANSPOSED_CONVOLUTION");
}

TEST_P(NetworkPyramidTest, OneGraphBuildsAndRuns) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const Cloud largest = scene(500, kSeed + 1);
  const Capacities capacities = suggested(largest);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  const Stream stream(machine());
  stream.make_current();
  Room room(machine(), capacities[0], dtype());
  minuet_run_arguments given = pyramid.run_arguments();
  const Buffer workspace(machine(), run_bytes(machine(), network_.get(), given));
  const minuet_array input = array(room.features.data(), capacities[0], 4);
  const minuet_array output = array(room.output.data(), capacities[0], kWidths.back());
  given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
  given.inputs = &input, given.outputs = &output, given.input_count = given.output_count = 1;
  const CapturedGraph graph(stream.get(), [&] {
    check(pyramid.build(room.coordinates.integers(), capacities[0], room.count.integers(), stream.get()));
    check(minuet_plan_run(network_.get(), machine().device(), &given, stream.get()));
  });
  for (const int64_t voxels : {500, 30, 200}) {
    expect_replay(graph, stream, room, scene(voxels, kSeed + static_cast<uint64_t>(voxels)));
  }
  expect_replay(graph, stream, room, Cloud({}, dtype()));
}

/// MinkUNet42 of 49 single convolutions, built by one call; and, where there are graphs, replayed.
TEST_P(NetworkPyramidTest, NetworkOfSingleOps) {
  const Cloud largest = scene(400, kSeed + 1);
  const Capacities capacities = suggested(largest);
  const Stream stream(machine());
  stream.make_current();
  ByHand by_hand(machine(), dtype(), kWidths, weights().parameters.all(), nullptr, stream.get(), {},
                 MINUET_DATAFLOW_FUSED);
  by_hand.use_pyramid(capacities);
  Room room(machine(), capacities[0], dtype());
  const auto enqueue = [&] {
    by_hand.build_pyramid(room.coordinates.integers(), room.count.integers());
    by_hand.run_on_pyramid(room.features.data(), room.output.data());
  };
  for (const Cloud& cloud : {largest, scene(60), Cloud({}, dtype())}) {
    room.fill(cloud);
    enqueue();
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_padded_oracle(room, cloud);
  }
  if (machine().is_cpu()) return;
  const CapturedGraph graph(stream.get(), enqueue);
  for (const int64_t voxels : {300, 30}) expect_replay(graph, stream, room, scene(voxels, kSeed + 2));
}

/// Threads share the plan and the pyramid; each has memory of its own, and half of them read one buffer.
TEST_P(NetworkPyramidTest, RunsOfManyThreads) {
  const Cloud cloud = scene(150);
  const Capacities capacities = suggested(cloud);
  TestPyramid shared(machine(), options_of(network_.get(), capacities));
  const std::vector<char> expected = run(shared, capacities, cloud);
  constexpr int kThreads = 4, kRuns = 3;
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestPyramid own(machine(), options_of(network_.get(), capacities));
      for (int i = 0; i < kRuns; ++i) {
        own.build(cloud.coordinates);
        Room room(machine(), capacities[0], dtype());
        room.fill(cloud);
        run_on(machine(), network_.get(), (t % 2 == 0 ? own : shared).run_arguments(),
               {array(room.features.data(), capacities[0], 4)},
               {array(room.output.data(), capacities[0], kWidths.back())});
        wrong[t] += room.output.read<char>() != expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads));
}

TEST_P(NetworkPyramidTest, BytesGrowWithEachCapacity) {
  const Capacities capacities{3000, 2000, 1000, 500, 300};
  const auto bytes_of = [&](const Capacities& given, const char* arch) {
    const minuet_pyramid_options options = options_of(network_.get(), given);
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine().context(), &options, &made));
    const PyramidHandle pyramid(made, {minuet_pyramid_destroy});
    minuet_run_arguments arguments = MINUET_RUN_ARGUMENTS_INIT;
    arguments.pyramid = made;
    std::array<int64_t, 3> bytes{};
    check(minuet_pyramid_bytes(made, arch, &bytes[0], &bytes[1]));
    check(minuet_plan_run_bytes(network_.get(), arch, &arguments, &bytes[2]));
    return bytes;
  };
  const char* const arch = machine().arch().c_str();
  const std::array<int64_t, 3> base = bytes_of(capacities, arch);
  for (size_t level = 0; level < capacities.size(); ++level) {
    Capacities more = capacities;
    more[level] += 1000;
    const std::array<int64_t, 3> grown = bytes_of(more, arch);
    EXPECT_GT(grown[0], base[0]) << level;
    EXPECT_GT(grown[1], base[1]) << level;
    EXPECT_GE(grown[2], base[2]) << level;
  }
}

TEST_P(NetworkPyramidTest, RefusesWhatDoesNotFit) {
  const Cloud cloud = scene(100);
  const Capacities capacities = suggested(cloud);
  TestPyramid pyramid(machine(), options_of(network_.get(), capacities));
  pyramid.build(cloud.coordinates);
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  const minuet_run_arguments plain = pyramid.run_arguments();
  const Buffer workspace(machine(), run_bytes(machine(), network_.get(), plain));
  minuet_array input = array(room.features.data(), capacities[0], 4);
  minuet_array output = array(room.output.data(), capacities[0], kWidths.back());
  const auto refused = [&](minuet_status status, const std::string& words, const auto& change) {
    minuet_run_arguments given = plain;
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    minuet_array in = input, out = output;
    given.inputs = &in, given.outputs = &out, given.input_count = given.output_count = 1;
    change(given, in, out);
    EXPECT_EQ(minuet_plan_run(network_.get(), machine().device(), &given, nullptr), status) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  using Run = minuet_run_arguments;
  using Array = minuet_array;
  refused(MINUET_RESOURCE_EXHAUSTED, "buffer has", [](Run& run, Array&, Array&) { --run.buffer_bytes; });
  refused(MINUET_RESOURCE_EXHAUSTED, "workspace has",
          [](Run& run, Array&, Array&) { --run.workspace_bytes; });
  refused(MINUET_INVALID_ARGUMENT, "buffer is null", [](Run& run, Array&, Array&) { run.buffer = nullptr; });
  refused(MINUET_INVALID_ARGUMENT, "multiple of 16",
          [](Run& run, Array&, Array&) { run.workspace = static_cast<char*>(run.workspace) + 8; });
  refused(MINUET_INVALID_ARGUMENT, "output 0 and the pyramid's buffer overlap",
          [](Run& run, Array&, Array& out) { out.data = const_cast<void*>(run.buffer); });
  refused(MINUET_INVALID_ARGUMENT, "the workspace and input 0 overlap",
          [](Run& run, Array& in, Array&) { in.data = run.workspace; });
  refused(MINUET_INVALID_ARGUMENT, "the workspace and the pyramid's buffer overlap",
          [&](Run& run, Array&, Array&) { run.workspace = const_cast<void*>(run.buffer); });
  refused(MINUET_INVALID_ARGUMENT, "output 0 and input 0 overlap",
          [](Run&, Array& in, Array& out) { out.data = in.data; });
  refused(MINUET_INVALID_ARGUMENT, "has shape", [](Run&, Array& in, Array&) { --in.shape[0]; });
  refused(MINUET_INVALID_ARGUMENT, "caller's order only",
          [](Run& run, Array&, Array&) { run.set_order = MINUET_SET_ORDER_INPUT; });
  refused(MINUET_INVALID_ARGUMENT, "pyramid", [](Run& run, Array&, Array&) { run.pyramid = nullptr; });
}

MINUET_INSTANTIATE_EXECUTION_TEST(NetworkPyramidTest);

}  // namespace
}  // namespace minuet::abi
