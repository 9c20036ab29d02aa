// The kernels of points in the shim, against plain loops.
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels_templates/points/assign_rows.h"
#include "kernels_templates/points/clear_words.h"
#include "kernels_templates/points/devoxelize.h"
#include "kernels_templates/points/index_rows.h"
#include "kernels_templates/points/insert_points.h"
#include "kernels_templates/points/number_voxels.h"
#include "kernels_templates/points/reduce_voxels.h"
#include "kernels_templates/points/weigh_corners.h"
#include "tests/support/point_oracle.h"

namespace minuet {
namespace {

PointGrid grid_of(const oracle::VoxelRules& rules, i32 ndim) {
  PointGrid grid = {};
  grid.has_range = rules.has_range ? 1 : 0;
  for (i32 a = 0; a < ndim; ++a) {
    const auto axis = static_cast<std::size_t>(a);
    grid.low[a] = rules.low[axis], grid.high[a] = rules.high[axis], grid.size[a] = rules.size[axis];
    grid.cells[a] = static_cast<i32>(std::round((rules.high[axis] - rules.low[axis]) / rules.size[axis]));
  }
  return grid;
}

/// Expects the same number, or NaN for NaN.
void expect_same(float got, float expected, const std::string& what) {
  ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : bits_of(got) == bits_of(expected))
      << what << ": " << got << ", expected " << expected;
}

/// Runs the kernels with poisoned memory, for `most` points of which the cloud's are there.
template <i32 Ndim, PointReduction R>
class KernelRun {
 public:
  KernelRun(const oracle::PointCloud& cloud, const oracle::VoxelRules& rules, i64 capacity, i64 more,
            int variant)
      : cloud_(cloud), rules_(rules), capacity_(capacity), most_(cloud.count() + more), variant_(variant) {
    const auto most = static_cast<std::size_t>(most_), rows = static_cast<std::size_t>(capacity);
    slots_ = point_slots(most_);
    table_ = poisoned<i32>(static_cast<std::size_t>(slots_));
    slot_of_ = first_rows_ = point_rows = poisoned<i32>(most);
    points_in_ = poisoned<u32>(static_cast<std::size_t>(slots_));
    tiles_ = begin_tiles_ = poisoned<u32>(most / kNumber.threads + 1);
    keys_ = values_ = place_of_ = list_ = poisoned<u32>(most);
    begins_ = poisoned<u32>(most + 1);
    coordinates = poisoned<i32>(rows * (1 + Ndim));
    features = poisoned<float>(rows * static_cast<std::size_t>(rules.channels));
    points_of = poisoned<i32>(rows);
    points_ = cloud.points;
    points_.resize(most * static_cast<std::size_t>(cloud.columns), poison<float>());
    batch_ = cloud.batch;
    if (!batch_.empty()) batch_.resize(most, poison<i32>());
    run();
  }

  std::vector<i32> coordinates, points_of, point_rows;
  std::vector<float> features;
  std::array<i32, kPointCounts> counts{-1, -1, -1, -1, -1, -1};
  u32 status = ~0u;
  bool is_sorted = false;

 private:
  static constexpr ClearWordsSpec kClear{.threads = 64};
  static constexpr InsertPointsSpec kInsert{.ndim = Ndim, .threads = 64};
  static constexpr NumberVoxelsSpec kNumber{.threads = 64};
  static constexpr AssignRowsSpec kAssign{.threads = 64};
  static constexpr ReduceVoxelsSpec kReduce{.ndim = Ndim, .reduction = R, .threads = 64};

