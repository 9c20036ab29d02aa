// Gradients of devoxelizing and of groups of rows through the C ABI, on every device and in every dtype,
// against plain loops in float64: from poisoned memory, with counts on the device, and in graphs.
#include "include/minuet/row_gradient.h"

#include <limits>

#include "include/minuet/select.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/points_fixture.h"

namespace minuet::abi {
namespace {

constexpr minuet_point_feature kFeatures[] = {MINUET_POINT_FEATURE_MEAN, MINUET_POINT_FEATURE_MAX,
                                              MINUET_POINT_FEATURE_SUM, MINUET_POINT_FEATURE_FIRST};

/// Rows in groups, with numbers as they are stored. Those past `rows` and `groups` are poisoned.
struct GroupCase {
  minuet_point_feature feature = MINUET_POINT_FEATURE_MEAN;
  int channels = 8;
  int64_t rows = 0, more_rows = 0, groups = 0, more_groups = 0;
  bool rows_are_f32 = false, has_sizes = false;
  int64_t input_gap = 0, groups_ld = 1;
  std::vector<int32_t> group_of;  // [rows]
};

class RowGradientTest : public PointsTest {
 protected:
  PointOp gradient_op(const minuet_devoxelize_options& options) {
    minuet_point_op* made = nullptr;
    check(minuet_devoxelize_gradient_create(machine().context(), &options, &made));
    return load(made);
  }
  PointOp gradient_op(const minuet_group_gradient_options& options) {
    minuet_point_op* made = nullptr;
    check(minuet_group_gradient_create(machine().context(), &options, &made));
    return load(made);
  }
  minuet_devoxelize_options options_of(int ndim, int channels, minuet_point_blend blend,
                                       const VoxelRules& rules, int stride) {
    minuet_devoxelize_options options = MINUET_DEVOXELIZE_OPTIONS_INIT;
    options.ndim = ndim, options.dtype = abi_dtype(dtype());
    options.channels = channels, options.blend = blend;
    for (int a = 0; a < ndim && blend != MINUET_BLEND_NEAREST; ++a) {
      const auto axis = static_cast<size_t>(a);
      options.low[a] = rules.low[axis], options.voxel_size[a] = rules.size[axis];
      options.tensor_stride[a] = stride;
    }
    return options;
  }
  int64_t bytes_of(minuet_point_op* op, int64_t most, int64_t most_rows) {
    int64_t bytes = 0;
    check(minuet_devoxelize_gradient_bytes(op, machine().arch().c_str(), most, most_rows, &bytes));
    return bytes;
  }
  /// Numbers as they are stored, and `more` of NaN behind them.
  std::vector<float> numbers(Random& random, DType type, int64_t count, int64_t more = 0) {
    std::vector<float> values;
    values.reserve(static_cast<size_t>(count + more));
    for (int64_t i = 0; i < count; ++i) values.push_back(round_to(type, random.uniform(-2, 2)));
    values.resize(static_cast<size_t>(count + more), std::numeric_limits<float>::quiet_NaN());
    return values;
  }
  Buffer gradients_of(const std::vector<float>& values, DType type) {
    std::vector<char> bytes = encode(type, values);
    bytes.resize(std::max<size_t>(bytes.size(), 16), char{0});
    return Buffer(machine(), bytes);
  }
  DType stored_type() const { return storage_type(dtype()); }

