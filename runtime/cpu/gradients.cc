#include "runtime/cpu/gradients.h"

#include <algorithm>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// A task sums the products of this many input channels, in chunks of kChunkPairs pairs.
constexpr i64 kTaskInputs = 64;
constexpr i64 kChunkPairs = 256;

/// Divides the scratch memory of one task into arrays of fp32 numbers.
struct GradientScratch {
  float *input, *inputs, *gradients, *products, *sums;
  i64 words;

  GradientScratch(i64 task_inputs, i64 group_outputs, float* base) {
    i64 used = 0;
    const auto take = [&](i64 count) {
      float* const part = base ? base + used : nullptr;
      used += (count + 15) / 16 * 16;
      return part;
    };
    input = take(task_inputs);                      // Holds one row, before it becomes a column of `inputs`.
    inputs = take(task_inputs * kChunkPairs);       // The shape is [inputs][kChunkPairs].
    gradients = take(kChunkPairs * group_outputs);  // The shape is [pairs][outputs].
    products = take(task_inputs * group_outputs);
    sums = take(task_inputs * group_outputs);
    words = used;
  }
};

/// Divides the workspace: the first pair of each offset, the scratch memory of all threads, and the sums of
/// one row of the output's gradient in fp32.
struct CpuGradientPlaces {
  i64* first_pair = nullptr;
  float *scratch = nullptr, *row = nullptr;
  i64 task_words = 0, bytes = 0;

  CpuGradientPlaces(const ParameterGradientChoice& choice, i64 threads, char* base) {
    const ConvolutionProblem& forward = choice.problem.forward;
    Placement parts(base, /*idle=*/false);
    if (choice.problem.weight) {
      first_pair = parts.take<i64>(kernel_volume(forward) + 1);
      task_words = GradientScratch(std::min<i64>(group_inputs(forward), kTaskInputs),
                                   forward.out_channels / forward.groups, nullptr)
                       .words;
      scratch = parts.take<float>(threads * task_words);
    }
    if (choice.problem.bias) {
      row = parts.take<float>(3 * i64{forward.out_channels});
    }
    bytes = parts.bytes();
  }
};

/// Says which rows and channels a task multiplies.
struct GradientTask {
  const ParameterGradientRequest& request;
  const VectorKernels& kernels;
  i64 first_pair, end_pair;
  i64 first_input, inputs, first_output, outputs;  // Are channels of the tensors.

  const ConvolutionProblem& forward() const { return request.choice->problem.forward; }
  const char* at(const void* rows, i64 row, i64 ld, i64 channel) const {
    return static_cast<const char*>(rows) + (row * ld + channel) * dtype_bytes(forward().dtype);
  }
};

/// Reads the rows of pairs from `first` on, and returns their number.
i64 read_chunk(const GradientTask& task, i64 first, const GradientScratch& scratch) {
  const ParameterGradientRequest& request = task.request;
  const i64 end = std::min(task.end_pair, first + kChunkPairs);
  i64 found = 0;
  for (i64 pair = first; pair < end; ++pair) {
    const i32* const rows = request.list.pairs + 3 * pair + 1;
    const i64 input = rows[request.is_swapped ? 1 : 0], output = rows[request.is_swapped ? 0 : 1];
    if (input < 0 || input >= request.input_rows || output < 0 || output >= request.gradient_rows) continue;
    const DType dtype = task.forward().dtype;
    task.kernels.widen(dtype, task.at(request.input, input, request.input_ld, task.first_input),
                       scratch.input, task.inputs);
    for (i64 i = 0; i < task.inputs; ++i) scratch.inputs[i * kChunkPairs + found] = scratch.input[i];
    task.kernels.widen(dtype, task.at(request.gradient, output, request.gradient_ld, task.first_output),
                       scratch.gradients + found * task.outputs, task.outputs);
    ++found;
  }
  return found;
}

