#include "runtime/cuda/ops/convolution_fused.h"

namespace minuet {

llvm::Expected<i32> FusedStep::add(const OpChoice& chosen) {
  const FusedChoice& choice = chosen.get<FusedChoice>();
  MINUET_ASSIGN(const Kernel<FusedParams> kernel, launcher_.device().kernel(choice.fused));
  layers_.push_back({choice.problem, choice.fused, kernel});
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
  params.row_stride = static_cast<i32>(request.output_rows);
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
  params.residual = request.residual;
  params.residual_ld = static_cast<i32>(request.residual_ld);
  params.output = request.output;
  params.output_ld = static_cast<i32>(request.output_ld);
  params.overflow = request.overflow;
  params.overflow_mark = request.overflow_mark;
  params.slope = layer.problem.slope;
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
  return launcher_.launch(layer.kernel, fused_grid(layer.spec, request.output_rows), params);
}

}  // namespace minuet
