// Quantized parameters of convolutions: what they stand for, and what is refused.
#include "runtime/weights/quantized_weight.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "runtime/weights/weight_image.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

using testing::HasSubstr;

ConvolutionProblem eight_bit_problem(i32 in, i32 out, bool residual) {
  ConvolutionProblem problem;
  problem.in_channels = in, problem.out_channels = out;
  problem.kernel_size = {3, 1, 1, 1};
  problem.scale_shift = true;
  problem.activation = Activation::ReLU;
  problem.input_type = problem.output_type = DType::U8;
  problem.residual = residual;
  if (residual) problem.residual_type = DType::S8;
  return problem;
}

QuantizedParameters must(llvm::Expected<QuantizedParameters> result) {
  if (result) return std::move(*result);
  ADD_FAILURE() << llvm::toString(result.takeError());
  return {};
}

std::vector<float> draw(Random& random, std::size_t count, double least, double most) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.uniform(least, most)));
  return values;
}

/// A layer in fp64, of inputs that are integers times their scales, against the integers times what the
/// kernel multiplies by.
TEST(QuantizedWeights, StandForTheFloatingLayer) {
  for (int turn = 0; turn < 12; ++turn) {
    Random random(static_cast<u64>(40 + turn));
    const i32 in = 5 + turn, out = 3 + turn % 4;
    ConvolutionProblem problem = eight_bit_problem(in, out, turn % 2 == 1);
    if (turn % 3 == 1) problem.output_type.reset();  // then the factor is that of the sum
    if (turn % 3 == 2) problem.activation = Activation::Silu;
    const std::vector<float> weight = draw(random, static_cast<std::size_t>(3 * in * out), -2, 2),
                             scale = draw(random, static_cast<std::size_t>(out), -3, 3),
                             shift = draw(random, static_cast<std::size_t>(out), -9, 9);
    TensorScales scales;
    for (i32 c = 0; c < in; ++c) scales.input.push_back(random.uniform(0.01, 0.2));
    scales.residual = 0.17, scales.output = 0.031;
    const QuantizedParameters result = must(quantize(problem, weight, scale, shift, scales));
    ASSERT_EQ(result.weight.size(), weight.size());
    ASSERT_EQ(result.residual_factor.size(), problem.residual ? static_cast<std::size_t>(out) : 0u);
    const double after = problem.output_type && turn % 3 != 2 ? scales.output : 1;
    for (i32 c = 0; c < out; ++c) {
      const auto at = static_cast<std::size_t>(c);
      double exact = shift[at], steps = 0;
      std::int64_t sum = 0;
      int largest = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(3 * in); ++i) {
        const int x = static_cast<int>(random.below(256)),
                  w = result.weight[i * static_cast<std::size_t>(out) + at];
        const double input = x * scales.input[i % static_cast<std::size_t>(in)];
        exact += input * weight[i * static_cast<std::size_t>(out) + at] * scale[at];
        sum += x * w, steps += x * 0.5, largest = std::max(largest, std::abs(w));
      }
      EXPECT_EQ(largest, 127) << "the largest weight of channel " << c;
      const int residual = static_cast<int>(random.between(-127, 127));
      double start = result.shift[at];
      if (problem.residual) {
        exact += residual * scales.residual;
        start += residual * static_cast<double>(result.residual_factor[at]);
      }
      const double unit = static_cast<double>(result.factor[at]) * after;
      EXPECT_NEAR((static_cast<double>(sum) + start) * unit, exact, steps * unit + 1e-5 * std::abs(exact))
          << "turn " << turn << ", channel " << c;
    }
  }
}

TEST(QuantizedWeights, RoundHalfToEvenAndAreLimitedToTheRange) {
  ConvolutionProblem problem = eight_bit_problem(1, 2, false);
  TensorScales scales;
  scales.input = {1}, scales.output = 0.5;
  scales.ranges = {127, 12.7};
  const QuantizedParameters result =
      must(quantize(problem, {2.5f, 0.05f, -3.5f, -1.0f, 0.5f, 20.0f}, {}, {}, scales));
  EXPECT_EQ(result.weight, (std::vector<std::int8_t>{2, 1, -4, -10, 0, 127}));
  EXPECT_FLOAT_EQ(result.factor[0], 2.0f);
  EXPECT_FLOAT_EQ(result.factor[1], 0.2f);
  EXPECT_EQ(result.shift, (std::vector<float>{0, 0}));
}

/// The ranges limit the weights where the scale of the channel's integers does not: if the range is zero or
/// the shift is large.
TEST(QuantizedWeights, AreLimitedToTheRangeWithoutItsScale) {
  ConvolutionProblem problem = eight_bit_problem(1, 3, false);
  TensorScales scales;
  scales.input = {1}, scales.output = 1;
  scales.ranges = {0, 0.25, 2};
  const float shift = 0x1p29f;  // The weights are integers of the scale 1.
  const QuantizedParameters result =
      must(quantize(problem, {3, 3, 3, -3, -3, -3, 1, 1, 1}, {}, {0, shift, shift}, scales));
  EXPECT_EQ(result.weight, (std::vector<std::int8_t>{0, 0, 2, 0, 0, -2, 0, 0, 1}));
}