void sum_pairs(const GradientTask& task, const GradientScratch& scratch) {
  const i64 numbers = task.inputs * task.outputs;
  std::fill_n(scratch.sums, numbers, 0.0f);
  for (i64 first = task.first_pair; first < task.end_pair; first += kChunkPairs) {
    const i64 pairs = read_chunk(task, first, scratch);
    if (pairs == 0) continue;
    task.kernels.gemm(scratch.inputs, kChunkPairs, scratch.gradients, scratch.products, task.inputs, pairs,
                      task.outputs);
    task.kernels.add(scratch.products, scratch.sums, numbers);
  }
}

void store_sums(const GradientTask& task, i64 offset, const float* sums) {
  const ParameterGradientRequest& request = task.request;
  const AxisArray taps = taps_of(task.forward());
  float* target = request.weight_gradient;
  for (i32 a = task.forward().ndim - 1; a >= 0; --a) {
    target += offset % taps[a] * request.offset_strides[a];
    offset /= taps[a];
  }
  for (i64 i = 0; i < task.inputs; ++i) {
    const i64 input = (task.first_input + i) % group_inputs(task.forward());
    for (i64 o = 0; o < task.outputs; ++o) {
      float& weight = target[input * request.input_stride + (task.first_output + o) * request.output_stride];
      const float sum = sums[i * task.outputs + o];
      weight = request.adds ? weight + sum : sum;
    }
  }
}

}  // namespace

i64 CpuGradients::workspace_bytes(const ParameterGradientChoice& choice, i64 /*most_pairs*/,
                                  i64 /*most_rows*/) const {
  return CpuGradientPlaces(choice, pool_.threads(), nullptr).bytes;
}

void CpuGradients::compute_weight(const ParameterGradientRequest& request) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  const CpuGradientPlaces places(*request.choice, pool_.threads(), static_cast<char*>(request.workspace));
  const i64 volume = kernel_volume(forward), pairs = pairs_in(request.list);
  // Finds the first pair of each offset by bisection.
  for (i64 k = 0, first = 0; k <= volume; ++k) {
    i64 end = pairs;
    while (first < end) {
      const i64 middle = first + (end - first) / 2;
      if (request.list.pairs[3 * middle] < k) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    places.first_pair[k] = first;
  }
  const i64 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  const i64 step = std::min(inputs, kTaskInputs), blocks = (inputs + step - 1) / step;
  pool_.run(volume * forward.groups * blocks, [&](i64 number, i32 slot) {
    const i64 offset = number / (forward.groups * blocks), group = number / blocks % forward.groups;
    const i64 first = number % blocks * step;
    const GradientTask task{request,
                            kernels_,
                            places.first_pair[offset],
                            places.first_pair[offset + 1],
                            group * inputs + first,
                            std::min(step, inputs - first),
                            group * outputs,
                            outputs};
    const GradientScratch scratch(step, outputs, places.scratch + slot * places.task_words);
    sum_pairs(task, scratch);
    store_sums(task, offset, scratch.sums);
  });
}

void CpuGradients::compute_bias(const ParameterGradientRequest& request) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  const CpuGradientPlaces places(*request.choice, pool_.threads(), static_cast<char*>(request.workspace));
  const i64 channels = forward.out_channels, bytes = dtype_bytes(forward.dtype);
  float *const row = places.row, *const piece = row + channels, *const sums = piece + channels;
  const i64 rows = count_within(request.gradient_count, request.gradient_rows);
  std::fill_n(sums, channels, 0.0f);
  for (i64 first = 0; first < rows; first += kRowsPerPiece) {
    std::fill_n(piece, channels, 0.0f);
    for (i64 r = first; r < std::min(rows, first + kRowsPerPiece); ++r) {
      kernels_.widen(storage_type(forward.dtype),
                     static_cast<const char*>(request.gradient) + r * request.gradient_ld * bytes, row,
                     channels);
      kernels_.add(row, piece, channels);
    }
    kernels_.add(piece, sums, channels);
  }
  for (i64 c = 0; c < channels; ++c) {
    request.bias_gradient[c] = request.adds ? request.bias_gradient[c] + sums[c] : sums[c];
  }
}

llvm::Error CpuGradients::compute(const ParameterGradientRequest& request) {
  if (request.choice->problem.weight) compute_weight(request);
  if (request.choice->problem.bias) compute_bias(request);
  return llvm::Error::success();
}

}  // namespace minuet
