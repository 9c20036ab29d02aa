#include "runtime/cuda/ops/convolution_fused.h"

#include "kernels_templates/shared/fused_image.h"

namespace minuet {
namespace {

template <class T>
void advance(T*& pointer, i64 bytes) {
  if (pointer == nullptr) return;
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  pointer = reinterpret_cast<T*>(reinterpret_cast<Byte*>(pointer) + bytes);
}

/// Moves the pointers of a launch to the channels of the next launch of the same layer.
void advance_channels(const FusedSpec& spec, FusedParams& params) {
  const auto bytes = [](i64 channels, DType type) { return channels * dtype_bytes(type); };
  const i64 out = spec.out_channels, numbers = out * static_cast<i64>(sizeof(float));
  advance(params.input, bytes(spec.in_channels, spec.io));
  advance(params.weights, fused_image_bytes(spec));
  advance(params.residual, bytes(out, fused_residual_type(spec)));
  advance(params.output, bytes(out, fused_output_type(spec)));
  advance(params.second.output, bytes(out, fused_second_type(spec)));
  for (const float** const each :
       {&params.scale, &params.shift, &params.residual_factor, &params.second.scale, &params.second.shift}) {
    advance(*each, numbers);
  }
}

}  // namespace

llvm::Expected<i32> FusedStep::add(const OpChoice& chosen) {
  const FusedChoice& choice = chosen.get<FusedChoice>();
  MINUET_ASSIGN(const Kernel<FusedParams> kernel, launcher_.device().kernel(choice.fused));
  layers_.push_back({choice.problem, choice.fused, launches_of(choice), kernel});
  return static_cast<i32>(layers_.size()) - 1;
}

llvm::Error FusedStep::run(i32 op, const OpRequest& given) {
  const auto& request = static_cast<const NeighbourRequest&>(given);
  MINUET_TRY(launcher_.mark(Stage::Gemm));
  if (request.output_rows <= 0) return llvm::Error::success();
  const Layer& layer = layers_[op];
  const ConvolutionWeights weights(layer.problem, request.parameters);
  const NeighbourView& view = request.view;
  const bool ordered = view.ordered_rows != nullptr;
  FusedParams params = {};
  params.input = request.input;
  params.input_ld = static_cast<i32>(request.input_ld);
  params.rows = ordered ? view.ordered_rows : view.rows;
  params.masks = ordered ? view.ordered_masks : view.masks;
  params.row_stride =
      static_cast<i32>(ordered ? ordered_row_stride(request.output_rows) : request.output_rows);
  params.order = view.order;
  params.ordered_views = ordered ? 1 : 0;
  const i32 which = block_order_of(layer.spec);
  if (ordered && which >= 0 && view.block_orders != nullptr)
    params.block_order = view.block_orders + block_order_begin(request.output_rows, which);
  params.query_count = request.output_count;
  params.padded_rows = request.pads_output ? request.output_rows : 0;
  params.weights = weights.weight;
  params.scale = weights.scale;
  params.shift = weights.shift;
  params.residual_factor = weights.residual_factor;
  params.residual = request.residual;
  params.residual_ld = static_cast<i32>(request.residual_ld);
  params.output = request.output;
  params.output_ld = static_cast<i32>(request.output_ld);
  params.overflow = request.overflow;
  params.overflow_mark = request.overflow_mark;
  params.slope = layer.problem.slope;
  params.output_factor = layer.problem.output_factor;
  params.second_factor = layer.problem.second_factor;
  params.second = second_output_of(layer.problem, weights, request);
  if (layer.spec.shortcut) {
    params.shortcut = {static_cast<u32>(fused_blocks(layer.spec, request.output_rows)),
                       weights.shortcut_weight,
                       weights.shortcut_scale,
                       weights.shortcut_shift,
                       request.covered[0].output,
                       static_cast<i32>(request.covered[0].output_ld),
                       request.covered[0].overflow};
  }
  const i64 grid = layer.spec.persistent
                       ? fused_persistent_grid(layer.spec, request.output_rows, launcher_.multiprocessors())
                       : fused_grid(layer.spec, request.output_rows);
  for (i32 launch = 0; launch < layer.launches; ++launch) {
    if (launch > 0) advance_channels(layer.spec, params);
    params.reads_early = launcher_.may_read_early() ? 1 : 0;
    MINUET_TRY(launcher_.launch(layer.kernel, grid, params));
    launcher_.allow_early_reads();
  }
  return llvm::Error::success();
}

}  // namespace minuet
