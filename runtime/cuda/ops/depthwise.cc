#include "runtime/cuda/ops/depthwise.h"

#include <algorithm>
#include <vector>

#include "codegen/choose/ops/depthwise.h"
#include "runtime/engine/ops/convolution.h"

namespace minuet {
namespace {

class Depthwise final : public CudaOps {
 public:
  explicit Depthwise(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& chosen) override {
    const DepthwiseChoice& choice = chosen.get<DepthwiseChoice>();
    MINUET_ASSIGN(const Kernel<DepthwiseParams> kernel, launcher_.device().kernel(choice.kernel));
    layers_.push_back({choice, kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    MINUET_TRY(launcher_.mark(Stage::Gemm));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    const ConvolutionProblem& problem = layer.choice.problem;
    const ConvolutionWeights weights(problem, request.parameters);
    const NeighbourView& view = request.view;
    const bool ordered = view.ordered_rows != nullptr;
    DepthwiseParams params = {};
    params.input = request.input;
    params.input_ld = request.input_ld;
    params.rows = ordered ? view.ordered_rows : view.rows;
    params.masks = ordered ? view.ordered_masks : view.masks;
    params.row_stride = ordered ? ordered_row_stride(request.output_rows) : request.output_rows;
    params.order = view.order;
    params.ordered_views = ordered ? 1 : 0;
    params.query_count = request.output_count;
    params.padded_rows = request.pads_output ? request.output_rows : 0;
    params.weights = weights.weight;
    params.scale = weights.scale;
    params.shift = weights.shift;
    params.residual = request.residual;
    params.residual_ld = request.residual_ld;
    params.output = request.output;
    params.output_ld = request.output_ld;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    params.slope = problem.slope;
    params.second = second_output_of(problem, weights, request);
    const i64 items = depthwise_items(layer.choice.kernel, request.output_rows);
    return launcher_.launch_stride(layer.kernel, items, params);
  }

 private:
  struct Layer {
    DepthwiseChoice choice;
    Kernel<DepthwiseParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_depthwise(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<Depthwise>(launcher);
}

}  // namespace minuet
