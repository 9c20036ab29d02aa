// Coordinate sets and kernel maps at the edges of their layouts, and what a layer passes through unchanged;
// through the C ABI, on every device.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "tests/support/abi.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using Points = std::vector<int32_t>;  // [n, 4]

oracle::Geometry cube_of(int kernel, int dilation = 1, int tensor_stride = 1) {
  return {3,
          {kernel, kernel, kernel, 1},
          {dilation, dilation, dilation, 1},
          {tensor_stride, tensor_stride, tensor_stride, 1},
          false};
}

class MapEdges : public SetsOnDevice {
 protected:
  Points points_of(minuet_coordinates* set) { return coordinates_of(machine(), set, 3); }
  /// Pairs of a map of a cube.
  std::vector<oracle::Pair> pairs_of(minuet_coordinates* in, minuet_coordinates* out, int kernel,
                                     int dilation = 1) {
    return abi::pairs_of(map_of(in, out, cube_of(kernel, dilation)).get());
  }
};

/// Distinct points of a box of 12 x 12 x 12.
Points draw_points(std::array<int32_t, 3> least, uint64_t seed) {
  Random random(seed);
  Points points;
  for (int cell = 0; cell < 12 * 12 * 12; ++cell) {
    if (random.below(4) != 0) continue;
    points.insert(points.end(), {0, least[0] + cell / 144, least[1] + cell / 12 % 12, least[2] + cell % 12});
  }
  return points;
}

/// 257 times 2^24 is 2^24 in 32 bits, which is what a dilation of 1 steps by.
TEST_P(MapEdges, ADilationThatPasses32BitsServesNoMap) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.tensor_stride[0] = 1 << 24;
  const Coordinates set = set_of({0, 0, 0, 0, 0, 1 << 24, 0, 0}, options);
  const KernelMap map = map_of(set.get(), set.get(), {3, {3, 1, 1, 1}, {1, 1, 1, 1}, {1 << 24, 1, 1, 1}});
  for (const int dilation : {1, 257}) {
    ConvolutionCase test;
    test.kernel_size = {3, 1, 1, 1};
    test.dilation = {dilation, 1, 1, 1};
    test.points = 2;
    Convolution convolution(machine(), test, make_data(test));
    const Execution execution = convolution.execution();
    EXPECT_EQ(prepare_map(execution.get(), map.get()), dilation == 1 ? MINUET_OK : MINUET_INVALID_ARGUMENT)
        << last_error();
  }
}

/// The key of a superblock of 16 x 16 x 16 voxels has one bit for the batch and 21 an axis, where fields
/// count from 1: every bit of the key.
TEST_P(MapEdges, KeysOfSixtyFourBits) {
  constexpr int32_t kLast = 16 * ((1 << 21) - 1) - 1;
  Points points{0,      0,     0,     0,         /**/ 1, kLast, kLast, kLast,
                /**/ 1, kLast, kLast, kLast - 1, /**/ 1, 0,     kLast, 0};
  const Coordinates set = set_of(points);
  EXPECT_EQ(points_of(set.get()), points);
  EXPECT_EQ(pairs_of(set.get(), set.get(), 3), oracle::find_pairs(cube_of(3), points, points));

  points.insert(points.end(), {2, 0, 0, 0});  // a batch index of two bits
  Coordinates none(nullptr, {minuet_coordinates_destroy});
  EXPECT_EQ(create(MINUET_COORDINATES_OPTIONS_INIT, points, none), MINUET_OUT_OF_RANGE);
}

