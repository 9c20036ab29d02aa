// What tests of voxels of points share: memory of a call, and comparison with plain loops.
#pragma once

#include <cmath>

#include "include/minuet/points.h"
#include "tests/support/abi.h"
#include "tests/support/point_oracle.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

using oracle::PointCloud;
using oracle::PointFeature;
using oracle::VoxelRules;
using oracle::Voxels;
using PointOp = Handle<minuet_point_op>;

inline minuet_voxelize_options options_of(const PointCloud& cloud, const VoxelRules& rules, DType dtype) {
  minuet_voxelize_options options = MINUET_VOXELIZE_OPTIONS_INIT;
  options.ndim = cloud.ndim;
  options.dtype = abi_dtype(dtype);
  options.first_column = rules.first_column, options.channels = rules.channels;
  options.feature = static_cast<minuet_point_feature>(rules.feature);
  options.has_range = rules.has_range ? 1 : 0;
  for (int a = 0; a < cloud.ndim; ++a) {
    const auto axis = static_cast<size_t>(a);
    options.low[a] = rules.low[axis], options.voxel_size[a] = rules.size[axis];
    options.high[a] = rules.has_range ? rules.high[axis] : 0;
  }
  options.batch_size = rules.batch_size;
  options.most_points_per_voxel = rules.most_points, options.most_voxels = rules.most_voxels;
  return options;
}

class PointsTest : public DeviceTest {
 protected:
  PointOp load(minuet_point_op* made) {
    PointOp op(made, {minuet_point_op_destroy});
    check(minuet_point_op_load(made, machine().device()));
    return op;
  }
  PointOp voxelizer(const PointCloud& cloud, const VoxelRules& rules) {
    const minuet_voxelize_options options = options_of(cloud, rules, dtype());
    minuet_point_op* made = nullptr;
    check(minuet_voxelize_create(machine().context(), &options, &made));
    return load(made);
  }
  PointOp devoxelizer(int ndim, int channels, minuet_point_blend blend, const VoxelRules& rules, int stride) {
    minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
    options.ndim = ndim, options.dtype = abi_dtype(dtype());
    options.channels = channels, options.blend = blend;
    for (int a = 0; a < ndim && blend != MINUET_BLEND_NEAREST; ++a) {
      const auto axis = static_cast<size_t>(a);
      options.low[a] = rules.low[axis], options.voxel_size[a] = rules.size[axis];
      options.tensor_stride[a] = stride;
    }
    minuet_point_op* made = nullptr;
    check(minuet_devoxelize_create(machine().context(), &options, &made));
    return load(made);
  }

  /// Device memory of one cloud, all of it poisoned but the points.
  struct Room {
    Room(Machine& machine, minuet_point_op* op, const PointCloud& cloud, const VoxelRules& rules, DType dtype,
         int64_t capacity, int64_t more = 0)
        : capacity(capacity),
          most(cloud.count() + more),
          points(machine, std::max<int64_t>(most * cloud.columns * 4, 4)),
          batch(machine, std::max<int64_t>(most * 4, 4)),
          count(machine, std::vector<int32_t>{static_cast<int32_t>(cloud.count())}),
          workspace(machine, bytes_of(machine, op, most)),
          coordinates(machine, capacity * (1 + cloud.ndim) * 4),
          features(machine, capacity * rules.channels * dtype_bytes(dtype)),
          points_of(machine, capacity * 4),
          rows(machine, most * 4),
          counts(machine, 4 * MINUET_VOXELIZE_COUNTS),
          status(machine, 4) {
      put(machine, points, cloud.points);
      put(machine, batch, cloud.batch);
      given.points = static_cast<const float*>(points.data());
      given.points_ld = cloud.columns;
      given.most = most;
      if (!cloud.batch.empty()) given.batch = batch.integers();
      if (more > 0) given.count = count.integers();
      given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
      given.capacity = capacity;
      given.coordinates = static_cast<int32_t*>(coordinates.data());
      given.features = features.data();
      given.voxel_points = static_cast<int32_t*>(points_of.data());
      given.point_rows = static_cast<int32_t*>(rows.data());
      given.counts = static_cast<int32_t*>(counts.data());
      given.status = static_cast<uint32_t*>(status.data());
    }
    static int64_t bytes_of(Machine& machine, minuet_point_op* op, int64_t most) {
      int64_t bytes = 0;
      check(minuet_voxelize_bytes(op, machine.arch().c_str(), most, &bytes));
      return bytes;
    }
    template <class T>
    static void put(Machine& machine, const Buffer& target, const std::vector<T>& values) {
      const auto bytes = static_cast<int64_t>(values.size() * sizeof(T));
      if (bytes > 0) check(minuet_device_copy(machine.device(), target.data(), values.data(), bytes, 0));
    }
    int64_t capacity, most;
    Buffer points, batch, count, workspace, coordinates, features, points_of, rows, counts, status;
    minuet_voxelize_arguments given = MINUET_VOXELIZE_ARGUMENTS_INIT;
  };

