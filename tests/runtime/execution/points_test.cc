// Voxels of points, and features of points, through the C ABI on every device: bit by bit those of plain
// loops, from poisoned memory, in graphs and from many threads.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/point_kernels.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/points_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class Points : public PointsTest {};

TEST_P(Points, AreVoxelsBitByBit) {
  Random random(7);
  const int64_t count = machine().is_software() ? 300 : 5000;
  for (const PointFeature feature :
       {PointFeature::Mean, PointFeature::Max, PointFeature::Sum, PointFeature::First}) {
    VoxelRules rules;
    rules.feature = feature;
    rules.size = {0.3f, 0.45f, 0.7f, 0.9f};
    run_and_expect(oracle::random_points_of(random, count, 3, 4, 4, 3, true), rules, 0, 0);
    rules.first_column = 2, rules.channels = 7;
    rules.has_range = true, rules.batch_size = 4;
    rules.low = {-3, -1.5f, -2, -1}, rules.high = {2.9f, 2, 3, 2};
    run_and_expect(oracle::random_points_of(random, count, 3, 9, 4, 4, true), rules, 11, 77);
    rules.most_points = 2, rules.most_voxels = 50;
    run_and_expect(oracle::random_points_of(random, count, 3, 9, 4, 0, true), rules, 3, 5);
  }
}

TEST_P(Points, OfOtherNumbersOfAxes) {
  Random random(8);
  for (const int ndim : {1, 2, 4}) {
    VoxelRules rules;
    rules.channels = 2;
    rules.size = {0.3f, 0.45f, 0.7f, 0.9f};
    run_and_expect(oracle::random_points_of(random, 400, ndim, ndim + 1, 3, 2, true), rules, 2, 1);
  }
}

TEST_P(Points, InOneVoxelAndNone) {
  Random random(9);
  VoxelRules rules;
  rules.low = {-10, -10, -10, 0}, rules.size = {100, 100, 100, 1};
  run_and_expect(oracle::random_points_of(random, machine().is_software() ? 500 : 100000, 3, 4, 5, 0, false),
                 rules, 0, 0);
  for (const int64_t count : {0, 1, 2}) {
    run_and_expect(oracle::random_points_of(random, count, 3, 4, 5, 0, false), rules, 3, 0);
    run_and_expect(oracle::random_points_of(random, count, 3, 4, 5, 0, false), rules, 0, 9);
  }
}

/// The number of points of the largest voxel. It decides whether a GPU sorts the points.
int32_t largest_voxel(const PointCloud& cloud, const VoxelRules& rules) {
  const std::vector<int32_t> points_of = oracle::voxels_of(cloud, rules).points_of;
  return *std::max_element(points_of.begin(), points_of.end());
}

TEST_P(Points, AreSortedInAFewVoxels) {
  Random random(15);
  VoxelRules rules;
  rules.low = {0, 0, -5, 0}, rules.size = {5, 5, 10, 1};
  const PointCloud cloud = oracle::random_points_of(random, 700, 3, 4, 4, 4, true);
  ASSERT_GT(largest_voxel(cloud, rules), kUnsortedPoints);
  // Rows of 700 points may have 10 bits, which are two passes of the sort. Rows of 5 voxels need one pass.
  for (const int64_t most_voxels : {0, 5}) {
    rules.most_voxels = most_voxels;
    for (const int64_t most_points : {0, 40}) {
      rules.most_points = most_points;
      run_and_expect(cloud, rules, 0, 0);
      run_and_expect(cloud, rules, 4, 29);
    }
  }
}

TEST_P(Points, AreSortedAmongManyVoxels) {
  Random random(16);
  VoxelRules rules;
  rules.low = {-0.5f, -0.5f, -0.5f, 0};
  PointCloud cloud = oracle::random_points_of(random, 600, 3, 4, 4, 3, true);
  const PointCloud dense = oracle::random_points_of(random, 100, 3, 4, 0.4, 3, false);
  cloud.points.insert(cloud.points.end(), dense.points.begin(), dense.points.end());
  cloud.batch.insert(cloud.batch.end(), dense.batch.begin(), dense.batch.end());
  ASSERT_GT(largest_voxel(cloud, rules), kUnsortedPoints);
  // The rows have more bits than one pass sorts.
  ASSERT_GT(oracle::voxels_of(cloud, rules).counts[0], 1 << kRadixBits);
  run_and_expect(cloud, rules, 4, 29);
}