/// One batch item and a flat cloud: bounds whose least and greatest values are equal.
TEST_P(MapEdges, BoundsOfOneCell) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.has_bounds = 1;
  const int32_t least[] = {2, -5, 0, 7}, greatest[] = {2, 5, 9, 7};
  std::copy_n(least, 4, options.least);
  std::copy_n(greatest, 4, options.greatest);
  const Points points{2, -5, 0, 7, /**/ 2, -4, 0, 7, /**/ 2, 5, 9, 7};
  Coordinates set(nullptr, {minuet_coordinates_destroy});
  ASSERT_EQ(create(options, points, set), MINUET_OK) << last_error();
  EXPECT_EQ(pairs_of(set.get(), set.get(), 3), oracle::find_pairs(cube_of(3), points, points));
  EXPECT_EQ(create(options, {2, 0, 0, 6}, set), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(create(options, {2, 0, 0, 8}, set), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(create(options, {1, 0, 0, 7}, set), MINUET_OUT_OF_RANGE);
}

/// One is enough, and enough to be told.
TEST_P(MapEdges, OneDuplicateIsRefused) {
  Coordinates set(nullptr, {minuet_coordinates_destroy});
  const Points points{0, 1, 2, 3, /**/ 0, 3, 2, 1, /**/ 0, 1, 2, 3};
  EXPECT_EQ(create(MINUET_COORDINATES_OPTIONS_INIT, points, set), MINUET_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("1 of 3"), std::string::npos) << last_error();
}

/// Two sets of the same shape are told apart by their places.
TEST_P(MapEdges, SetsOfOneShapeAtTwoPlaces) {
  for (const int32_t apart : {6400, 64, 8, -64, -6400}) {
    SCOPED_TRACE(apart);
    const Points in = draw_points({0, 0, 0}, 11), out = draw_points({apart, 0, 0}, 11);
    EXPECT_EQ(pairs_of(set_of(in).get(), set_of(out).get(), 3), oracle::find_pairs(cube_of(3), in, out));
  }
}

/// Outputs on all sides of the inputs, near and far.
TEST_P(MapEdges, OutputsBeyondTheInputs) {
  const Points in = draw_points({0, 0, 0}, 21);
  Points out = draw_points({4, 4, 4}, 22);
  for (const int32_t far : {-70000, -900, 900, 70000}) {
    out.insert(out.end(), {0, far, 1, 1, /**/ 0, 1, far, 1, /**/ 0, 1, 1, far});
  }
  EXPECT_EQ(pairs_of(set_of(in).get(), set_of(out).get(), 3), oracle::find_pairs(cube_of(3), in, out));
  EXPECT_EQ(pairs_of(set_of(out).get(), set_of(in).get(), 3), oracle::find_pairs(cube_of(3), out, in));
}

/// Strides that are no power of two floor negative coordinates too.
TEST_P(MapEdges, StridesThatDivideNoPeriod) {
  const Points points = draw_points({-7, -20, -1}, 31);
  const Coordinates fine = set_of(points);
  for (const Axes& stride : {Axes{3, 3, 3, 0}, Axes{5, 1, 7, 0}, Axes{6, 2, 9, 0}}) {
    const Coordinates coarse = downsample(fine.get(), stride);
    expect_coordinates(machine(), coarse.get(), 3, oracle::downsample(3, points, stride));
  }
}

/// A coarse set begins below the finer one, and has offsets that reach far past its ends.
TEST_P(MapEdges, CoarseSetsThatBeginBelowTheFiner) {
  const Points points = draw_points({-3, -5, -1}, 41);
  const Coordinates coarse = downsample(set_of(points).get(), {4, 4, 4, 0});
  const Points expected =
      expect_coordinates(machine(), coarse.get(), 3, oracle::downsample(3, points, {4, 4, 4, 1}));
  // Offsets of 4 times 50 cells lead nowhere but to the centre; those of two sets lead to neighbours.
  EXPECT_EQ(pairs_of(coarse.get(), coarse.get(), 3, 50),
            oracle::find_pairs(cube_of(3, 50, 4), expected, expected));
  const Points far = {0, 900, 0, 0, /**/ 0, 0, -4, 0};
  const Coordinates other = make_set(machine(), 3, far, {4, 4, 4, 1});
  EXPECT_EQ(pairs_of(coarse.get(), other.get(), 3), oracle::find_pairs(cube_of(3, 1, 4), expected, far));
}

MINUET_INSTANTIATE_SETS_TEST(MapEdges);

class ThreadEdges : public MapEdges {};

/// The host's signals are for the host's threads: the library's own block all that can be blocked.
TEST_P(ThreadEdges, TakeNoSignals) {
  int others = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid()))
      continue;  // the main thread, where the tests run
    std::ifstream status(task.path() / "status");
    uint64_t blocked = 0;
    for (std::string word; status >> word;) {
      if (word == "SigBlk:") status >> std::hex >> blocked;
    }
    ++others;
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM}) {
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << "signal " << signal << " of " << task.path();
    }
  }
  if (others == 0) GTEST_SKIP() << "on one core there are no threads but the caller's";
}