  VoxelizeParams params() {
    VoxelizeParams params = {};
    params.points = {points_.data(), cloud_.columns, batch_.empty() ? nullptr : batch_.data(), &given_,
                     most_};
    params.grid = grid_of(rules_, Ndim);
    params.batch_size = static_cast<i32>(rules_.batch_size);
    params.point_count = &point_count_;
    params.table = table_.data(), params.slots = static_cast<u32>(slots_);
    params.points_in = points_in_.data(), params.slot_of = slot_of_.data();
    params.place_of = place_of_.data();
    params.tiles = tiles_.data(), params.begin_tiles = begin_tiles_.data();
    params.first_rows = first_rows_.data(), params.begins = begins_.data();
    params.sort_count = &sort_count_;
    params.most_points = rules_.most_points > 0 ? rules_.most_points : LLONG_MAX;
    params.most_voxels = rules_.most_voxels > 0 ? rules_.most_voxels : LLONG_MAX;
    params.capacity = capacity_;
    params.counts = counts.data(), params.status = &status;
    params.rows = point_rows.data();
    params.keys = keys_.data(), params.values = values_.data();
    params.past_key = static_cast<u32>(most_);
    params.list = list_.data();
    params.column = rules_.first_column, params.channels = rules_.channels;
    params.coordinates = coordinates.data();
    params.features = features.data(), params.features_ld = rules_.channels;
    params.points_of = points_of.data();
    return params;
  }

  void run() {
    given_ = static_cast<i32>(cloud_.count());
    const VoxelizeParams params = this->params();
    const ClearWordsParams clear{{{reinterpret_cast<u32*>(table_.data()), slots_, ~0u},
                                  {points_in_.data(), slots_, 0},
                                  {reinterpret_cast<u32*>(counts.data()), kPointCounts, 0},
                                  {&status, 1, 0}},
                                 4};
    shim::launch(&clear_words<kClear>, clear, shim::small_grid(variant_, kClear.threads));
    std::fill(tiles_.begin(), tiles_.end(), 0);
    std::fill(begin_tiles_.begin(), begin_tiles_.end(), 0);
    shim::launch(&insert_points<kInsert>, params, shim::small_grid(variant_, kInsert.threads));
    const i32 tiles = static_cast<i32>(std::max<i64>((most_ + kNumber.threads - 1) / kNumber.threads, 1));
    shim::launch(&number_voxels<kNumber>, params, {.blocks = tiles, .threads = kNumber.threads});
    shim::launch(&assign_rows<kAssign>, params, shim::small_grid(variant_, kAssign.threads));
    if (sort_count_ != 0) {
      ASSERT_EQ(sort_count_, given_);
      ASSERT_EQ(std::count(list_.begin(), list_.end(), poison<u32>()), most_);
      std::iota(list_.begin(), list_.begin() + given_, 0u);
      std::stable_sort(list_.begin(), list_.begin() + given_,
                       [&](u32 a, u32 b) { return keys_[a] < keys_[b]; });
      for (i32 i = 0; i < given_; ++i) ASSERT_EQ(values_[static_cast<std::size_t>(i)], i);
    }
    is_sorted = sort_count_ != 0;
    shim::launch(&reduce_voxels<kReduce>, params, shim::small_grid(variant_, kReduce.threads));
  }