  /// The gradient of the nearest rows: each point's row, or -1.
  void run_nearest(Random& random, const std::vector<int32_t>& point_rows, int64_t more, int64_t rows,
                   int64_t spare, int channels) {
    const auto points = static_cast<int64_t>(point_rows.size());
    const PointOp op = gradient_op(options_of(3, channels, MINUET_BLEND_NEAREST, {}, 1));
    const std::vector<float> gradient = numbers(random, stored_type(), points * channels, more * channels);
    std::vector<int32_t> padded_rows = point_rows;
    padded_rows.resize(static_cast<size_t>(points + more), 0);
    padded_rows.resize(std::max<size_t>(padded_rows.size(), 1), 0);
    const Buffer given_rows(machine(), padded_rows),
        features = gradients_of(gradient, stored_type()),
        output(machine(), std::max<int64_t>((rows + spare) * channels * dtype_bytes(dtype()), 16)),
        workspace(machine(), bytes_of(op.get(), points + more, rows + spare)),
        count(machine(), std::vector<int32_t>{static_cast<int32_t>(points)}),
        row_count(machine(), std::vector<int32_t>{static_cast<int32_t>(rows)});
    minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
    given.most = points + more, given.most_rows = rows + spare;
    if (more > 0) given.count = count.integers();
    if (spare > 0) given.row_count = row_count.integers();
    given.point_rows = given_rows.integers();
    given.features = features.data(), given.output = output.data();
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check(minuet_devoxelize_gradient(op.get(), machine().device(), &given, nullptr));
    std::vector<double> sums(static_cast<size_t>((rows + spare) * channels));
    for (size_t i = 0; i < point_rows.size(); ++i) {
      if (point_rows[i] < 0 || point_rows[i] >= rows) continue;
      for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
        sums[static_cast<size_t>(point_rows[i]) * channels + c] +=
            static_cast<double>(gradient[i * channels + c]);
      }
    }
    const std::vector<float> got = values_of(output);
    ASSERT_GE(got.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto once = static_cast<double>(static_cast<float>(sums[i]));
      ASSERT_EQ(got[i], stored(once)) << "element " << i;
    }
  }