// A driver has threads of its own.
INSTANTIATE_TEST_SUITE_P(Devices, ThreadEdges, testing::Values("cpu"),
                         [](const auto&) { return "cpu_threads"; });

class LayerEdges : public DeviceTest {
 protected:
  ConvolutionCase layer(bool residual, bool relu) {
    ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 31);
    test.scale_shift = false;
    test.residual = residual;
    test.activation = relu ? Activation::ReLU : Activation::None;
    return test;
  }
  std::vector<char> run(const ConvolutionCase& test, const ConvolutionData& data) {
    Convolution convolution(machine(), test, data);
    return convolution.run(convolution.execution().get(), make_map(machine(), test, data), data);
  }
};

/// With weights of zero the output is the residual bit by bit: it is stored and added, never rounded.
TEST_P(LayerEdges, AResidualPassesUnchanged) {
  const ConvolutionCase test = layer(/*residual=*/true, /*relu=*/false);
  ConvolutionData data = make_data(test);
  std::fill(data.weight.begin(), data.weight.end(), 0.0f);
  Random random(51);
  data.residual.resize(data.out_rows() * test.out_channels);
  for (float& value : data.residual) value = static_cast<float>(random.normal());
  EXPECT_EQ(run(test, data), encode(dtype(), data.residual));
}

/// Of any run since the maps were prepared, and of none before.
TEST_P(LayerEdges, AnOverflowIsOfThePreparedMaps) {
  const ConvolutionCase test = layer(/*residual=*/false, /*relu=*/false);
  ConvolutionData data = make_data(test);
  Convolution convolution(machine(), test, data);
  const Execution execution = convolution.execution();
  const Map map = make_map(machine(), test, data);
  const auto overflow_of = [&] {
    convolution.run(execution.get(), map, data);
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    return layer;
  };
  const float first = data.features.front();
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(overflow_of(), -1);
    data.features.front() = std::numeric_limits<float>::infinity();
    EXPECT_EQ(overflow_of(), 0);
    data.features.front() = first;
  }
}

/// What went wrong must show: max(NaN, 0) would be 0.
TEST_P(LayerEdges, NanPassesTheRelu) {
  const ConvolutionCase test = layer(/*residual=*/false, /*relu=*/true);
  ConvolutionData data = make_data(test);
  std::fill_n(data.features.begin(), test.in_channels, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> output = decode(dtype(), run(test, data));
  for (int c = 0; c < test.out_channels; ++c) EXPECT_TRUE(std::isnan(output[c])) << c;
}

/// On any axis: the output is the input's set, so a stride would be ignored.
TEST_P(LayerEdges, SubmanifoldLayersHaveNoStride) {
  for (int axis = 0; axis < 3; ++axis) {
    ConvolutionCase test = layer(/*residual=*/false, /*relu=*/false);
    const ConvolutionData data = make_data(test);
    test.stride[axis] = 2;
    EXPECT_EQ(Convolution(machine(), test, data).status(), MINUET_INVALID_ARGUMENT) << axis;
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(LayerEdges);

}  // namespace
}  // namespace minuet::abi
