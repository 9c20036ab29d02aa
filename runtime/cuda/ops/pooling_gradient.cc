#include "runtime/cuda/ops/pooling_gradient.h"

#include <vector>

#include "codegen/choose/ops/pooling_gradient.h"
#include "runtime/cuda/found_kernels.h"
#include "runtime/cuda/ops/pooling.h"
#include "runtime/engine/ops/pooling_gradient.h"

namespace minuet {
namespace {

class PoolingGradient final : public CudaOps {
 public:
  explicit PoolingGradient(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& given) override {
    const PoolingGradientChoice& choice = given.get<PoolingGradientChoice>();
    Layer layer;
    layer.choice = choice;
    layer.volume = static_cast<i32>(kernel_volume(choice.problem));
    MINUET_ASSIGN(layer.pool, launcher_.device().kernel(choice.pool));
    if (choice.counts()) {
      MINUET_TRY(clear_.find(launcher_, choice.clear).takeError());
      MINUET_ASSIGN(layer.count, launcher_.device().kernel(choice.count));
    }
    layers_.push_back(layer);
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const PoolingGradientRequest&>(given);
    MINUET_TRY(launcher_.mark(Stage::Gather));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    MINUET_TRY(check_rows(request, layer.volume));
    auto params = pool_params<PoolGradientParams>(request, layer.volume);
    params.counts = request.counts;
    params.output_numbers = request.output_numbers;
    if (!request.operands.empty()) {
      params.winners = static_cast<const i32*>(request.operands[0].data);
      params.winners_ld = request.operands[0].ld;
    }
    const PoolGradientSpec& spec = layer.choice.pool;
    if (layer.choice.counts()) {
      MINUET_TRY(
          clear_words(launcher_, clear_, layer.choice.clear, {{request.counts, request.input_rows, 0}}));
      MINUET_TRY(launcher_.launch_stride(layer.count, request.output_rows * layer.volume, params));
    }
    const i64 vectors = i64{spec.channels} * dtype_bytes(spec.io) / spec.vector_bytes;
    return launcher_.launch_stride(layer.pool, request.output_rows * vectors, params);
  }

 private:
  struct Layer {
    PoolingGradientChoice choice;
    i32 volume = 1;
    Kernel<PoolGradientParams> pool, count;
  };

  Launcher& launcher_;
  FoundKernels<ClearWordsSpec> clear_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_pooling_gradient(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<PoolingGradient>(launcher);
}

}  // namespace minuet