  const oracle::PointCloud& cloud_;
  const oracle::VoxelRules& rules_;
  const i64 capacity_, most_;
  const int variant_;
  i64 slots_ = 0;
  std::vector<i32> table_, slot_of_, first_rows_, batch_;
  std::vector<u32> points_in_, place_of_, tiles_, begin_tiles_, begins_, keys_, values_, list_;
  std::vector<float> points_;
  i32 given_ = 0, point_count_ = -1, sort_count_ = 0;
};

template <i32 Ndim, PointReduction R>
void expect_voxels(const oracle::PointCloud& cloud, oracle::VoxelRules rules, i64 spare, int variant) {
  rules.feature = static_cast<oracle::PointFeature>(R);
  const oracle::Voxels expected = oracle::voxels_of(cloud, rules);
  const i64 voxels = expected.counts[0];
  const KernelRun<Ndim, R> run(cloud, rules, voxels + spare, variant * 17, variant);
  ASSERT_EQ(run.status, expected.status);
  if (expected.status == 0) {
    ASSERT_TRUE(std::equal(run.counts.begin(), run.counts.end(), expected.counts.begin()));
  }
  const auto padded = [](auto values, std::size_t size, auto value) {
    values.resize(size, value);
    return values;
  };
  ASSERT_EQ(run.coordinates, padded(expected.coordinates, run.coordinates.size(), 0));
  ASSERT_EQ(run.points_of, padded(expected.points_of, run.points_of.size(), 0));
  ASSERT_EQ(run.point_rows, padded(expected.rows, run.point_rows.size(), -1));
  const std::vector<float> features = padded(expected.features, run.features.size(), 0.0f);
  for (std::size_t i = 0; i < features.size(); ++i)
    expect_same(run.features[i], features[i], "feature " + std::to_string(i));
}

template <i32 Ndim>
void expect_all(const oracle::PointCloud& cloud, const oracle::VoxelRules& rules, i64 spare, int variant) {
  expect_voxels<Ndim, PointReduction::Mean>(cloud, rules, spare, variant);
  expect_voxels<Ndim, PointReduction::Max>(cloud, rules, spare, variant);
  expect_voxels<Ndim, PointReduction::Sum>(cloud, rules, spare, variant);
  expect_voxels<Ndim, PointReduction::First>(cloud, rules, spare, variant);
}

TEST(Points, Voxels) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(30 + static_cast<u64>(variant));
    oracle::VoxelRules rules;
    rules.size = {0.5f, 0.7f, 1.3f, 0.9f};
    expect_all<3>(oracle::random_points_of(random, 500, 3, 4, 4, 3, true), rules, 0, variant);
    rules.first_column = 2, rules.channels = 6;
    rules.has_range = true;
    rules.low = {-3, -1.5f, -2, -1}, rules.high = {2.9f, 2, 3, 2};
    expect_all<3>(oracle::random_points_of(random, 400, 3, 8, 4, 0, true), rules, 9, variant);
    rules.first_column = 0, rules.channels = 1;
    expect_all<2>(oracle::random_points_of(random, 300, 2, 2, 4, 2, false), rules, 3, variant);
    expect_all<1>(oracle::random_points_of(random, 300, 1, 1, 4, 0, true), rules, 1, variant);
    expect_all<4>(oracle::random_points_of(random, 200, 4, 5, 1, 2, false), rules, 0, variant);
    rules.most_points = 3, rules.most_voxels = 20;
    expect_all<3>(oracle::random_points_of(random, 400, 3, 4, 4, 3, true), rules, 5, variant);
  }
}

TEST(Points, AllPointsInOneVoxel) {
  Random random(41);
  oracle::VoxelRules rules;
  rules.low = {-10, -10, -10, 0}, rules.size = {100, 100, 100, 1};
  for (const i64 count : {1, 4, 5, 32, 33, 64, 65, 700}) {
    for (const i64 limit : {0, 1, 4, 5, 40}) {
      rules.most_points = limit;
      expect_all<3>(oracle::random_points_of(random, count, 3, 4, 5, 0, false), rules, 1, 0);
    }
    const oracle::PointCloud cloud = oracle::random_points_of(random, count, 3, 4, 5, 0, false);
    const KernelRun<3, PointReduction::Sum> run(cloud, rules, 1, 0, 0);
    EXPECT_EQ(run.is_sorted, count > kUnsortedPoints) << count;
  }
}