  template <class T>
  static std::vector<T> padded(std::vector<T> values, int64_t size, T value) {
    values.resize(static_cast<size_t>(size), value);
    return values;
  }
  /// Expects the voxels of the oracle, with rows of zeros behind them.
  void expect_voxels(const Room& room, const PointCloud& cloud, const VoxelRules& rules) {
    const Voxels expected = oracle::voxels_of(cloud, rules);
    EXPECT_EQ(room.status.read<uint32_t>().front(), expected.status);
    if (expected.status == 0) {
      EXPECT_EQ(room.counts.read<int32_t>(),
                std::vector<int32_t>(expected.counts.begin(), expected.counts.end()));
    }
    EXPECT_EQ(room.coordinates.read<int32_t>(),
              padded(expected.coordinates, room.capacity * (1 + cloud.ndim), 0));
    EXPECT_EQ(room.points_of.read<int32_t>(), padded(expected.points_of, room.capacity, 0));
    EXPECT_EQ(room.rows.read<int32_t>(), padded(expected.rows, room.most, -1));
    const std::vector<float> wanted = padded(expected.features, room.capacity * rules.channels, 0.0f);
    const std::vector<float> got = values_of(room.features);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const float want = stored(static_cast<double>(wanted[i]));
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got[i]) : got[i] == want)
          << "feature " << i << " is " << got[i] << ", expected " << want;
    }
  }
  void run_and_expect(const PointCloud& cloud, const VoxelRules& rules, int64_t spare, int64_t more) {
    const PointOp op = voxelizer(cloud, rules);
    const Room room(machine(), op.get(), cloud, rules, dtype(),
                    oracle::voxels_of(cloud, rules).counts[0] + spare, more);
    check(minuet_voxelize(op.get(), machine().device(), &room.given, nullptr));
    expect_voxels(room, cloud, rules);
  }
  /// Blends features of two thirds of the voxels of a cloud, whose level has this tensor stride. The other
  /// voxels do not exist.
  void blend_and_expect(Random& random, const PointCloud& cloud, const VoxelRules& rules,
                        minuet_point_blend blend, int stride, int channels) {
    VoxelRules coarse = rules;
    for (float& size : coarse.size) size *= static_cast<float>(stride);
    std::vector<int32_t> coordinates = oracle::voxels_of(cloud, coarse).coordinates;
    const size_t width = static_cast<size_t>(1 + cloud.ndim);
    // The last third of the voxels does not exist.
    const int64_t rows = static_cast<int64_t>(coordinates.size() / width) * 2 / 3;
    for (size_t i = 0; i < coordinates.size(); ++i) coordinates[i] *= i % width == 0 ? 1 : stride;

    std::vector<float> features;
    for (int64_t i = 0; i < rows * channels; ++i) features.push_back(stored(random.uniform(-2, 2)));
    const PointOp op = devoxelizer(cloud.ndim, channels, blend, rules, stride);
    int64_t bytes = 0;
    const auto all = static_cast<int64_t>(coordinates.size() / width);
    check(minuet_devoxelize_bytes(op.get(), machine().arch().c_str(), cloud.count(), all, &bytes));
    std::vector<char> packed = encode(storage_type(dtype()), features);
    packed.resize(static_cast<size_t>(all * channels * dtype_bytes(dtype())), char{0x7f});
    const auto room_of = [](const auto& values) {
      return std::max<int64_t>(static_cast<int64_t>(values.size() * sizeof(values[0])), 16);
    };
    const Buffer points(machine(), room_of(cloud.points)), batch(machine(), room_of(cloud.batch)),
        workspace(machine(), std::max<int64_t>(bytes, 16)),
        given_coordinates(machine(), room_of(coordinates)), given_features(machine(), room_of(packed)),
        row_count(machine(), std::vector<int32_t>{static_cast<int32_t>(rows)}),
        output(machine(), std::max<int64_t>(cloud.count() * channels * dtype_bytes(dtype()), 16));
    Room::put(machine(), points, cloud.points), Room::put(machine(), batch, cloud.batch);
    Room::put(machine(), given_coordinates, coordinates), Room::put(machine(), given_features, packed);
    minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
    given.points = static_cast<const float*>(points.data()), given.points_ld = cloud.columns;
    given.most = cloud.count(), given.batch = cloud.batch.empty() ? nullptr : batch.integers();
    given.coordinates = given_coordinates.integers(), given.row_count = row_count.integers();
    given.most_rows = all;
    given.features = given_features.data(), given.output = output.data();
    given.workspace = workspace.data(), given.workspace_bytes = bytes;
    check(minuet_devoxelize(op.get(), machine().device(), &given, nullptr));
    const std::vector<int32_t> there(coordinates.begin(),
                                     coordinates.begin() + rows * static_cast<int64_t>(width));
    std::vector<double> weights;
    const std::vector<double> expected =
        oracle::blended(cloud, rules, blend == MINUET_BLEND_CENTRES, std::vector<int32_t>(4, stride), there,
                        features, channels, &weights);
    std::vector<float> got = values_of(output);
    got.resize(static_cast<size_t>(cloud.count() * channels));
    ASSERT_EQ(got.size(), expected.size());
    const double relative = dtype_bytes(dtype()) == 4 ? 1e-5 : dtype() == DType::F16 ? 1e-3 : 8e-3;
    // Each of at most 16 weights is a product of at most 4 numbers, which is rounded to a multiple of the
    // least float. That matters for points that are next to nothing away from voxels that do not exist.
    constexpr double kOfWeights = 16 * 4 * 0x1p-149, kMostFeature = 2;
    for (size_t i = 0; i < got.size(); ++i) {
      const double sum = weights[i / static_cast<size_t>(channels)];
      const double of_weights = sum > 0 ? std::min(2 * kOfWeights / sum, 2.0) * kMostFeature : 0;
      ASSERT_NEAR(static_cast<double>(got[i]), expected[i],
                  relative * (1 + std::abs(expected[i])) + of_weights)
          << i;
    }
    const std::vector<char> first = output.read<char>();
    check(minuet_devoxelize(op.get(), machine().device(), &given, nullptr));
    EXPECT_EQ(output.read<char>(), first);
  }
  /// The number as features are stored. No op of points rounds to tf32.
  float stored(double value) const { return round_to(storage_type(dtype()), value); }
  std::vector<float> values_of(const Buffer& buffer) const {
    return decode(storage_type(dtype()), buffer.read<char>());
  }
};

}  // namespace minuet::abi