/// A channel of zeros has a shift, and one whose weights are tiny beside its shift has not too large a start.
TEST(QuantizedWeights, OfZeros) {
  ConvolutionProblem problem = eight_bit_problem(1, 3, false);
  TensorScales scales;
  scales.input = {1}, scales.output = 1;
  std::vector<float> weight(9, 0.0f);
  weight[2] = 1e-30f;
  const QuantizedParameters result = must(quantize(problem, weight, {}, {0.0f, 7.5f, -7.5f}, scales));
  EXPECT_EQ(result.weight, std::vector<std::int8_t>(9, 0));
  for (const std::size_t c : {0u, 1u, 2u}) {
    EXPECT_NEAR(static_cast<double>(result.shift[c]) * result.factor[c],
                c == 0   ? 0
                : c == 1 ? 7.5
                         : -7.5,
                1e-5);
    EXPECT_LT(std::abs(result.shift[c]), 0x1p30f);
  }
}

/// A batch norm may have turned a channel off. Its weights are then too small for a factor in fp32, and the
/// other channels must not suffer from it.
TEST(QuantizedWeights, OfChannelsThatAreTurnedOff) {
  for (const bool has_eight_bit_output : {true, false}) {
    ConvolutionProblem problem = eight_bit_problem(1, 3, false);
    if (!has_eight_bit_output) problem.output_type.reset();
    TensorScales scales;
    scales.input = {1}, scales.output = 0.5;
    const std::vector<float> ones(9, 1.0f), scale = {1.0f, 1e-44f, -1e-40f};
    const QuantizedParameters result = must(quantize(problem, ones, scale, {0.0f, 1e-43f, 3.0f}, scales));
    ASSERT_EQ(result.factor.size(), 3u);
    EXPECT_EQ(result.weight, (std::vector<std::int8_t>{127, 0, 0, 127, 0, 0, 127, 0, 0}));
    EXPECT_FLOAT_EQ(result.factor[0], (has_eight_bit_output ? 2.0f : 1.0f) / 127);
    EXPECT_EQ(result.factor[1], 0x1p-126f);
    EXPECT_LT(std::abs(result.shift[1]), 0.5f);
    EXPECT_FLOAT_EQ(result.shift[2] * result.factor[2], has_eight_bit_output ? 6.0f : 3.0f);
  }
}

std::string refusal(const ConvolutionProblem& problem, const std::vector<float>& weight,
                    const std::vector<float>& shift, const TensorScales& scales) {
  return take_status(quantize(problem, weight, {}, shift, scales).takeError()).message();
}

TEST(QuantizedWeights, RefuseWhatCannotBe) {
  ConvolutionProblem problem = eight_bit_problem(1, 2, false);
  TensorScales scales;
  scales.input = {1};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ones(6, 1.0f);
  EXPECT_THAT(refusal(problem, {1, 1, 1, infinity, 1, 1}, {}, scales),
              HasSubstr("weight of output channel 1"));
  EXPECT_THAT(refusal(problem, ones, {0, infinity}, scales), HasSubstr("output channel 1"));
  scales.output = 0;
  EXPECT_THAT(refusal(problem, ones, {}, scales), HasSubstr("scale of the output is 0;"));
  scales.output = 1, scales.input = {-1};
  EXPECT_THAT(refusal(problem, ones, {}, scales), HasSubstr("scale of the input is -1;"));
  scales.input = {1}, scales.output = 1e-50;
  EXPECT_EQ(
      refusal(problem, ones, {}, scales),
      "the scales of output channel 0 give the factor 7.87402e+47, which fp32 cannot hold: keep the layer "
      "in the type of the plan");
}

/// The reason is the error's message without the remedy. Numbers that are not finite are no reason, but an
/// error, whatever its message is.
TEST(QuantizedWeights, HaveAReasonToKeepFloatingNumbers) {
  const ConvolutionProblem problem = eight_bit_problem(1, 2, false);
  TensorScales scales;
  scales.input = {1};
  const std::vector<float> ones(6, 1.0f);
  EXPECT_EQ(llvm::cantFail(keep_floating_reason(problem, ones, {}, {}, scales)), std::nullopt);
  scales.output = 1e-50;
  EXPECT_EQ(llvm::cantFail(keep_floating_reason(problem, ones, {}, {}, scales)),
            "the scales of output channel 0 give the factor 7.87402e+47, which fp32 cannot hold");
  const float infinity = std::numeric_limits<float>::infinity();
  const StatusError status =
      take_status(keep_floating_reason(problem, {1, 1, 1, infinity, 1, 1}, {}, {}, scales).takeError());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "a weight of output channel 1 is inf, which is not finite");
}

