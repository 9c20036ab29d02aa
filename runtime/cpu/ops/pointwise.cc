#include "runtime/cpu/ops/pointwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codegen/choose/ops/pointwise.h"
#include "kernels_templates/shared/pointwise_functions.h"
#include "runtime/cpu/activate_row.h"
#include "runtime/cpu/normalize_row.h"
#include "runtime/engine/ops/pointwise.h"

namespace minuet {
namespace {

constexpr i64 kPointwiseRowsPerTask = 256;

/// Replaces the gradient of a normalized row by that of the row `input`, which is normalized on the way.
void apply_layer_norm_gradient(float epsilon, float* input, float* values, i32 count) {
  const auto channels = static_cast<float>(count);
  const float factor = normalize_row(epsilon, input, count);
  const float mean = sum_of(count, [&](i32 c) { return values[c]; }) / channels;
  const float product = sum_of(count, [&](i32 c) { return values[c] * input[c]; }) / channels;
  for (i32 c = 0; c < count; ++c) values[c] = factor * (values[c] - mean - input[c] * product);
}

void apply_softmax_gradient(const float* result, float* values, i32 count) {
  const float sum = sum_of(count, [&](i32 c) { return values[c] * result[c]; });
  for (i32 c = 0; c < count; ++c) values[c] = result[c] * (values[c] - sum);
}

template <Activation A>
void apply_gradient(const float* kept, float slope, float* values, i32 count) {
  for (i32 c = 0; c < count; ++c) values[c] = activation_gradient<A>(values[c], kept[c], slope);
}
void apply_activation_gradient(Activation activation, const float* kept, float slope, float* values,
                               i32 count) {
  switch (activation) {
    case Activation::None:
      return;
    case Activation::ReLU:
      return apply_gradient<Activation::ReLU>(kept, slope, values, count);
    case Activation::LeakyReLU:
      return apply_gradient<Activation::LeakyReLU>(kept, slope, values, count);
    case Activation::Gelu:
      return apply_gradient<Activation::Gelu>(kept, slope, values, count);
    case Activation::GeluTanh:
      return apply_gradient<Activation::GeluTanh>(kept, slope, values, count);
    case Activation::Silu:
      return apply_gradient<Activation::Silu>(kept, slope, values, count);
    case Activation::Sigmoid:
      return apply_gradient<Activation::Sigmoid>(kept, slope, values, count);
    case Activation::Tanh:
      return apply_gradient<Activation::Tanh>(kept, slope, values, count);
  }
}

void apply_softmax(float* values, i32 count) {
  // std::max() returns its first argument if the second one is NaN. The sum finds every NaN of the row.
  float largest = -HUGE_VALF;
  for (i32 c = 0; c < count; ++c) largest = std::max(largest, values[c]);
  for (i32 c = 0; c < count; ++c) values[c] = exponential(values[c] - largest);
  const float factor = 1.0f / sum_of(count, [&](i32 c) { return values[c]; });
  for (i32 c = 0; c < count; ++c) values[c] *= factor;
}

i32 find_largest(const float* values, i32 count) {
  i32 largest = 0;
  for (i32 c = 1; c < count; ++c) {
    if (is_larger(values[c], values[largest])) largest = c;
  }
  return largest;
}

class PointwiseOp final : public CpuOp {
 public:
  explicit PointwiseOp(const PointwiseChoice& choice) : problem_(choice.problem), io_(choice.kernel.io) {}

  /// The scratch memory holds one row of values and one row of an operand.
  i64 scratch_words() const override { return (2 * i64{problem_.channels} + 63) / 64 * 64; }

