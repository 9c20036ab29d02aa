#include "runtime/cuda/gradient_step.h"

#include <algorithm>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Limits the grid of the kernels that sum parts. Blocks of a larger number of parts process several.
constexpr i64 kMostGradientBlocks = 1 << 16;
/// Limits the grid of the kernel add_parts on a branch. Half as many blocks as fit at once leave room for the
/// kernels beside the branch.
constexpr i64 kBranchAddBlocks = kAddBlocks / 2;

/// Divides the workspace.
struct GradientPlaces {
  i32* steps = nullptr;
  float *parts = nullptr, *pieces = nullptr;
  i64 bytes = 0;

  GradientPlaces(const ParameterGradientChoice& choice, const WeightGradientCandidate& candidate,
                 i64 most_pairs, i64 most_rows, char* base) {
    const ConvolutionProblem& forward = choice.problem.forward;
    // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
    Placement places(base, /*idle=*/false);
    if (choice.problem.weight) {
      const i64 volume = kernel_volume(forward);
      steps = places.take<i32>(gradient_step_words(volume));
      parts =
          places.take<float>((candidate.most_parts(most_pairs, volume) + volume) * candidate.layout.elements);
    }
    if (choice.problem.bias) pieces = places.take<float>(row_pieces(most_rows) * forward.out_channels);
    bytes = places.bytes();
  }
};

/// Returns where list_steps() stores the first step of each offset. The first pairs are in front.
i32* first_steps(i32* steps, i64 volume) { return steps + volume + 1; }

WeightGradientParams params_of(const ParameterGradientRequest& request,
                               const WeightGradientCandidate& candidate, i32* steps, float* sums) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  WeightGradientParams params = {};
  params.pairs = request.list.pairs;
  params.input_column = request.is_swapped ? 2 : 1;
  params.volume = static_cast<i32>(kernel_volume(forward));
  params.first_pair = steps, params.first_step = first_steps(steps, params.volume);
  params.wanted_parts = candidate.wanted_parts;
  params.groups = forward.groups;
  params.group_inputs = group_inputs(forward);
  params.group_outputs = forward.out_channels / forward.groups;
  params.tiles_in = candidate.tiles_in, params.tiles_out = candidate.tiles_out;
  params.input = request.input;
  params.input_rows = request.input_rows, params.input_ld = request.input_ld;
  params.gradient = request.gradient;
  params.gradient_rows = request.gradient_rows, params.gradient_ld = request.gradient_ld;
  params.layout = candidate.layout;
  params.sums = sums;
  return params;
}

/// Sets where the kernel add_parts stores the gradients of the weights.
void set_strides(AddPartsParams& params, const ParameterGradientRequest& request) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  const AxisArray taps = taps_of(forward);
  for (i32 a = 0; a < forward.ndim; ++a) {
    if (taps[a] == 1) continue;
    const i64 stride = request.offset_strides[a];
    if (params.axes > 0 && params.axis_strides[params.axes - 1] == taps[a] * stride) {
      params.axis_sizes[params.axes - 1] *= taps[a];
      params.axis_strides[params.axes - 1] = stride;
    } else {
      params.axis_sizes[params.axes] = taps[a];
      params.axis_strides[params.axes++] = stride;
    }
  }
  params.input_stride = request.input_stride, params.output_stride = request.output_stride;
  const auto is_aligned = [](auto number, i64 step) { return static_cast<i64>(number) % step == 0; };
  bool stores_vectors = params.output_stride == 1 && is_aligned(params.input_stride, 4) &&
                        is_aligned(reinterpret_cast<std::uintptr_t>(request.weight_gradient), kWidestAccess);
  for (i32 a = 0; a < params.axes; ++a) stores_vectors &= is_aligned(params.axis_strides[a], 4);
  params.stores_vectors = stores_vectors ? 1 : 0;
}

AddPartsParams add_params_of(const ParameterGradientRequest& request,
                             const WeightGradientCandidate& candidate, i32* steps, const float* sums) {
  const ConvolutionProblem& forward = request.choice->problem.forward;
  AddPartsParams params = {};
  params.volume = static_cast<i32>(kernel_volume(forward));
  params.first_step = first_steps(steps, params.volume);
  params.wanted_parts = candidate.wanted_parts;
  params.inputs = group_inputs(forward), params.outputs = forward.out_channels;
  params.layout = candidate.layout;
  params.sums = sums;
  params.weight_gradient = request.weight_gradient;
  set_strides(params, request);
  params.adds = request.adds ? 1 : 0;
  return params;
}

GradientPlaces places_of(const ParameterGradientRequest& request, const WeightGradientCandidate& candidate) {
  return {*request.choice, candidate, request.list.most, request.gradient_rows,
          static_cast<char*>(request.workspace)};
}

}  // namespace