/// A few voxels, of which some have too many points to be listed without a sort.
TEST(Points, SortedPointsOfAFewVoxels) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(50 + static_cast<u64>(variant));
    oracle::VoxelRules rules;
    rules.low = {0, 0, -5, 0}, rules.size = {5, 5, 10, 1};
    const oracle::PointCloud cloud = oracle::random_points_of(random, 700, 3, 4, 4, 4, true);
    for (const i64 most_voxels : {0, 5}) {
      rules.most_voxels = most_voxels;
      for (const i64 most_points : {0, 3, 40}) {
        rules.most_points = most_points;
        expect_all<3>(cloud, rules, 2, variant);
        const KernelRun<3, PointReduction::Mean> run(cloud, rules, 20, variant * 17, variant);
        EXPECT_TRUE(run.is_sorted);
        EXPECT_EQ(run.counts[kCountVoxels], most_voxels > 0 ? 5 : 12);
        EXPECT_EQ(run.counts[kCountPastVoxels] > 0, most_voxels > 0);
        EXPECT_GT(run.counts[kCountOutside] + run.counts[kCountNotFinite], 0);
      }
    }
  }
}

TEST(Points, NoPoints) {
  const oracle::VoxelRules rules;
  oracle::PointCloud cloud;
  expect_all<3>(cloud, rules, 0, 0);
  expect_all<3>(cloud, rules, 7, 1);
}

TEST(Points, BadBatchAndTooManyVoxels) {
  Random random(42);
  oracle::VoxelRules rules;
  oracle::PointCloud cloud = oracle::random_points_of(random, 100, 3, 4, 4, 3, false);
  rules.batch_size = 2;
  expect_all<3>(cloud, rules, 4, 0);
  rules.batch_size = 3;
  expect_all<3>(cloud, rules, 0, 0);
  const KernelRun<3, PointReduction::Mean> run(cloud, rules, oracle::voxels_of(cloud, rules).counts[0] - 1, 0,
                                               1);
  EXPECT_EQ(run.status, kStatusPastCapacity);
  EXPECT_EQ(run.counts[kCountVoxels], 0);
  EXPECT_EQ(run.point_rows, std::vector<i32>(100, -1));
  for (const float feature : run.features) EXPECT_EQ(feature, 0);
  cloud.batch[50] = -1;
  expect_all<3>(cloud, rules, 4, 2);
}

template <i32 Ndim, bool AtCentres>
void expect_blended(i32 stride, int variant) {
  Random random(60 + static_cast<u64>(variant));
  oracle::VoxelRules rules;
  rules.size = {0.5f, 1.25f, 1.0f, 2.0f}, rules.low = {-4, 0.25f, 0, 0};
  const oracle::PointCloud cloud = oracle::random_points_of(random, 150, Ndim, Ndim + 1, 3, 2, true);
  oracle::VoxelRules coarse = rules;
  for (float& size : coarse.size) size *= static_cast<float>(stride);
  coarse.channels = 1;
  // Every second voxel exists.
  const std::vector<i32> all = oracle::voxels_of(cloud, coarse).coordinates;
  std::vector<i32> coordinates;
  for (std::size_t at = 0; at < all.size(); at += 2 * (1 + Ndim)) {
    coordinates.push_back(all[at]);
    for (std::size_t a = 1; a <= Ndim; ++a) coordinates.push_back(all[at + a] * stride);
  }
  const i64 rows = static_cast<i64>(coordinates.size()) / (1 + Ndim), points = cloud.count();
  constexpr i32 kChannels = 8, kCorners = 1 << Ndim;
  Matrix<DType::F32> features(rows, kChannels, kChannels), output(points + 1, kChannels, kChannels);
  features.fill(random, rows);
  std::vector<float> plain;
  for (i64 row = 0; row < rows; ++row) {
    for (i64 c = 0; c < kChannels; ++c) plain.push_back(float_of(features.bits(row, c)));
  }
  std::vector<i32> table(static_cast<std::size_t>(point_slots(rows)), kFreeSlot);
  std::vector<i32> corner_rows = poisoned<i32>(static_cast<std::size_t>(kCorners * points));
  std::vector<float> weights = poisoned<float>(corner_rows.size());
  const i32 row_count = static_cast<i32>(rows), count = static_cast<i32>(points);
  CornersParams corners = {};
  corners.points = {cloud.points.data(), cloud.columns, cloud.batch.data(), &count, points};
  corners.grid = grid_of(rules, Ndim);
  for (i32& axis : corners.tensor_stride) axis = stride;
  corners.coordinates = coordinates.data(), corners.row_count = &row_count, corners.most_rows = rows;
  corners.table = table.data(), corners.slots = static_cast<u32>(table.size());
  corners.rows = corner_rows.data(), corners.weights = weights.data();
  constexpr IndexRowsSpec kIndex{.ndim = Ndim, .threads = 64};
  constexpr WeighCornersSpec kWeigh{.ndim = Ndim, .at_centres = AtCentres, .threads = 64};
  constexpr DevoxelizeSpec kDevoxelize{.corners = kCorners, .vector_bytes = 16, .threads = 64};
  shim::launch(&index_rows<kIndex>, corners, shim::small_grid(variant, 64));
  shim::launch(&weigh_corners<kWeigh>, corners, shim::small_grid(variant, 64));
  const DevoxelizeParams params{
      features.elements(), kChannels, &row_count, rows, corner_rows.data(), weights.data(), &count, points, 2,
      output.elements(),   kChannels};
  shim::launch(&devoxelize<kDevoxelize>, params, shim::small_grid(variant, 64));
  const std::vector<double> expected =
      oracle::blended(cloud, rules, AtCentres, std::vector<i32>(4, stride), coordinates, plain, kChannels);
  i64 not_zero = 0;
  for (i64 i = 0; i < points; ++i) {
    for (i64 c = 0; c < kChannels; ++c) {
      const double want = expected[static_cast<std::size_t>(i * kChannels + c)];
      not_zero += want != 0;
      ASSERT_NEAR(float_of(output.bits(i, c)), want, 1e-5 * (1 + std::abs(want))) << i << " " << c;
    }
  }
  EXPECT_GT(not_zero, points) << "the test shows something only if many points have voxels around them";
  EXPECT_TRUE(output.is_poison(points, 0));
}

