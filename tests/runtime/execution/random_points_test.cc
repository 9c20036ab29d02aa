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
    if (!test.blends) return run_and_expect(test.cloud(), test.rules(), test.spare, test.more);
    Random random(test.seed + 2);
    blend_and_expect(random, test.cloud(), test.rules(),
                     test.at_centres ? MINUET_BLEND_CENTRES : MINUET_BLEND_CORNERS, test.tensor_stride,
                     test.channels);
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
