#include "runtime/cuda/ops/global_pooling.h"

#include <vector>

#include "codegen/choose/ops/global_pooling.h"
#include "runtime/engine/ops/global_pooling.h"

namespace minuet {
namespace {

// More blocks than these on each multiprocessor would only take turns.
constexpr i64 kPoolBlocksPerMultiprocessor = 8;
constexpr i32 kWarp = 32;

class GlobalPooling final : public CudaOps {
 public:
  explicit GlobalPooling(Launcher& launcher) : launcher_(launcher) {}

  [[gnu::cold]] llvm::Expected<i32> add(const OpChoice& given) override {
    const GlobalPoolChoice& choice = given.get<GlobalPoolChoice>();
    Layer layer;
    layer.choice = choice;
    MINUET_ASSIGN(layer.count, launcher_.device().kernel(choice.count));
    MINUET_ASSIGN(layer.start, launcher_.device().kernel(choice.start));
    MINUET_ASSIGN(layer.list, launcher_.device().kernel(choice.list));
    MINUET_ASSIGN(layer.pool, launcher_.device().kernel(choice.pool));
    MINUET_ASSIGN(layer.join, launcher_.device().kernel(choice.join));
    layers_.push_back(layer);
    return static_cast<i32>(layers_.size()) - 1;
  }

  /// Lists the rows by batch item.
  llvm::Error prepare(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const GlobalPoolRequest&>(given);
    if (!request.makes_list || request.item_rows == nullptr) return llvm::Error::success();
    const Layer& layer = layers_[op];
    MINUET_TRY(launcher_.mark(Stage::Map));
    ItemRowsParams params = {};
    params.coordinates = request.coordinates;
    params.count = request.input_count;
    params.batch = request.batch_size;
    params.splits = item_splits(request.batch_size, request.input_rows);
    params.places = request.places;
    params.rows = request.item_rows;
    const i64 words = i64{params.batch} * params.splits;
    MINUET_TRY(launcher_.fill(request.places, 0, words));
    if (request.input_rows <= 0) return llvm::Error::success();
    const i64 threads = i64{params.splits} * kWarp;
    MINUET_TRY(launcher_.launch_stride(layer.count, threads, params));
    MINUET_TRY(launcher_.launch(layer.start, 1, StartItemRowsParams{request.places, words}));
    return launcher_.launch_stride(layer.list, threads, params);
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const GlobalPoolRequest&>(given);
    MINUET_TRY(launcher_.mark(Stage::Gather));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    PoolItemsParams params = {};
    params.input = request.input;
    params.input_ld = request.input_ld;
    params.input_count = request.input_count;
    params.rows = request.item_rows;
    params.places = request.places;
    params.splits = item_splits(request.batch_size, request.input_rows);
    params.output_count = request.output_count;
    params.output_rows = request.output_rows;
    params.pads_output = request.pads_output ? 1 : 0;
    params.output = request.output;
    params.output_ld = request.output_ld;
    params.partials = request.partials;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    if (request.input_rows > 0) {
      const i64 pieces = pieces_of(request.input_rows) * item_tile(layer.choice.pool).chunks;
      MINUET_TRY(launcher_.launch(layer.pool, grid_of(pieces), params));
    }
    const i64 rows = request.output_rows * item_tile(layer.choice.join).chunks;
    return launcher_.launch(layer.join, grid_of(rows), params);
  }

 private:
  struct Layer {
    GlobalPoolChoice choice;
    Kernel<ItemRowsParams> count, list;
    Kernel<StartItemRowsParams> start;
    Kernel<PoolItemsParams> pool, join;
  };

  i64 grid_of(i64 blocks) const {
    return stride_grid(blocks, 1, launcher_.multiprocessors(), kPoolBlocksPerMultiprocessor);
  }

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_global_pooling(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<GlobalPooling>(launcher);
}

}  // namespace minuet
