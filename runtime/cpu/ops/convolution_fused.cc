#include "runtime/cpu/ops/convolution_fused.h"

#include <algorithm>
#include <cstring>

namespace minuet {
namespace {

// The input, product and sum rows of one task of the thread pool take about 384 KiB.
constexpr i64 kFusedTaskWords = 96 * 1024;

/// Returns how many output rows one task of the thread pool computes. The number depends on the problem
/// alone, so that results do not depend on the number of threads.
i64 task_rows(const ConvolutionProblem& problem) {
  return std::clamp<i64>(kFusedTaskWords / (problem.in_channels + 2 * problem.out_channels) / 16 * 16, 16,
                         1024);
}

/// Divides the scratch memory of one task into arrays.
struct TaskScratch {
  float *inputs, *products, *sums, *residual;
  /// Holds, for each row of `products`, the number of the row of `sums` that it is added to.
  i32* targets;

  TaskScratch(const ConvolutionProblem& problem, float* words) {
    const i64 rows = task_rows(problem);
    inputs = words;
    products = inputs + rows * problem.in_channels;
    sums = products + rows * problem.out_channels;
    residual = sums + rows * problem.out_channels;
    targets = reinterpret_cast<i32*>(residual + problem.out_channels);
  }
};

/// Widens the input rows that the output rows [first, end) read at one kernel offset to fp32, and returns
/// their number. `rows` holds the input row of each output row at this offset, or -1 if there is none. It is
/// null if each row is its own neighbour.
i64 gather_offset(const CpuConvolution& call, const i32* rows, i64 first, i64 end,
                  const TaskScratch& scratch) {
  const OpRequest& request = call.request;
  const i64 channels = call.problem.in_channels;
  i64 found = 0;
  for (i64 r = first; r < end; ++r) {
    const i64 source = rows ? rows[r] : r;
    if (source < 0) continue;
    call.kernels.widen(call.problem.dtype,
                       row_at(request.input, source, request.input_ld, call.problem.dtype),
                       scratch.inputs + found * channels, channels);
    scratch.targets[found++] = static_cast<i32>(r - first);
  }
  return found;
}

/// Multiplies `rows` input rows by the weights [in_channels / groups, out_channels] of one offset, group by
/// group.
void multiply_groups(const ConvolutionProblem& problem, const float* inputs, const float* weight,
                     float* products, i64 rows) {
  const i64 in = problem.in_channels / problem.groups, out = problem.out_channels / problem.groups;
  std::fill_n(products, rows * problem.out_channels, 0.0f);
  for (i64 row = 0; row < rows; ++row) {
    for (i64 c = 0; c < problem.in_channels; ++c) {
      const float x = inputs[row * problem.in_channels + c];
      const i64 group = c / in, first = group * out;
      const float* const factors = weight + c % in * problem.out_channels + first;
      float* const sums = products + row * problem.out_channels + first;
      for (i64 o = 0; o < out; ++o) sums[o] += x * factors[o];
    }
  }
}

/// Sets the output rows from `rows` on to zero if the request asks for it.
void pad_rows(const CpuConvolution& call, i64 rows) {
  const OpRequest& request = call.request;
  if (!request.pads_output) return;
  const i64 element = dtype_bytes(output_type_of(call.problem));
  const i64 second_element = dtype_bytes(second_type_of(call.problem)), channels = call.problem.out_channels;
  const SecondOutput second = second_output_of(call.problem, call.weights, request);
  for (i64 r = rows; r < request.output_rows; ++r) {
    std::memset(static_cast<char*>(request.output) + r * request.output_ld * element, 0,
                static_cast<std::size_t>(channels * element));
    if (second.output == nullptr) continue;
    std::memset(static_cast<char*>(second.output) + r * second.output_ld * second_element, 0,
                static_cast<std::size_t>(channels * second_element));
  }
}

/// Computes the output rows [first, end) of a convolution with 8-bit inputs. `rows` is that of fused_cpu().
/// The sums are exact, so every order of the products gives the same result.
void sum_integer_rows(const CpuConvolution& call, const i32* rows, i64 first, i64 end,
                      const TaskScratch& scratch) {
  const ConvolutionProblem& problem = call.problem;
  const i64 in = problem.in_channels, out = problem.out_channels, volume = kernel_volume(problem);
  const i64 count = *call.request.output_count;
  const auto* const weights = static_cast<const signed char*>(call.weights.weight);
  auto* const sums = reinterpret_cast<i32*>(scratch.sums);
  std::fill_n(sums, (end - first) * out, 0);
  // The weights of an offset stay in the nearest caches while all rows of the task are multiplied by them.
  for (i64 k = 0; k < volume; ++k) {
    for (i64 r = first; r < end; ++r) {
      const i64 source = rows ? rows[k * count + r] : r;
      if (source < 0) continue;
      call.kernels.add_integers(
          *problem.input_type, row_at(call.request.input, source, call.request.input_ld, *problem.input_type),
          weights + k * in * out, sums + (r - first) * out, in, out);
    }
  }
  for (i64 r = first; r < end; ++r) finish_integer_row(call, r, sums + (r - first) * out, scratch.residual);
}

}  // namespace

i64 fused_scratch_words(const ConvolutionProblem& problem) {
  const i64 rows = task_rows(problem);
  const i64 words = rows * (problem.in_channels + 2 * i64{problem.out_channels} + 1) + problem.out_channels;
  return (words + 63) / 64 * 64;
}

void fused_cpu(const CpuConvolution& call, const i32* neighbours) {
  const i64 in = call.problem.in_channels, out = call.problem.out_channels;
  const i64 rows = *call.request.output_count, step = task_rows(call.problem);
  const i64 volume = kernel_volume(call.problem);
  const i64 weights = in / call.problem.groups * out;  // Counts the weights of one offset.
  const float* const weight = static_cast<const float*>(call.weights.weight);
  call.pool.run((rows + step - 1) / step, [&](i64 task, i32 slot) {
    const i64 first = task * step, end = std::min(rows, first + step);
    const TaskScratch scratch(call.problem, call.scratch + slot * call.scratch_words);
    if (call.problem.input_type) return sum_integer_rows(call, neighbours, first, end, scratch);
    std::fill_n(scratch.sums, (end - first) * out, 0.0f);
    // Every output row sums the products of its offsets in this order.
    for (i64 k = 0; k < volume; ++k) {
      const i64 found =
          gather_offset(call, neighbours ? neighbours + k * rows : nullptr, first, end, scratch);
      if (found == 0) continue;
      if (call.problem.groups > 1) {
        multiply_groups(call.problem, scratch.inputs, weight + k * weights, scratch.products, found);
      } else {
        call.kernels.gemm(scratch.inputs, in, weight + k * weights, scratch.products, found, in, out);
      }
      for (i64 i = 0; i < found; ++i) {
        call.kernels.add(scratch.products + i * out, scratch.sums + scratch.targets[i] * out, out);
      }
    }
    for (i64 r = first; r < end; ++r) finish_row(call, r, scratch.sums + (r - first) * out, scratch.residual);
  });
  pad_rows(call, rows);
}

}  // namespace minuet