  void run_blend(Random& random, const PointCloud& cloud, const VoxelRules& rules, minuet_point_blend blend,
                 int stride, int channels, int64_t more);
  void run_groups(Random& random, const GroupCase& test);
};

TEST_P(RowGradientTest, OfTheNearestVoxel) {
  Random random(21);
  const int64_t count = machine().is_software() ? 300 : 5000;
  for (const auto& [rows, spare, more, channels] :
       {std::tuple{200, 0, 0, 8}, {200, 7, 11, 3}, {1, 0, 0, 16}, {1, 3, 5, 1}, {700, 0, 1, 40}}) {
    std::vector<int32_t> point_rows;
    point_rows.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
      point_rows.push_back(static_cast<int32_t>(random.between(-2, rows + 1)));
    run_nearest(random, point_rows, more, rows, spare, channels);
  }
  run_nearest(random, {}, 0, 5, 0, 8);
  run_nearest(random, {}, 3, 5, 2, 8);
  run_nearest(random, {0, 0, -1}, 0, 1, 0, 8);
  run_nearest(random, {0, 1, -1}, 2, 0, 4, 8);
}

/// Blends features of two thirds of the voxels of a cloud. The other voxels do not exist.
void RowGradientTest::run_blend(Random& random, const PointCloud& cloud, const VoxelRules& rules,
                                minuet_point_blend blend, int stride, int channels, int64_t more) {
  VoxelRules coarse = rules;
  for (float& size : coarse.size) size *= static_cast<float>(stride);
  std::vector<int32_t> coordinates = oracle::voxels_of(cloud, coarse).coordinates;
  const auto width = static_cast<size_t>(1 + cloud.ndim);
  const auto all = static_cast<int64_t>(coordinates.size() / width), rows = all * 2 / 3;
  for (size_t i = 0; i < coordinates.size(); ++i) coordinates[i] *= i % width == 0 ? 1 : stride;
  const std::vector<int32_t> there(coordinates.begin(),
                                   coordinates.begin() + rows * static_cast<int64_t>(width));
  // A devoxelize is linear, so that its outputs for the columns of an identity are the weights.
  std::vector<float> identity(static_cast<size_t>(rows * rows));
  for (int64_t row = 0; row < rows; ++row) identity[static_cast<size_t>(row * (rows + 1))] = 1;
  std::vector<double> weight_sums;
  const std::vector<double> weights =
      oracle::blended(cloud, rules, blend == MINUET_BLEND_CENTRES, std::vector<int32_t>(4, stride), there,
                      identity, static_cast<int>(rows), &weight_sums);
  const std::vector<float> gradient =
      numbers(random, stored_type(), cloud.count() * channels, more * channels);
  const PointOp op = gradient_op(options_of(cloud.ndim, channels, blend, rules, stride));
  const int64_t most = cloud.count() + more;
  std::vector<float> padded_points = cloud.points;
  padded_points.resize(static_cast<size_t>(most * cloud.columns), 0.25f);
  std::vector<int32_t> padded_batch = cloud.batch;
  padded_batch.resize(static_cast<size_t>(most), 0);
  const Buffer points(machine(), padded_points), batch(machine(), padded_batch),
      count(machine(), std::vector<int32_t>{static_cast<int32_t>(cloud.count())}),
      row_count(machine(), std::vector<int32_t>{static_cast<int32_t>(rows)}),
      given_coordinates(machine(), coordinates),
      features = gradients_of(gradient, stored_type()),
      output(machine(), std::max<int64_t>(all * channels * dtype_bytes(dtype()), 16)),
      workspace(machine(), bytes_of(op.get(), most, all));
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.points = static_cast<const float*>(points.data()), given.points_ld = cloud.columns;
  given.most = most, given.batch = batch.integers();
  if (more > 0) given.count = count.integers();
  given.coordinates = given_coordinates.integers(), given.row_count = row_count.integers();
  given.most_rows = all;
  given.features = features.data(), given.output = output.data();
  given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
  check(minuet_devoxelize_gradient(op.get(), machine().device(), &given, nullptr));
  const std::vector<float> got = values_of(output);
  const double of_result = dtype_bytes(dtype()) == 4 ? 1e-6 : dtype() == DType::F16 ? 1e-3 : 8e-3;
  // A weight is a product of at most 4 numbers, divided by a sum of at most 16.
  constexpr double kOfWeight = 4e-6, kLeast = 16 * 4 * 0x1p-149, kMostGradient = 2;
  int64_t read = 0;
  for (int64_t row = 0; row < all; ++row) {
    for (int c = 0; c < channels; ++c) {
      double sum = 0, error = 0;
      for (int64_t i = 0; i < cloud.count() && row < rows; ++i) {
        const double weight = weights[static_cast<size_t>(i * rows + row)];
        if (!(weight > 0)) continue;
        ++read;
        const auto number = static_cast<double>(gradient[static_cast<size_t>(i * channels + c)]);
        sum += weight * number;
        error += kOfWeight * std::abs(weight * number) +
                 std::min(2 * kLeast / weight_sums[static_cast<size_t>(i)], 2.0) * kMostGradient;
      }
      const auto value = static_cast<double>(got[static_cast<size_t>(row * channels + c)]);
      ASSERT_NEAR(value, sum, error + of_result * std::abs(sum) + 1e-7) << "row " << row << " channel " << c;
      if (row >= rows) {
        ASSERT_EQ(value, 0);
      }
    }
  }
  EXPECT_GT(read, 0);
  const std::vector<char> first = output.read<char>();
  check(minuet_devoxelize_gradient(op.get(), machine().device(), &given, nullptr));
  EXPECT_EQ(output.read<char>(), first);
}

TEST_P(RowGradientTest, OfTheVoxelsAround) {
  Random random(22);
  for (const auto& [ndim, blend, stride, channels] : {std::tuple{3, MINUET_BLEND_CENTRES, 1, 6},
                                                      {3, MINUET_BLEND_CORNERS, 2, 16},
                                                      {1, MINUET_BLEND_CENTRES, 2, 1},
                                                      {2, MINUET_BLEND_CORNERS, 1, 3},
                                                      {4, MINUET_BLEND_CENTRES, 1, 8}}) {
    SCOPED_TRACE(ndim);
    VoxelRules rules;
    rules.size = {0.5f, 1.25f, 1, 2}, rules.low = {-4, 0.25f, 0, 0}, rules.channels = 1;
    const PointCloud cloud =
        oracle::random_points_of(random, machine().is_software() ? 120 : 300, ndim, ndim, 3, 2, true);
    run_blend(random, cloud, rules, blend, stride, channels, ndim == 3 ? 5 : 0);
  }
}

/// Returns the gradients of rows from those of their groups, in float64.
std::vector<double> expected_gradients(const GroupCase& test, const std::vector<float>& input,
                                       const std::vector<float>& gradient) {
  const auto channels = static_cast<size_t>(test.channels);
  const auto all = static_cast<size_t>(test.rows + test.more_rows);
  std::vector<double> expected(all * channels, 0);
  for (size_t c = 0; c < channels; ++c) {
    for (int32_t group = 0; group < test.groups; ++group) {
      std::vector<size_t> members;
      for (size_t row = 0; row < test.group_of.size(); ++row) {
        if (test.group_of[row] == group) members.push_back(row);
      }
      if (members.empty()) continue;
      const auto whole = static_cast<double>(gradient[static_cast<size_t>(group) * channels + c]);
      size_t winner = members[0];
      for (const size_t row : members) {
        if (test.feature != MINUET_POINT_FEATURE_MAX) break;
        const float best = input[winner * channels + c], value = input[row * channels + c];
        if (value > best || (std::isnan(value) && !std::isnan(best))) winner = row;
      }
      for (const size_t row : members) {
        double& place = expected[row * channels + c];
        if (test.feature == MINUET_POINT_FEATURE_SUM) place = whole;
        if (test.feature == MINUET_POINT_FEATURE_MEAN) place = whole / static_cast<double>(members.size());
      }
      const bool is_won =
          test.feature == MINUET_POINT_FEATURE_MAX || test.feature == MINUET_POINT_FEATURE_FIRST;
      if (is_won) expected[winner * channels + c] = whole;
    }
  }
  return expected;
}

void RowGradientTest::run_groups(Random& random, const GroupCase& test) {
  const DType row_type = test.rows_are_f32 ? DType::F32 : stored_type();
  const int64_t all_rows = test.rows + test.more_rows, all_groups = test.groups + test.more_groups;
  const std::vector<float> gradient =
      numbers(random, stored_type(), test.groups * test.channels, test.more_groups * test.channels);
  // Few different numbers, so that there are ties, and some NaN.
  std::vector<float> input;
  for (int64_t i = 0; i < test.rows * test.channels; ++i) {
    input.push_back(random.below(29) == 0 ? std::nanf("") : static_cast<float>(random.between(-3, 3)));
    if (input.back() == 0 && random.below(2) == 0) input.back() = -0.0f;
  }
  std::vector<float> spaced(static_cast<size_t>(all_rows * (test.channels + test.input_gap)), 1e4f);
  for (int64_t row = 0; row < test.rows; ++row) {
    std::copy_n(input.begin() + row * test.channels, test.channels,
                spaced.begin() + row * (test.channels + test.input_gap));
  }
  std::vector<int32_t> groups(static_cast<size_t>(std::max<int64_t>(all_rows * test.groups_ld, 1)), 0);
  std::vector<int32_t> sizes(static_cast<size_t>(std::max<int64_t>(all_groups, 1)), 0);
  for (size_t row = 0; row < test.group_of.size(); ++row) {
    const int32_t group = test.group_of[row];
    groups[row * static_cast<size_t>(test.groups_ld)] = group;
    if (group >= 0 && group < test.groups) ++sizes[static_cast<size_t>(group)];
  }
  minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype()), options.channels = test.channels, options.feature = test.feature;
  options.rows_are_f32 = test.rows_are_f32 ? 1 : 0;
  const PointOp op = gradient_op(options);
  int64_t bytes = 0;
  check(minuet_group_gradient_bytes(op.get(), machine().arch().c_str(), all_groups, &bytes));
  const Buffer given_groups(machine(), groups), given_sizes(machine(), sizes),
      given_input = gradients_of(spaced, row_type), out_gradient = gradients_of(gradient, stored_type()),
      row_count(machine(), std::vector<int32_t>{static_cast<int32_t>(test.rows)}),
      group_count(machine(), std::vector<int32_t>{static_cast<int32_t>(test.groups)}),
      output(machine(), std::max<int64_t>(all_rows * test.channels * dtype_bytes(row_type), 16)),
      workspace(machine(), std::max<int64_t>(bytes, 16));
  minuet_group_gradient_arguments given = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
  given.groups = given_groups.integers(), given.groups_ld = test.groups_ld;
  given.most_rows = all_rows, given.most_groups = all_groups;
  if (test.more_rows > 0) given.row_count = row_count.integers();
  if (test.more_groups > 0) given.group_count = group_count.integers();
  if (test.has_sizes) given.group_sizes = given_sizes.integers();
  if (test.feature == MINUET_POINT_FEATURE_MAX) {
    given.input = given_input.data(), given.input_ld = test.channels + test.input_gap;
  }
  given.out_gradient = out_gradient.data(), given.input_gradient = output.data();
  if (bytes > 0 && !test.has_sizes) given.workspace = workspace.data(), given.workspace_bytes = bytes;
  check(minuet_group_gradient(op.get(), machine().device(), &given, nullptr));
  const std::vector<double> expected = expected_gradients(test, input, gradient);
  std::vector<float> got = decode(row_type, output.read<char>());
  ASSERT_GE(got.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto once = static_cast<double>(static_cast<float>(expected[i]));
    ASSERT_EQ(got[i], round_to(row_type, once)) << "row " << i / static_cast<size_t>(test.channels)
                                                << " channel " << i % static_cast<size_t>(test.channels);
  }
}