  llvm::Error run(const CpuCall& call, const OpRequest& request) override {
    call.timed(&StageTimes::gather, [&] {
      const i64 count = *request.output_count, rows = request.pads_output ? request.output_rows : count;
      call.pool.run((rows + kPointwiseRowsPerTask - 1) / kPointwiseRowsPerTask, [&](i64 task, i32 slot) {
        const i64 first = task * kPointwiseRowsPerTask, end = std::min(rows, first + kPointwiseRowsPerTask);
        float* const scratch = call.scratch + slot * call.scratch_words;
        for (i64 row = first; row < std::min(count, end); ++row) run_row(call, request, row, scratch);
        for (i64 row = std::max(count, first); row < end; ++row) pad_row(request, row);
      });
    });
    return llvm::Error::success();
  }

 private:
  void pad_row(const OpRequest& request, i64 row) const {
    if (problem_.is_argmax()) {
      static_cast<i32*>(request.output)[row * request.output_ld] = -1;
    } else {
      const i64 element = dtype_bytes(io_);
      std::memset(static_cast<char*>(request.output) + row * request.output_ld * element, 0,
                  problem_.channels * element);
    }
  }

  /// Converts a row of a matrix to fp32.
  void read_row(const CpuCall& call, const void* matrix, i64 ld, i64 row, float* values) const {
    const char* const from = static_cast<const char*>(matrix) + row * ld * dtype_bytes(io_);
    call.kernels.widen(io_, from, values, problem_.channels);
  }

  void run_row(const CpuCall& call, const OpRequest& request, i64 row, float* values) const {
    const i32 channels = problem_.channels;
    const PointwiseParameters parameters(request.parameters);
    const float *scale = parameters.scale, *shift = parameters.shift;
    const Operand* operand = request.operands.begin();
    float* const other = values + channels;
    read_row(call, request.input, request.input_ld, row, values);
    for (const PointwiseStep& step : problem_.steps) {
      if (reads_operand(step.kind)) {
        read_row(call, operand->data, operand->ld, row, other);
        ++operand;
      }
      if (step.kind == PointwiseKind::Affine) {
        call.kernels.scale_shift(scale, shift, values, channels);
        scale += channels, shift += channels;
      } else {
        apply_step(call, step, other, values);
      }
    }
    bool finite = true;
    if (problem_.is_argmax()) {
      static_cast<i32*>(request.output)[row * request.output_ld] = find_largest(values, channels);
      finite = std::all_of(values, values + channels, [](float value) { return std::isfinite(value); });
    } else {
      char* const to = static_cast<char*>(request.output) + row * request.output_ld * dtype_bytes(io_);
      finite = call.kernels.narrow(io_, values, to, channels);
    }
    if (!finite) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  }

  /// Applies a step without parameters. A row of an operand may be used as scratch memory.
  void apply_step(const CpuCall& call, const PointwiseStep& step, float* operand, float* values) const {
    const i32 channels = problem_.channels;
    if (is_activation(step.kind)) {
      return activate_row(call.kernels, activation_of(step.kind), step.number, values, channels);
    }
    if (is_activation_gradient(step.kind)) {
      return apply_activation_gradient(differentiated_by(step.kind), operand, step.number, values, channels);
    }
    switch (step.kind) {
      case PointwiseKind::Add:
        return call.kernels.add(operand, values, channels);
      case PointwiseKind::Multiply:
        for (i32 c = 0; c < channels; ++c) values[c] *= operand[c];
        return;
      case PointwiseKind::LayerNorm:
        normalize_row(step.number, values, channels);
        return;
      case PointwiseKind::Softmax:
        return apply_softmax(values, channels);
      case PointwiseKind::LayerNormGradient:
        return apply_layer_norm_gradient(step.number, operand, values, channels);
      case PointwiseKind::SoftmaxGradient:
        return apply_softmax_gradient(operand, values, channels);
      default:  // run_row() handles the parameters of an Affine and the result of an Argmax.
        return;
    }
  }

  const PointwiseProblem problem_;
  const DType io_;
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_pointwise_op(const OpChoice& choice) {
  return std::make_unique<PointwiseOp>(choice.get<PointwiseChoice>());
}

}  // namespace minuet
