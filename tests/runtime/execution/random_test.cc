// Random problems through the C ABI, on every device, against the fp64 oracle. A seed is drawn in every run
// and printed; a failure is shrunk and printed as a case for tests/cases/regression_cases.cc.
#include <set>

#include "tests/cases/random_cases.h"
#include "tests/cases/regression_cases.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/support/abi.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr int kCases = kSanitized ? 20 : 100;
constexpr int kLongCases = 5000;
constexpr int kSoftwareCases = 5;
constexpr int kCudaCases = 40;  // each has kernels of its own to compile

testing::AssertionResult is_right(const ConvolutionCase& test, const ConvolutionData& data,
                                  const std::vector<float>& output) {
  std::vector<double> magnitudes;
  const std::vector<double> expected = expected_output(test, data, &magnitudes);
  return is_close(select_rows(output, test.out_channels, data.rows), expected, magnitudes, test.out_channels,
                  test.dtype);
}

/// Every way from coordinates to output; fails by GoogleTest's means.
void run_case(Machine& machine, const ConvolutionCase& test) {
  const ConvolutionData data = make_data(test);
  Convolution convolution(machine, test, data);
  const Execution execution = convolution.execution();
  if (test.earlier_points >= 0) {
    const ConvolutionCase earlier = test.earlier();
    const ConvolutionData before = make_data(earlier);
    convolution.run(execution.get(), make_map(machine, earlier, before), before);
  }
  const Map map = make_map(machine, test, data);
  EXPECT_EQ(take_rows(coordinates_of(machine, map.in.get(), test.ndim), map.in_rows), data.in_coordinates);
  if (map.out) {
    EXPECT_EQ(map.from_output(coordinates_of(machine, map.out.get(), test.ndim)), data.out_coordinates);
  }
  EXPECT_TRUE(map.pairs == expected_pairs(data))
      << map.pairs.size() << " pairs of the map differ from the oracle's " << expected_pairs(data).size();
  EXPECT_TRUE(is_right(test, data, decode(test.dtype, convolution.run(execution.get(), map, data))));
}

class RandomTest : public DeviceTest {
 protected:
  bool passes(const ConvolutionCase& test) {
    return passes_or_shrinks<ConvolutionCase>(
        test, [&](const ConvolutionCase& candidate) { run_case(machine(), candidate); }, simpler_cases,
        // After some failures a GPU fails at everything.
        small_case(dtype(), ConvolutionKind::Submanifold, 4, 4, 31));
  }
};

TEST_P(RandomTest, Convolutions) {
  const int count = case_count(machine().is_cpu()        ? kCases
                               : machine().is_software() ? kSoftwareCases
                                                         : kCudaCases,
                               kLongCases);
  const uint64_t seed = announce_seed(count);
  std::vector<ConvolutionCase> cases;
  for (int i = 0; i < count; ++i)
    cases.push_back(draw_case(dtype(), case_seed(seed, static_cast<uint64_t>(dtype()), i)));
  compile_ahead(machine(), cases);
  for (int i = 0; i < count; ++i) {
    if (passes(cases[i])) continue;
    FAIL() << "case " << i << " of seed " << seed;  // the first is enough to go on
  }
}

TEST_P(RandomTest, CasesThatOnceFailed) {
  std::vector<ConvolutionCase> cases = regression_cases();
  std::erase_if(cases, [&](const ConvolutionCase& test) { return test.dtype != dtype(); });
  compile_ahead(machine(), cases);
  for (const ConvolutionCase& test : cases) passes(test);
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomTest);

// ---- the machinery itself ------------------------------------------------------------------------------

TEST(RandomCases, ShrinkToTheLeastThatFails) {
  auto fails = [](const ConvolutionCase& test) {
    const auto even = [](int32_t size) { return size % 2 == 0; };
    return test.in_channels >= 7 && std::any_of(test.kernel_size.begin(), test.kernel_size.end(), even);
  };
  int shrunk = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ConvolutionCase test = draw_case(DType::BF16, seed);
    if (!fails(test)) continue;
    ++shrunk;
    ConvolutionCase least{.dtype = DType::F32,
                          .ndim = 1,
                          .in_channels = 7,
                          .out_channels = 1,
                          .kernel_size = {2, 1, 1, 1},
                          .one_sign = true,
                          .seed = test.seed};
    EXPECT_EQ(as_initializer(shrink<ConvolutionCase>(test, simpler_cases, fails, 2000)),
              as_initializer(least))
        << "from " << as_initializer(test);
  }
  EXPECT_GT(shrunk, 20);
}