TEST_P(RowGradientTest, OfGroups) {
  Random random(23);
  const int64_t rows = machine().is_software() ? 200 : 2000;
  for (const minuet_point_feature feature : kFeatures) {
    for (const bool rows_are_f32 : {false, true}) {
      SCOPED_TRACE(testing::Message() << "feature " << feature << " f32 " << rows_are_f32);
      GroupCase test;
      test.feature = feature, test.rows_are_f32 = rows_are_f32;
      test.rows = rows, test.groups = rows / 3;
      for (int64_t i = 0; i < rows; ++i) {
        test.group_of.push_back(static_cast<int32_t>(random.between(-2, test.groups + 1)));
      }
      run_groups(random, test);
      test.more_rows = 37, test.more_groups = 5, test.channels = 3, test.input_gap = 2, test.groups_ld = 4;
      test.has_sizes = feature == MINUET_POINT_FEATURE_MEAN;
      run_groups(random, test);
      // As batch items: few groups of neighbouring rows.
      test.has_sizes = false, test.groups = 3, test.channels = 24;
      for (size_t i = 0; i < test.group_of.size(); ++i) test.group_of[i] = i < 41 ? 0 : 2;
      run_groups(random, test);
      test.rows = 0, test.group_of.clear();
      run_groups(random, test);
    }
  }
}