/// 255 * 127 * 66311 is below 2^31, and one input more is not.
TEST(QuantizedWeights, RefuseSumsThatOverflow) {
  const auto with_inputs = [](i32 in, DType type, float shift) {
    ConvolutionProblem problem = eight_bit_problem(in, 2, false);
    problem.kernel_size = {1, 1, 1, 1};
    problem.input_type = type;
    TensorScales scales;
    scales.input.assign(static_cast<std::size_t>(in), 1.0);
    std::vector<float> weight(static_cast<std::size_t>(2 * in), 0.0f);
    for (std::size_t i = 1; i < weight.size(); i += 2) weight[i] = i % 4 == 1 ? 127.0f : -127.0f;
    llvm::Expected<QuantizedParameters> result = quantize(problem, weight, {}, {0.0f, shift}, scales);
    return result ? std::string() : take_status(result.takeError()).message();
  };
  EXPECT_EQ(with_inputs(66311, DType::U8, 0), "");
  const std::string message = with_inputs(66312, DType::U8, 0);
  EXPECT_THAT(message, HasSubstr("output channel 1"));
  EXPECT_THAT(message, HasSubstr("2147514120"));
  EXPECT_EQ(with_inputs(66312, DType::S8, 0), "");
  EXPECT_EQ(with_inputs(66311, DType::U8, 1000), "");
  EXPECT_THAT(with_inputs(66311, DType::U8, -3000), HasSubstr("2147484735"));
}

/// The bound counts the start as the kernel computes it in fp32. 127 * 12682004 + 536869138 is below 2^31,
/// but the fp32 number nearest to this start is larger by 14.
TEST(QuantizedWeights, RefuseSumsThatOverflowByTheRoundingOfTheStart) {
  const auto message_of = [](double start, float sign, double residual) {
    constexpr i32 kInputs = 99859;  // 99858 * 127 + 38 is 12682004.
    ConvolutionProblem problem = eight_bit_problem(kInputs, 1, residual != 0);
    problem.kernel_size = {1, 1, 1, 1};
    problem.input_type = DType::S8;
    if (residual != 0) problem.residual_type = DType::U8;
    TensorScales scales;
    const double unit = residual == 0 ? 1 / start : 1;
    scales.input.assign(static_cast<std::size_t>(kInputs), unit);
    scales.residual = residual, scales.output = unit;
    std::vector<float> weight(static_cast<std::size_t>(kInputs), 127.0f);
    weight.back() = 38;
    const float shift = residual == 0 ? sign : 0;
    llvm::Expected<QuantizedParameters> result = quantize(problem, weight, {}, {shift}, scales);
    return result ? std::string() : take_status(result.takeError()).message();
  };
  EXPECT_EQ(message_of(536869120, 1, 0), "");
  EXPECT_EQ(message_of(536869130, -1, 0), "") << "fp32 rounds it to 536869120";
  EXPECT_THAT(message_of(536869138, 1, 0), HasSubstr("2147483660"));
  EXPECT_THAT(message_of(536869138, -1, 0), HasSubstr("2147483660"));
  // 255 times the first factor is 536869133.25, but fp32 holds 2105369.25 and rounds 255 times it.
  EXPECT_THAT(message_of(0, 1, 2105369.15), HasSubstr("2147483660"));
  EXPECT_EQ(message_of(0, 1, 2105369.0), "");
}

/// The host's image of 8-bit weights is every weight in its place.
TEST(QuantizedWeights, HaveImages) {
  for (const auto& [unit, step] : {std::pair{MmaUnit::Warp, 64},
                                   {MmaUnit::Warpgroup, 64},
                                   {MmaUnit::Warpgroup, 96},
                                   {MmaUnit::Warp, 32}}) {
    const FusedImage layout{DType::S8, 33, 20, 3, step, 32, unit};
    std::vector<float> weight(static_cast<std::size_t>(3 * 33 * 20));
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = static_cast<float>(static_cast<int>(i % 255) - 127);
    const WeightImage image{DType::S8, static_cast<i64>(weight.size()), layout};
    std::vector<char> bytes(static_cast<std::size_t>(image.bytes()), 'x');
    image.write(weight, bytes.data());
    std::size_t found = 0;
    for (i64 i = 0; i < image.bytes(); ++i) {
      const i64 source = fused_weight_of(layout, i);
      const float wanted = source < 0 ? 0 : weight[static_cast<std::size_t>(source)];
      ASSERT_EQ(static_cast<float>(static_cast<signed char>(bytes[static_cast<std::size_t>(i)])), wanted)
          << i;
      found += source >= 0 ? 1 : 0;
    }
    EXPECT_EQ(found, weight.size());
  }
}

}  // namespace
}  // namespace minuet