TEST_P(Points, ThatDoNotFitLeaveNoVoxels) {
  Random random(10);
  VoxelRules rules;
  PointCloud cloud = oracle::random_points_of(random, 300, 3, 4, 4, 3, false);
  rules.batch_size = 2;
  run_and_expect(cloud, rules, 5, 0);
  rules.batch_size = 0;
  const int32_t voxels = oracle::voxels_of(cloud, rules).counts[0];
  const PointOp op = voxelizer(cloud, rules);
  const auto expect_none = [&](const Room& room) {
    check(minuet_voxelize(op.get(), machine().device(), &room.given, nullptr));
    EXPECT_EQ(room.status.read<uint32_t>().front(), uint32_t{MINUET_CLOUD_PAST_CAPACITY});
    EXPECT_EQ(room.counts.read<int32_t>().front(), 0);
    EXPECT_EQ(room.rows.read<int32_t>(), std::vector<int32_t>(static_cast<size_t>(room.most), -1));
    for (const float value : values_of(room.features)) ASSERT_EQ(value, 0);
  };
  expect_none(Room(machine(), op.get(), cloud, rules, dtype(), voxels - 1));
  for (const int32_t said : {-1, 311}) {
    const Room room(machine(), op.get(), cloud, rules, dtype(), voxels, 10);
    Room::put(machine(), room.count, std::vector<int32_t>{said});
    expect_none(room);
  }
  cloud.batch[7] = -3;
  run_and_expect(cloud, rules, 5, 0);
}

