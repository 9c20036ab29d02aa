#include "runtime/execution/ops/dense.h"

#include "codegen/choose/ops/dense.h"
#include "runtime/engine/ops/dense.h"

namespace minuet {
namespace {

class DenseWork final : public OpWork {
 public:
  explicit DenseWork(const OpWorkContext& context)
      : program_(context.program), batch_size_(context.batch_size), layers_(context.program.layers.size()) {}

  void begin(i64) override {
    for (Layer& layer : layers_) layer = {};
  }
  llvm::Error add(const OpUse& use) override {
    layers_[use.layer].is_used = true;
    layers_[use.layer].coordinates = use.coordinates;
    return llvm::Error::success();
  }
  void bound(i32 layer, i64, double) override { layers_[layer].is_used = true; }

  void place_tables(Placement& parts, i32*) override {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const auto* const problem = program_.layers[i].problem.get_if<ToDenseProblem>();
      if (!layers_[i].is_used || problem == nullptr) continue;
      layers_[i].cell_rows = parts.take<i32>(batch_size_ * cells_of(problem->ndim, problem->layout));
    }
  }

  llvm::Error with_request(const Candidate&, i32 layer, const OpRequest& common,
                           llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const override {
    DenseRequest request{common};
    request.coordinates = layers_[layer].coordinates;
    request.batch_size = batch_size_;
    request.cell_rows = layers_[layer].cell_rows;
    return enqueue(request);
  }

 private:
  struct Layer {
    bool is_used = false;
    // Points to the coordinates of the rows of the layer's level.
    const i32* coordinates = nullptr;
    // Points to the table DenseRequest::cell_rows of a layer that writes a dense tensor.
    i32* cell_rows = nullptr;
  };

  const Program& program_;
  const i32 batch_size_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<OpWork> make_dense_work(const OpWorkContext& context) {
  return std::make_unique<DenseWork>(context);
}

}  // namespace minuet