/// The gradient of voxelize is that of its groups, the points of each voxel, and it equals differences of
/// what voxelize computes.
TEST_P(RowGradientTest, OfVoxelize) {
  Random random(24);
  for (const minuet_point_feature feature : kFeatures) {
    VoxelRules rules;
    rules.feature = static_cast<PointFeature>(feature), rules.size = {0.7f, 0.9f, 0.8f, 1};
    rules.first_column = 3, rules.channels = 4;
    PointCloud cloud = oracle::random_points_of(random, 150, 3, 7, 2, 2, false);
    for (size_t i = 0; i < cloud.points.size(); ++i) {  // There are no equal maxima.
      if (i % 7 >= 3) cloud.points[i] = static_cast<float>(random.uniform(-2, 2));
    }
    const PointOp forward = voxelizer(cloud, rules);
    const Room room(machine(), forward.get(), cloud, rules, dtype(), cloud.count());
    check(minuet_voxelize(forward.get(), machine().device(), &room.given, nullptr));
    minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype()), options.channels = 4, options.feature = feature;
    options.rows_are_f32 = 1;
    const PointOp op = gradient_op(options);
    const std::vector<float> gradient = numbers(random, stored_type(), room.capacity * 4);
    int64_t bytes = 0;
    check(minuet_group_gradient_bytes(op.get(), machine().arch().c_str(), room.capacity, &bytes));
    const Buffer out_gradient = gradients_of(gradient, stored_type()), output(machine(), room.most * 16),
                 workspace(machine(), std::max<int64_t>(bytes, 16));
    minuet_group_gradient_arguments given = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
    given.groups = room.rows.integers(), given.groups_ld = 1, given.most_rows = room.most;
    given.group_count = room.counts.integers();  // its first word
    given.most_groups = room.capacity;
    if (feature == MINUET_POINT_FEATURE_MEAN) given.group_sizes = room.points_of.integers();
    if (feature == MINUET_POINT_FEATURE_MAX) {
      given.input = static_cast<const float*>(room.points.data()) + rules.first_column;
      given.input_ld = cloud.columns;
    }
    given.out_gradient = out_gradient.data(), given.input_gradient = output.data();
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check(minuet_group_gradient(op.get(), machine().device(), &given, nullptr));
    const std::vector<float> got = output.read<float>();
    const auto loss = [&](const PointCloud& moved) {
      const oracle::Voxels voxels = oracle::voxels_of(moved, rules);
      double sum = 0;
      for (size_t i = 0; i < voxels.features.size(); ++i) {
        sum += static_cast<double>(voxels.features[i]) * static_cast<double>(gradient[i]);
      }
      return sum;
    };
    for (int i = 0; i < 60; ++i) {
      const auto point = static_cast<int>(random.below(static_cast<uint64_t>(cloud.count())));
      const auto c = static_cast<int>(random.below(4));
      const auto place = static_cast<size_t>(point * cloud.columns + 3 + c);
      PointCloud above = cloud, below = cloud;
      constexpr float kStep = 1e-3f;  // so small that no other point of the voxel has the maximum
      above.points[place] += kStep, below.points[place] -= kStep;
      const double step = static_cast<double>(above.points[place]) - static_cast<double>(below.points[place]);
      const double slope = (loss(above) - loss(below)) / step;
      EXPECT_NEAR(static_cast<double>(got[static_cast<size_t>(point * 4 + c)]), slope, 2e-3)
          << "point " << point << " channel " << c << " feature " << feature;
    }
  }
}

