#include "runtime/cuda/ops/pointwise.h"

#include <vector>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/engine/ops/pointwise.h"

namespace minuet {
namespace {

class Pointwise final : public CudaOps {
 public:
  explicit Pointwise(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& given) override {
    const PointwiseChoice& choice = given.get<PointwiseChoice>();
    MINUET_ASSIGN(const Kernel<PointwiseParams> kernel, launcher_.device().kernel(choice.kernel));
    layers_.push_back({choice, kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& request) override {
    MINUET_TRY(launcher_.mark(Stage::Gather));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    const PointwiseParameters parameters(request.parameters);
    PointwiseParams params = {};
    params.input = request.input;
    params.input_ld = request.input_ld;
    params.count = request.output_count;
    params.rows = request.output_rows;
    params.pads_output = request.pads_output ? 1 : 0;
    params.output = request.output;
    params.output_ld = request.output_ld;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    params.scale = parameters.scale;
    params.shift = parameters.shift;
    const Operand* operand = request.operands.begin();
    const std::vector<PointwiseStep>& steps = layer.choice.problem.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      params.numbers[i] = steps[i].number;
      if (!reads_operand(steps[i].kind)) continue;
      params.operands[i] = operand->data;
      params.operand_lds[i] = operand++->ld;
    }
    return launcher_.launch_stride(layer.kernel, request.output_rows * layer.choice.kernel.lanes, params);
  }

 private:
  struct Layer {
    PointwiseChoice choice;
    Kernel<PointwiseParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_pointwise(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<Pointwise>(launcher);
}

}  // namespace minuet
