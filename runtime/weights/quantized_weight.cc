#include "runtime/weights/quantized_weight.h"

#include <algorithm>
#include <cmath>

#include "codegen/base/number_text.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

/// Says why 8 bits cannot hold the parameters, or is empty if they can.
using Reason = std::optional<std::string>;

constexpr double kLargestWeight = largest_integer(DType::S8);
constexpr double kLargestSum = 0x1p31 - 1;
/// The start of a sum, which is the shift and the residual, is at most about this large, because the scale of
/// the weights of a channel is not below start / kLargestStart. Weights that are this much smaller than the
/// shift do not matter, and the start alone cannot overflow.
constexpr double kLargestStart = 0x1p29;
/// The factor of a channel is at least the smallest normal fp32 number. A batch norm that has turned a
/// channel off may need a smaller one. The weights of such a channel are rounded to zero, or its sums are at
/// most 2^31 times this number.
constexpr double kLeastFactor = 0x1p-126;

llvm::Error check_scale(const char* name, double scale) {
  if (std::isfinite(scale) && scale > 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the scale of the {0} is {1:g6}; it must be finite and above 0", name, scale);
}

llvm::Error check_sizes(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight,
                        llvm::ArrayRef<float> scale, llvm::ArrayRef<float> shift,
                        const TensorScales& scales) {
  const auto channels = static_cast<std::size_t>(problem.out_channels);
  const bool fits = weight.size() == static_cast<std::size_t>(weight_numbers(problem)) &&
                    (scale.empty() || scale.size() == channels) &&
                    (shift.empty() || shift.size() == channels) &&
                    scales.input.size() == static_cast<std::size_t>(problem.in_channels) &&
                    (scales.ranges.empty() || scales.ranges.size() == channels);
  if (!fits || !problem.input_type || problem.groups != 1) {
    return make_error(StatusCode::Internal,
                      "the parameters to quantize do not have the sizes of the convolution");
  }
  return llvm::Error::success();
}

/// Quantizes one output channel.
class Channel {
 public:
  Channel(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight, const TensorScales& scales,
          i32 number)
      : problem_(problem), weight_(weight), scales_(scales), number_(number) {}

  llvm::Expected<Reason> quantize(double scale, double shift, QuantizedParameters& result) const {
    const double largest = scales_.ranges.empty() ? largest_weight(scale) : scales_.ranges[number_];
    const double residual = problem_.residual_type ? scales_.residual : 0;
    const double start =
        std::abs(shift) + (problem_.residual_type ? largest_integer(*problem_.residual_type) * residual : 0);
    if (!std::isfinite(largest) || !std::isfinite(start) || largest < 0) {
      return make_error(StatusCode::InvalidArgument,
                        "output channel {0} has a weight, a range or a shift that is not finite", number_);
    }
    const double divisor = problem_.output_type && !scales_output(problem_) ? scales_.output : 1;
    const double chosen = std::max({largest / kLargestWeight, start / kLargestStart, kLeastFactor * divisor});
    const double unit = chosen > 0 ? chosen : 1;  // The product is zero if fp64 cannot hold it either.
    const double sum = write_weights(scale, largest, unit, result.weight);
    const float stored_shift = static_cast<float>(shift / unit),
                stored_residual = static_cast<float>(residual / unit);
    const double bound =
        largest_integer(*problem_.input_type) * sum + largest_start(stored_shift, stored_residual);
    if (bound > kLargestSum) {
      return Reason(
          llvm::formatv("a sum of output channel {0} could reach {1:f0}, and sums of 32-bit integers "
                        "are at most {2:f0}",
                        number_, real(bound), real(kLargestSum))
              .str());
    }
    const double step = unit / divisor;
    result.factor[number_] = static_cast<float>(step);
    result.shift[number_] = stored_shift;
    if (problem_.residual_type) result.residual_factor[number_] = stored_residual;
    if (!std::isfinite(result.factor[number_]) || result.factor[number_] <= 0) {
      return Reason(
          llvm::formatv("the scales of output channel {0} give the factor {1:g6}, which fp32 cannot hold",
                        number_, real(step))
              .str());
    }
    return Reason();
  }

 private:
  /// Returns the largest magnitude of the integer at which the kernel starts a sum. The kernel computes it in
  /// fp32 from the stored numbers, whose rounding adds up to 32 for each of them. The start rises with the
  /// residual, so that it is largest at one end of the residual's range.
  double largest_start(float shift, float residual_factor) const {
    if (!problem_.residual_type) return std::abs(std::nearbyint(static_cast<double>(shift)));
    const auto most = static_cast<float>(largest_integer(*problem_.residual_type));
    const float least = problem_.residual_type == DType::U8 ? 0 : -most;
    const auto start_at = [&](float residual) {
      return std::abs(std::nearbyint(static_cast<double>(std::fma(residual, residual_factor, shift))));
    };
    return std::max(start_at(least), start_at(most));
  }
  /// Calls body(index, value) for each weight of the channel, scaled to the units of the inputs' integers.
  template <class Body>
  void for_each(double scale, const Body& body) const {
    const std::size_t inputs = scales_.input.size(), out = static_cast<std::size_t>(problem_.out_channels);
    for (std::size_t i = 0; i < weight_.size() / out; ++i) {
      const std::size_t index = i * out + static_cast<std::size_t>(number_);
      body(index, static_cast<double>(weight_[index]) * scales_.input[i % inputs] * scale);
    }
  }
  /// Returns the largest magnitude, or a number that is not finite if a weight is not.
  double largest_weight(double scale) const {
    double largest = 0;
    for_each(scale, [&](std::size_t, double value) {
      if (!(std::abs(value) <= largest)) largest = std::abs(value);
    });
    return largest;
  }
  /// Writes the integers of the channel and returns the sum of their magnitudes. Weights above `largest` are
  /// limited to it.
  double write_weights(double scale, double largest, double unit, std::vector<std::int8_t>& target) const {
    double sum = 0;
    for_each(scale, [&](std::size_t index, double value) {
      // The default rounding mode rounds half to even.
      const double rounded = std::nearbyint(std::clamp(value, -largest, largest) / unit);
      target[index] = static_cast<std::int8_t>(rounded);
      sum += std::abs(rounded);
    });
    return sum;
  }

  const ConvolutionProblem& problem_;
  const llvm::ArrayRef<float> weight_;
  const TensorScales& scales_;
  const i32 number_;
};

/// Writes the quantized parameters to `result`, unless there is a reason against them.
llvm::Expected<Reason> quantize_into(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight,
                                     llvm::ArrayRef<float> scale, llvm::ArrayRef<float> shift,
                                     const TensorScales& scales, QuantizedParameters& result) {
  MINUET_TRY(check_sizes(problem, weight, scale, shift, scales));
  for (const double each : scales.input) MINUET_TRY(check_scale("input", each));
  if (problem.residual_type) MINUET_TRY(check_scale("residual", scales.residual));
  if (problem.output_type) MINUET_TRY(check_scale("output", scales.output));
  for (std::size_t i = 0; i < weight.size(); ++i) {
    if (std::isfinite(weight[i])) continue;
    return make_error(StatusCode::InvalidArgument,
                      "a weight of output channel {0} is {1:g6}, which is not finite",
                      i % static_cast<std::size_t>(problem.out_channels), static_cast<double>(weight[i]));
  }
  const auto channels = static_cast<std::size_t>(problem.out_channels);
  result.weight.resize(weight.size());
  result.factor.resize(channels), result.shift.resize(channels);
  if (problem.residual_type) result.residual_factor.resize(channels);
  for (i32 c = 0; c < problem.out_channels; ++c) {
    const auto of = [&](llvm::ArrayRef<float> numbers, double without) {
      return numbers.empty() ? without : static_cast<double>(numbers[static_cast<std::size_t>(c)]);
    };
    MINUET_ASSIGN(Reason reason,
                  Channel(problem, weight, scales, c).quantize(of(scale, 1), of(shift, 0), result));
    if (reason) return reason;
  }
  return Reason();
}

}  // namespace

llvm::Expected<QuantizedParameters> quantize(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight,
                                             llvm::ArrayRef<float> scale, llvm::ArrayRef<float> shift,
                                             const TensorScales& scales) {
  QuantizedParameters result;
  MINUET_ASSIGN(const Reason reason, quantize_into(problem, weight, scale, shift, scales, result));
  if (!reason) return result;
  return make_error(StatusCode::OutOfRange, "{0}: keep the layer in the type of the plan", *reason);
}

llvm::Expected<std::optional<std::string>> keep_floating_reason(const ConvolutionProblem& problem,
                                                                llvm::ArrayRef<float> weight,
                                                                llvm::ArrayRef<float> scale,
                                                                llvm::ArrayRef<float> shift,
                                                                const TensorScales& scales) {
  QuantizedParameters unused;
  return quantize_into(problem, weight, scale, shift, scales, unused);
}

}  // namespace minuet
