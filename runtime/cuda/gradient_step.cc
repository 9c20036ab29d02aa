#include "runtime/cuda/gradient_step.h"

#include <algorithm>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Limits the grid of the kernels that sum parts. Blocks of a larger number of parts process several.
constexpr i64 kMostGradientBlocks = 1 << 16;

/// Divides the workspace.
struct GradientPlaces {
  i32 *first_pair = nullptr, *first_step = nullptr;
  float *parts = nullptr, *pieces = nullptr;
  i64 bytes = 0;

  GradientPlaces(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows, char* base) {
    const ConvolutionProblem& forward = choice.problem.forward;
    // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
    Placement places(base, /*idle=*/false);
    if (choice.problem.weight) {
      const i64 volume = kernel_volume(forward);
      first_pair = places.take<i32>(volume + 1);
      first_step = places.take<i32>(volume + 2);
      parts = places.take<float>((choice.most_parts(most_pairs) + volume) * choice.layout.elements);
    }
    if (choice.problem.bias) pieces = places.take<float>(row_pieces(most_rows) * forward.out_channels);
    bytes = places.bytes();
  }
};

GradientPlaces places_of(const ParameterGradientRequest& request) {
  return {*request.choice, request.list.most, request.gradient_rows, static_cast<char*>(request.workspace)};
}

WeightGradientParams params_of(const ParameterGradientRequest& request, const GradientPlaces& places) {
  const ParameterGradientChoice& choice = *request.choice;
  const ConvolutionProblem& forward = choice.problem.forward;
  WeightGradientParams params = {};
  params.pairs = request.list.pairs;
  params.input_column = request.is_swapped ? 2 : 1;
  params.first_pair = places.first_pair, params.first_step = places.first_step;
  params.volume = static_cast<i32>(kernel_volume(forward));
  params.groups = forward.groups;
  params.group_inputs = group_inputs(forward);
  params.group_outputs = forward.out_channels / forward.groups;
  params.tiles_in = choice.tiles_in, params.tiles_out = choice.tiles_out;
  params.input = request.input;
  params.input_rows = request.input_rows, params.input_ld = request.input_ld;
  params.gradient = request.gradient;
  params.gradient_rows = request.gradient_rows, params.gradient_ld = request.gradient_ld;
  params.layout = choice.layout;
  params.sums = places.parts;
  return params;
}

AddPartsParams add_params_of(const ParameterGradientRequest& request, const GradientPlaces& places) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  AddPartsParams params = {};
  params.first_step = places.first_step;
  params.volume = static_cast<i32>(kernel_volume(forward));
  params.inputs = group_inputs(forward), params.outputs = forward.out_channels;
  params.layout = request.choice->layout;
  params.sums = places.parts;
  params.weight_gradient = request.weight_gradient;
  params.ndim = forward.ndim;
  const AxisArray taps = taps_of(forward);
  std::copy(taps.begin(), taps.end(), params.kernel_size);
  std::copy_n(request.offset_strides, kMaxDim, params.offset_strides);
  params.input_stride = request.input_stride, params.output_stride = request.output_stride;
  params.adds = request.adds ? 1 : 0;
  return params;
}

}  // namespace

i64 gradient_workspace_bytes(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows) {
  return GradientPlaces(choice, most_pairs, most_rows, nullptr).bytes;
}

llvm::Error GradientStep::compute_weight(const ParameterGradientRequest& request) {
  const ParameterGradientChoice& choice = *request.choice;
  const GradientPlaces places = places_of(request);
  MINUET_ASSIGN(const Kernel<ListStepsParams> list, list_.find(launcher_, choice.list));
  MINUET_ASSIGN(const Kernel<AddPartsParams> add, add_.find(launcher_, choice.add));
  const WeightGradientParams params = params_of(request, places);
  const ListStepsParams steps{request.list, params.volume, choice.wanted_parts, places.first_pair,
                              places.first_step};
  MINUET_TRY(launcher_.launch(list, 1, steps));
  const i64 most = std::max<i64>(kMostGradientBlocks / choice.tiles, 1);
  const i64 walkers = std::clamp<i64>(choice.most_parts(request.list.most), 1, most);
  if (choice.tensor) {
    MINUET_ASSIGN(const Kernel<WeightGradientParams> kernel, tensor_.find(launcher_, *choice.tensor));
    MINUET_TRY(launcher_.launch(kernel, walkers * choice.tiles, params));
  } else {
    MINUET_ASSIGN(const Kernel<WeightGradientParams> kernel, scalar_.find(launcher_, choice.scalar));
    MINUET_TRY(launcher_.launch(kernel, walkers * choice.tiles, params));
  }
  const i64 weights = weight_numbers(choice.problem.forward);
  return launcher_.launch_stride(add, weights * choice.add.split, add_params_of(request, places));
}

llvm::Error GradientStep::compute_bias(const ParameterGradientRequest& request) {
  const ParameterGradientChoice& choice = *request.choice;
  const i32 channels = choice.problem.forward.out_channels;
  MINUET_ASSIGN(const Kernel<SumRowsParams> rows, rows_.find(launcher_, choice.rows));
  MINUET_ASSIGN(const Kernel<SumRowsParams> row_sums, row_sums_.find(launcher_, choice.row_sums));
  SumRowsParams params = {};
  params.gradient = request.gradient;
  params.rows = request.gradient_rows, params.ld = request.gradient_ld;
  params.count = request.gradient_count;
  params.channels = channels;
  params.sums = places_of(request).pieces;
  params.bias_gradient = request.bias_gradient;
  params.adds = request.adds ? 1 : 0;
  const i64 items = row_pieces(params.rows) * ceil_div(channels, choice.rows.columns);
  MINUET_TRY(launcher_.launch_stride(rows, items * choice.rows.threads, params));
  return launcher_.launch_stride(row_sums, i64{channels} * choice.row_sums.threads, params);
}

llvm::Error GradientStep::compute(const ParameterGradientRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  if (request.choice->problem.weight) MINUET_TRY(compute_weight(request));
  if (request.choice->problem.bias) MINUET_TRY(compute_bias(request));
  return llvm::Error::success();
}

}  // namespace minuet