TEST_P(Points, GiveBackWhatTheyGave) {
  Random random(11);
  VoxelRules rules;
  rules.feature = PointFeature::First, rules.channels = 8, rules.size = {0.01f, 0.01f, 0.01f, 1};
  rules.has_range = true, rules.low = {-4, -4, -4, 0}, rules.high = {3, 4, 4, 0};
  PointCloud cloud = oracle::random_points_of(random, 500, 3, 8, 4, 0, true);
  const PointOp op = voxelizer(cloud, rules), back = devoxelizer(3, 8, MINUET_BLEND_NEAREST, rules, 1);
  const Room room(machine(), op.get(), cloud, rules, dtype(), cloud.count(), 20);
  check(minuet_voxelize(op.get(), machine().device(), &room.given, nullptr));
  const Buffer output(machine(), room.most * 8 * dtype_bytes(dtype()));
  minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
  given.most = room.most, given.count = room.count.integers();
  given.point_rows = room.rows.integers();
  given.row_count = room.counts.integers();  // its first word
  given.most_rows = room.capacity;
  given.features = room.features.data(), given.output = output.data();
  check(minuet_devoxelize(back.get(), machine().device(), &given, nullptr));
  const std::vector<float> values = values_of(output);
  const std::vector<int32_t> rows = room.rows.read<int32_t>();
  const std::vector<int32_t> points_of = room.points_of.read<int32_t>();
  int64_t compared = 0;
  for (int64_t i = 0; i < room.most; ++i) {
    const int32_t row = rows[static_cast<size_t>(i)];
    if (row >= 0 && points_of[static_cast<size_t>(row)] > 1) continue;
    for (int c = 0; c < 8; ++c, ++compared) {
      const float got = values[static_cast<size_t>(i * 8 + c)];
      const float want = row < 0 ? 0 : stored(static_cast<double>(cloud.at(i, c)));
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << i << " " << c;
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST_P(Points, TakeTheFeaturesOfTheVoxelsAround) {
  Random random(12);
  for (const auto& [ndim, blend, stride] : {std::tuple{3, MINUET_BLEND_CENTRES, 1},
                                            {3, MINUET_BLEND_CORNERS, 2},
                                            {1, MINUET_BLEND_CENTRES, 2},
                                            {2, MINUET_BLEND_CORNERS, 1},
                                            {4, MINUET_BLEND_CENTRES, 1}}) {
    SCOPED_TRACE(ndim);
    VoxelRules rules;
    rules.size = {0.5f, 1.25f, 1, 2}, rules.low = {-4, 0.25f, 0, 0}, rules.channels = 1;
    const PointCloud cloud = oracle::random_points_of(random, 300, ndim, ndim, 3, 2, true);
    blend_and_expect(random, cloud, rules, blend, stride, 6);
  }
}

TEST_P(Points, AreReadAnewByEveryReplay) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  Random random(13);
  VoxelRules rules;
  // The points of the second cloud are sorted, and those of the first are not.
  const PointCloud first = oracle::random_points_of(random, 400, 3, 4, 4, 2, true);
  const PointCloud second = oracle::random_points_of(random, 450, 3, 4, 0.4, 2, true);
  ASSERT_LE(largest_voxel(first, rules), kUnsortedPoints);
  ASSERT_GT(largest_voxel(second, rules), kUnsortedPoints);
  const PointOp op = voxelizer(first, rules);
  const Room room(machine(), op.get(), first, rules, dtype(), 500, 100);
  Stream stream(machine());
  check(minuet_device_synchronize(machine().device(), nullptr));
  const CapturedGraph graph(
      stream.get(), [&] { check(minuet_voxelize(op.get(), machine().device(), &room.given, stream.get())); });
  ASSERT_TRUE(graph.whole());
  for (const PointCloud* cloud : std::initializer_list<const PointCloud*>{&first, &second, &first}) {
    Room::put(machine(), room.points, cloud->points);
    Room::put(machine(), room.batch, cloud->batch);
    Room::put(machine(), room.count, std::vector<int32_t>{static_cast<int32_t>(cloud->count())});
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    expect_voxels(room, *cloud, rules);
  }
}

TEST_P(Points, NeedTheKernelsToBeLoaded) {
  PointCloud cloud;
  cloud.ndim = 3;
  VoxelRules rules;
  // No other test of this process loads kernels for points with these options.
  rules.feature = PointFeature::Max, rules.channels = 3;
  std::string reason;
  minuet_device_options device = MINUET_DEVICE_OPTIONS_INIT;
  const std::unique_ptr<Machine> own = Machine::open_own(machine().is_cpu() ? "cpu" : "cuda:0", device);
  const minuet_voxelize_options options = options_of(cloud, rules, dtype());
  minuet_point_op* made = nullptr;
  check(minuet_voxelize_create(own->context(), &options, &made));
  const PointOp op(made, {minuet_point_op_destroy});
  const Room room(*own, made, cloud, rules, dtype(), 4);
  EXPECT_EQ(minuet_voxelize(made, own->device(), &room.given, nullptr), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("call minuet_point_op_load first"));
}

TEST_P(Points, FromManyThreadsThreads) {
  Random random(14);
  struct Call {
    PointCloud cloud;
    VoxelRules rules;
    PointOp op;
    std::unique_ptr<Room> room;
    std::unique_ptr<Stream> stream;
  };
  std::vector<Call> calls;
  const auto add = [&](int64_t count, double extent, PointFeature feature) {
    VoxelRules rules;
    rules.feature = feature;
    const PointCloud cloud = oracle::random_points_of(random, count, 3, 4, extent, 2, true);
    PointOp op = voxelizer(cloud, rules);
    auto room = std::make_unique<Room>(machine(), op.get(), cloud, rules, dtype(), 400);
    calls.push_back({cloud, rules, std::move(op), std::move(room), std::make_unique<Stream>(machine())});
  };
  add(300, 4, PointFeature::Mean);
  add(400, 0.4, PointFeature::Max);  // A GPU sorts these points.
  add(250, 3, PointFeature::Sum);
  check(minuet_device_synchronize(machine().device(), nullptr));
  std::vector<std::thread> threads;
  for (const Call& call : calls) {
    threads.emplace_back([this, &call] {
      for (int i = 0; i < 5; ++i)
        check(minuet_voxelize(call.op.get(), machine().device(), &call.room->given, call.stream->get()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Call& call : calls) {
    check(minuet_device_synchronize(machine().device(), call.stream->get()));
    expect_voxels(*call.room, call.cloud, call.rules);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(Points);

}  // namespace
}  // namespace minuet::abi