i64 gradient_workspace_bytes(const ParameterGradientChoice& choice, llvm::StringRef arch, i64 most_pairs,
                             i64 most_rows) {
  // The size must grow with the numbers, so it suffices for the candidates of smaller numbers, too.
  i64 bytes = 0;
  for (const WeightGradientCandidate& candidate : choice.candidates) {
    if (!candidate.runs_on(arch) || !candidate.may_serve(most_pairs, most_rows)) continue;
    bytes = std::max(bytes, GradientPlaces(choice, candidate, most_pairs, most_rows, nullptr).bytes);
    if (candidate.is_last()) break;
  }
  return bytes;
}

llvm::StringRef GradientStep::arch() const { return launcher_.device().info().arch; }

llvm::Expected<Kernel<WeightGradientParams>> GradientStep::find(const WeightGradientCandidate::Spec& spec) {
  if (const auto* const warpgroups = std::get_if<WarpgroupGradientSpec>(&spec))
    return warpgroups_.find(launcher_, *warpgroups);
  if (const auto* const tensor = std::get_if<WeightGradientSpec>(&spec))
    return tensor_.find(launcher_, *tensor);
  return scalar_.find(launcher_, std::get<WeightGradientScalarSpec>(spec));
}

llvm::Error GradientStep::list_steps(llvm::ArrayRef<PairStepsRequest> requests) {
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  MINUET_ASSIGN(const Kernel<ListStepsParams> list, list_.find(launcher_, kListSteps));
  for (; !requests.empty();
       requests = requests.drop_front(std::min<std::size_t>(requests.size(), kMostStepLists))) {
    ListStepsParams params = {};
    i64 count = 0;
    for (const PairStepsRequest& request : requests.take_front(kMostStepLists)) {
      params.lists[count++] = {request.list, static_cast<i32>(request.volume), request.steps,
                               first_steps(request.steps, request.volume)};
    }
    MINUET_TRY(launcher_.launch(list, count, params));
  }
  has_followed_ = false;
  return llvm::Error::success();
}

llvm::Error GradientStep::compute_weight(const ParameterGradientRequest& request) {
  const ParameterGradientChoice& choice = *request.choice;
  const WeightGradientCandidate& candidate =
      choice.candidate(arch(), request.list.most, request.gradient_rows);
  const GradientPlaces places = places_of(request, candidate);
  MINUET_ASSIGN(const Kernel<AddPartsParams> add, add_.find(launcher_, candidate.add));
  MINUET_ASSIGN(const Kernel<WeightGradientParams> kernel, find(candidate.spec));
  i32* const steps = request.steps ? request.steps : places.steps;
  WeightGradientParams params = params_of(request, candidate, steps, places.parts);
  params.reads_early = !request.steps || !has_followed_ ? 0 : launcher_.may_read_rows_early() ? 2 : 1;
  if (!request.steps) MINUET_TRY(list_steps(PairStepsRequest{request.list, params.volume, steps}));
  const i64 most = std::max<i64>(kMostGradientBlocks / candidate.tiles, 1);
  const i64 walkers = std::clamp<i64>(candidate.most_parts(request.list.most, params.volume), 1, most);
  MINUET_TRY(launcher_.launch(kernel, walkers * candidate.tiles, params));
  has_followed_ = true;
  const i64 of_offset = weight_numbers(choice.problem.forward) / params.volume;
  const i64 blocks = most_add_blocks(candidate.add, params.volume, of_offset, candidate.wanted_parts);
  // The blocks stay on the GPU, because each of them finds the parts of the offsets once.
  const i64 at_once = (launcher_.on_branch() ? kBranchAddBlocks : kAddBlocks) * launcher_.multiprocessors();
  return launcher_.launch(add, std::min(blocks, at_once),
                          add_params_of(request, candidate, steps, places.parts));
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
  params.sums = places_of(request, choice.candidate(arch(), request.list.most, request.gradient_rows)).pieces;
  params.bias_gradient = request.bias_gradient;
  params.adds = request.adds ? 1 : 0;
  const i64 items = row_pieces(params.rows) * ceil_div(channels, choice.rows.columns);
  MINUET_TRY(launcher_.launch_stride(rows, items * choice.rows.threads, params));
  return launcher_.launch_stride(row_sums, i64{channels} * choice.row_sums.threads, params);
}

llvm::Error GradientStep::compute(const ParameterGradientRequest& request) {
  launcher_.profiler().set_op(request.timed_op);
  const auto end = llvm::make_scope_exit([&] { launcher_.profiler().set_op(-1); });
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  if (request.choice->problem.weight) MINUET_TRY(compute_weight(request));
  if (request.choice->problem.bias) MINUET_TRY(compute_bias(request));
  launcher_.allow_early_rows();
  return llvm::Error::success();
}

}  // namespace minuet