TEST(Points, VoxelsAroundPoints) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_blended<1, false>(1, variant);
    expect_blended<2, true>(1, variant);
    expect_blended<3, true>(1, variant);
    expect_blended<3, false>(2, variant);
    expect_blended<4, true>(3, variant);
  }
}

template <DType T, i32 Channels, i32 VectorBytes>
void expect_nearest(int variant) {
  Random random(80);
  constexpr i64 kRows = 40, kPoints = 100, kMost = 120;
  Matrix<T> features(kRows, Channels, Channels), output(kMost + 1, Channels, Channels);
  features.fill(random, kRows);
  std::vector<i32> rows;
  // Row kRows - 1 is past the count.
  for (i64 i = 0; i < kMost; ++i) rows.push_back(static_cast<i32>(random.between(-1, kRows - 1)));
  const i32 row_count = kRows - 1, count = kPoints;
  constexpr DevoxelizeSpec kSpec{.io = T, .corners = 1, .vector_bytes = VectorBytes, .threads = 64};
  const DevoxelizeParams params{features.elements(),
                                Channels,
                                &row_count,
                                kRows,
                                rows.data(),
                                nullptr,
                                &count,
                                kMost,
                                Channels * dtype_bytes(T) / VectorBytes,
                                output.elements(),
                                Channels};
  shim::launch(&devoxelize<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  for (i64 i = 0; i < kMost; ++i) {
    const i32 row = rows[static_cast<std::size_t>(i)];
    const bool is_there = i < kPoints && row >= 0 && row < row_count;
    for (i64 c = 0; c < Channels; ++c)
      ASSERT_EQ(output.bits(i, c), is_there ? features.bits(row, c) : 0u) << i << " " << c;
  }
  EXPECT_TRUE(output.is_poison(kMost, 0));
}

TEST(Points, NearestVoxel) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_nearest<DType::F32, 4, 16>(variant);
    expect_nearest<DType::F16, 24, 16>(variant);
    expect_nearest<DType::BF16, 3, 2>(variant);
  }
}

}  // namespace
}  // namespace minuet
