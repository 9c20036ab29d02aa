// Random problems of voxelizing and devoxelizing through the C ABI, on every device, against plain loops. A
// failure is shrunk and printed.
#include "tests/cases/random_points.h"
#include "tests/runtime/execution/points_fixture.h"
#include "tests/runtime/execution/random_run.h"

namespace minuet::abi {
namespace {

constexpr int kCases = kSanitized ? 40 : 300;
constexpr int kLongCases = 10000;
constexpr int kCudaCases = 100;
constexpr int kSoftwareCases = 10;

class RandomPoints : public PointsTest {
 protected:
  void run_case(const PointsCase& test) {
    if (!test.blends)
      return run_and_expect(test.cloud(), test.rules(), test.spare_rows, test.points_past_count);
    if (test.is_nearest) return take_nearest_and_expect(test);
    Random random(test.seed + 2);
    blend_and_expect(random, test.cloud(), test.rules(),
                     test.at_centres ? MINUET_BLEND_CENTRES : MINUET_BLEND_CORNERS, test.tensor_stride,
                     test.channels);
  }

  /// Each point gets the features of the row that voxelizing gives it, and zeros without one or past the
  /// count.
  void take_nearest_and_expect(const PointsCase& test) {
    Random random(test.seed + 2);
    const oracle::PointCloud cloud = test.cloud();
    const oracle::Voxels voxels = oracle::voxels_of(cloud, test.rules());
    const auto rows = static_cast<int64_t>(voxels.coordinates.size()) / (1 + cloud.ndim);
    const int64_t most = cloud.count() + test.points_past_count, most_rows = rows + test.spare_rows;
    std::vector<float> features;
    for (int64_t i = 0; i < rows * test.channels; ++i) features.push_back(stored(random.uniform(-2, 2)));
    std::vector<float> expected;
    for (const int32_t row : voxels.rows) {
      for (int64_t c = 0; c < test.channels; ++c)
        expected.push_back(row < 0 ? 0 : features[static_cast<size_t>(row * test.channels + c)]);
    }
    expected.resize(static_cast<size_t>(most * test.channels), 0);
    std::vector<int32_t> point_rows = voxels.rows;
    point_rows.resize(static_cast<size_t>(most), 0);
    std::vector<char> padded = encode(storage_type(dtype()), features);
    padded.resize(static_cast<size_t>(std::max<int64_t>(most_rows * test.channels, 8) * 4), char{0x7f});
    point_rows.push_back(0);  // Device memory has at least one word.
    const PointOp op = devoxelizer(cloud.ndim, test.channels, MINUET_BLEND_NEAREST, test.rules(), 1);
    int64_t bytes = 0;
    check(minuet_devoxelize_bytes(op.get(), machine().arch().c_str(), most, most_rows, &bytes));
    const Buffer rows_of_points(machine(), point_rows), given_features(machine(), padded),
        count(machine(), std::vector<int32_t>{static_cast<int32_t>(cloud.count())}),
        row_count(machine(), std::vector<int32_t>{static_cast<int32_t>(rows)}),
        workspace(machine(), std::max<int64_t>(bytes, 16)),
        output(machine(), std::max<int64_t>(most * test.channels * dtype_bytes(dtype()), 16));
    minuet_devoxelize_arguments given = MINUET_DEVOXELIZE_ARGUMENTS_INIT;
    given.most = most, given.count = count.integers();
    given.point_rows = rows_of_points.integers(), given.row_count = row_count.integers();
    given.most_rows = most_rows;
    given.features = given_features.data(), given.output = output.data();
    given.workspace = workspace.data(), given.workspace_bytes = bytes;
    check(minuet_devoxelize(op.get(), machine().device(), &given, nullptr));
    std::vector<float> got = values_of(output);
    got.resize(expected.size());
    EXPECT_EQ(got, expected);
  }
};

TEST_P(RandomPoints, Problems) {
  const int count = case_count(machine().is_cpu()        ? kCases
                               : machine().is_software() ? kSoftwareCases
                                                         : kCudaCases,
                               kLongCases);
  const uint64_t seed = announce_seed(count);
  for (int i = 0; i < count; ++i) {
    const PointsCase test =
        draw_points_case(case_seed(seed, 400 + static_cast<uint64_t>(dtype()), static_cast<uint64_t>(i)));
    const auto run = [&](const PointsCase& each) { run_case(each); };
    const auto simpler = [](const PointsCase& each) { return simpler_cases(each); };
    if (!passes_or_shrinks<PointsCase>(test, run, simpler, PointsCase{.points = 9}))
      FAIL() << "problem " << i << " of seed " << seed;
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomPoints);

}  // namespace
}  // namespace minuet::abi
