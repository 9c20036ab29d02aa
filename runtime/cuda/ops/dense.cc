#include "runtime/cuda/ops/dense.h"

#include <algorithm>
#include <vector>

#include "codegen/choose/ops/dense.h"
#include "runtime/engine/alignment.h"
#include "runtime/engine/ops/dense.h"

namespace minuet {
namespace {

class ToDense final : public CudaOps {
 public:
  explicit ToDense(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& given) override {
    const ToDenseChoice& choice = given.get<ToDenseChoice>();
    MINUET_ASSIGN(const Kernel<ListCellRowsParams> list, launcher_.device().kernel(choice.list));
    MINUET_ASSIGN(const Kernel<ToDenseParams> kernel, launcher_.device().kernel(choice.kernel));
    layers_.push_back({choice, list, kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  /// Lists the row of each cell.
  llvm::Error prepare(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    const Layer& layer = layers_[op];
    MINUET_TRY(launcher_.mark(Stage::Map));
    ListCellRowsParams params = {};
    params.coordinates = request.coordinates;
    params.count = request.output_count;
    params.grid = grid_of(layer, request);
    params.rows = request.cell_rows;
    MINUET_TRY(launcher_.fill(request.cell_rows, ~0u, i64{params.grid.batch} * params.grid.cells));
    if (request.output_rows <= 0) return llvm::Error::success();
    return launcher_.launch_stride(layer.list, request.output_rows, params);
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    const Layer& layer = layers_[op];
    MINUET_TRY(launcher_.mark(Stage::Scatter));
    const CellGrid grid = grid_of(layer, request);
    const ToDenseSpec& spec = layer.choice.kernel;
    ToDenseParams params = {};
    params.input = request.input;
    params.input_ld = request.input_ld;
    params.rows = request.cell_rows;
    params.cells = grid.cells;
    params.batch = grid.batch;
    params.output = request.output;
    params.is_aligned = is_multiple(request.output, static_cast<std::uintptr_t>(spec.store_bytes)) ? 1 : 0;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    const i64 element = dtype_bytes(spec.io),
              cells_at_once = spec.channels_last ? 1 : spec.store_bytes / element;
    const i64 items =
        i64{grid.batch} * (grid.cells / cells_at_once) * (spec.channels * element / spec.vector_bytes);
    return launcher_.launch_stride(layer.kernel, items, params);
  }

 private:
  struct Layer {
    ToDenseChoice choice;
    Kernel<ListCellRowsParams> list;
    Kernel<ToDenseParams> kernel;
  };

  static CellGrid grid_of(const Layer& layer, const DenseRequest& request) {
    return make_grid(layer.choice.problem.ndim, layer.choice.problem.layout, request.batch_size);
  }

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

class FromDense final : public CudaOps {
 public:
  explicit FromDense(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& given) override {
    const FromDenseChoice& choice = given.get<FromDenseChoice>();
    MINUET_ASSIGN(const Kernel<FromDenseParams> kernel, launcher_.device().kernel(choice.kernel));
    layers_.push_back({choice, kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const DenseRequest&>(given);
    MINUET_TRY(launcher_.mark(Stage::Gather));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    const FromDenseSpec& spec = layer.choice.kernel;
    FromDenseParams params = {};
    params.input = request.input;
    params.is_aligned = is_multiple(request.input, static_cast<std::uintptr_t>(spec.vector_bytes)) ? 1 : 0;
    params.coordinates = request.coordinates;
    params.output_count = request.output_count;
    params.output_rows = request.output_rows;
    params.pads_output = request.pads_output ? 1 : 0;
    params.grid = make_grid(layer.choice.problem.ndim, layer.choice.problem.layout, request.batch_size);
    params.output = request.output;
    params.output_ld = request.output_ld;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    const i64 vectors = spec.channels * dtype_bytes(spec.io) / spec.vector_bytes;
    return launcher_.launch_stride(layer.kernel, request.output_rows * vectors, params);
  }

 private:
  struct Layer {
    FromDenseChoice choice;
    Kernel<FromDenseParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_to_dense(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<ToDense>(launcher);
}

std::unique_ptr<CudaOps> make_from_dense(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<FromDense>(launcher);
}

}  // namespace minuet