/// What is needed to fail stays: each field in turn, at a value that shrinking might pass by.
TEST(RandomCases, ShrinkingKeepsWhatItNeeds) {
  auto needs = [](const ConvolutionCase& test) {
    return test.kind == ConvolutionKind::Transposed && test.points >= 37 && test.batches >= 3 &&
           test.coarse_side == CoarseSide::Apart && test.origin[0] <= -500 &&
           test.activation == Activation::ReLU && test.earlier_points >= 2;
  };
  ConvolutionCase test = draw_case(DType::F16, 5);
  test.kind = ConvolutionKind::Transposed, test.points = 200, test.batches = 9;
  test.coarse_side = CoarseSide::Apart, test.origin = {-100000, 7, 0, 0}, test.activation = Activation::ReLU,
  test.earlier_points = 77;
  const ConvolutionCase least = shrink<ConvolutionCase>(test, simpler_cases, needs, 2000);
  EXPECT_TRUE(needs(least));
  EXPECT_EQ(least.points, 37);
  EXPECT_EQ(least.batches, 3);
  EXPECT_EQ(least.origin, (oracle::Axes{-500, 0, 0, 0}));
  EXPECT_EQ(least.earlier_points, 2);
}

// Compiled here and quoted below: what a pasted line becomes, and its text.
// clang-format off
#define MINUET_SAMPLE(as) as( \
  ConvolutionCase{.kind = ConvolutionKind::Strided, .dtype = DType::BF16, .ndim = 4, .points = 12, \
.in_channels = 3, .out_channels = 5, .kernel_size = {2, 3, 1, 2}, .stride = {2, 1, 3, 1}, \
.dilation = {1, 2, 1, 1}, .tensor_stride = {4, 1, 1, 2}, .batches = 6, .empty_batch = 2, .scale_shift = true, \
.residual = true, .activation = Activation::LeakyReLU, .negative_slope = -1.5, .sampled_rows = 9, .one_sign = true, .scale_alone = true, .shift_alone = true, \
.raw_weights = true, .coarse_side = CoarseSide::Derived, .other_points = 8, .origin = {-7, 0, 1000, 3}, .filled = 0.001, \
.first_batch = 100, .duplicates = 4, .bounds_slack = 0, .earlier_points = 33, \
.seed = 18446744073709551615u})
// clang-format on
#define MINUET_COMPILED(...) __VA_ARGS__
#define MINUET_QUOTED(...) #__VA_ARGS__

/// The printed text is the text that was compiled, with every field in it.
TEST(RandomCases, PrintWhatCanBePasted) {
  const ConvolutionCase sample = MINUET_SAMPLE(MINUET_COMPILED);
  EXPECT_EQ(as_initializer(sample), MINUET_SAMPLE(MINUET_QUOTED));
  EXPECT_EQ(as_initializer(ConvolutionCase{}), "ConvolutionCase{}");
}

TEST(RandomCases, AreTheSameForTheSameSeedAndReachEverything) {
  std::set<ConvolutionKind> kinds;
  std::set<CoarseSide> sides;
  std::set<int> dimensions, kernels;
  int far = 0, doubled = 0, empty = 0, warm = 0, bounded = 0, alone = 0, leaky = 0, grouped = 0,
      depthwise = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const ConvolutionCase test = draw_case(DType::F16, seed);
    ASSERT_EQ(test, draw_case(DType::F16, seed));
    ASSERT_TRUE(is_feasible(test)) << as_initializer(test);
    kinds.insert(test.kind), sides.insert(test.coarse_side), dimensions.insert(test.ndim);
    kernels.insert(test.kernel_size.begin(), test.kernel_size.end());
    far += std::abs(static_cast<int64_t>(test.origin[0]) * test.tensor_stride[0]) > 2000000000;
    doubled += test.duplicates > 0, empty += test.points == 0, warm += test.earlier_points >= 0;
    depthwise += test.groups > 1 && test.groups == test.in_channels;
    grouped += test.groups > 1 && test.groups < test.in_channels;
    bounded += test.bounds_slack >= 0, alone += test.scale_alone, leaky += test.negative_slope != 0;
  }
  EXPECT_EQ(kinds.size(), 4u);
  EXPECT_EQ(sides.size(), 3u);
  EXPECT_EQ(dimensions.size(), 4u);
  EXPECT_EQ(kernels.size(), 6u);
  for (const int count : {far, doubled, empty, warm, bounded, alone, leaky, grouped, depthwise}) {
    EXPECT_GT(count, 5);
  }
}

}  // namespace
}  // namespace minuet::abi
