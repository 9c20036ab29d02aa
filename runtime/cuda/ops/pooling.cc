#include "runtime/cuda/ops/pooling.h"

#include <vector>

#include "codegen/choose/ops/pooling.h"

namespace minuet {
namespace {

class Pooling final : public CudaOps {
 public:
  explicit Pooling(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& choice) override {
    const PoolChoice& pool = choice.get<PoolChoice>();
    MINUET_ASSIGN(const Kernel<PoolParams> kernel, launcher_.device().kernel(pool.pool));
    layers_.push_back({pool.pool, static_cast<i32>(kernel_volume(pool.problem)), kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    MINUET_TRY(launcher_.mark(Stage::Gather));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    MINUET_TRY(check_rows(request, layer.volume));
    auto params = pool_params<PoolParams>(request, layer.volume);
    params.winners = request.winners;
    params.winners_ld = request.winners_ld;
    params.input_numbers = request.input_numbers;
    const i64 vectors = layer.spec.channels * dtype_bytes(layer.spec.io) / layer.spec.vector_bytes;
    return launcher_.launch_stride(layer.kernel, request.output_rows * vectors, params);
  }

 private:
  struct Layer {
    PoolSpec spec;
    i32 volume = 1;
    Kernel<PoolParams> kernel;
  };

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_pooling(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<Pooling>(launcher);
}

}  // namespace minuet