/// A count that is not 0 to its limit counts as 0.
TEST_P(RowGradientTest, WithCountsThatAreTooLarge) {
  Random random(25);
  constexpr int kChannels = 4;
  const Buffer many(machine(), std::vector<int32_t>{9}), rows(machine(), std::vector<int32_t>(8, 0)),
      ones(machine(), std::vector<float>(64, 1)), workspace(machine(), 1 << 20);
  Buffer output(machine(), 1024);
  const PointOp nearest = gradient_op(options_of(3, kChannels, MINUET_BLEND_NEAREST, {}, 1));
  minuet_group_gradient_options options = MINUET_GROUP_GRADIENT_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype()), options.channels = kChannels;
  const PointOp mean = gradient_op(options);
  const auto expect_zeros = [&] {
    const std::vector<float> got = values_of(output);
    for (size_t i = 0; i < 8 * kChannels; ++i) ASSERT_EQ(got[i], 0) << i;
  };
  for (const bool is_first : {true, false}) {
    minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
    given.most = given.most_rows = 8, given.point_rows = rows.integers();
    (is_first ? given.count : given.row_count) = many.integers();
    given.features = ones.data(), given.output = output.data();
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    output.poison();
    check(minuet_devoxelize_gradient(nearest.get(), machine().device(), &given, nullptr));
    expect_zeros();
    minuet_group_gradient_arguments groups = MINUET_GROUP_GRADIENT_ARGUMENTS_INIT;
    groups.groups = rows.integers(), groups.groups_ld = 1, groups.most_rows = groups.most_groups = 8;
    (is_first ? groups.row_count : groups.group_count) = many.integers();
    groups.out_gradient = ones.data(), groups.input_gradient = output.data();
    groups.workspace = workspace.data(), groups.workspace_bytes = workspace.bytes();
    output.poison();
    check(minuet_group_gradient(mean.get(), machine().device(), &groups, nullptr));
    expect_zeros();
  }
}

TEST_P(RowGradientTest, ReadsAllMemoryAnewInEveryReplay) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  constexpr int kChannels = 4, kPoints = 6;
  const PointOp op = gradient_op(options_of(3, kChannels, MINUET_BLEND_NEAREST, {}, 1));
  const Buffer rows(machine(), std::vector<int32_t>(kPoints, 0)), count(machine(), std::vector<int32_t>{0}),
      features = gradients_of(std::vector<float>(kPoints * kChannels, 1), stored_type()),
      output(machine(), 3 * kChannels * dtype_bytes(dtype())),
      workspace(machine(), bytes_of(op.get(), kPoints, 3));
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.most = kPoints, given.most_rows = 3;
  given.count = count.integers(), given.point_rows = rows.integers();
  given.features = features.data(), given.output = output.data();
  given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
  Stream stream(machine());
  check(minuet_device_synchronize(machine().device(), nullptr));
  const CapturedGraph graph(stream.get(), [&] {
    check(minuet_devoxelize_gradient(op.get(), machine().device(), &given, stream.get()));
  });
  ASSERT_TRUE(graph.whole());
  Random random(26);
  for (int run = 0; run < 3; ++run) {
    std::vector<int32_t> now(kPoints);
    for (int32_t& row : now) row = static_cast<int32_t>(random.between(-1, 2));
    const auto points = static_cast<int32_t>(random.below(kPoints + 1));
    Room::put(machine(), rows, now), Room::put(machine(), count, std::vector<int32_t>{points});
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    const std::vector<float> got = values_of(output);
    for (int32_t row = 0; row < 3; ++row) {
      const auto expected = static_cast<float>(std::count(now.begin(), now.begin() + points, row));
      for (int c = 0; c < kChannels; ++c)
        EXPECT_EQ(got[static_cast<size_t>(row * kChannels + c)], expected) << row;
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RowGradientTest);

}  // namespace
}  // namespace minuet::abi
