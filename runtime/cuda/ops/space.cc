#include "runtime/cuda/ops/space.h"

#include <vector>

#include "codegen/choose/ops/space.h"

namespace minuet {
namespace {

/// Runs the ops of one direction, whose choices are of type `Choice`.
template <class Choice>
class Space final : public CudaOps {
 public:
  explicit Space(Launcher& launcher) : launcher_(launcher) {}

  llvm::Expected<i32> add(const OpChoice& given) override {
    const Choice& choice = given.get<Choice>();
    MINUET_ASSIGN(const Kernel<SpaceParams> kernel, launcher_.device().kernel(choice.kernel));
    const auto& spec = choice.kernel;
    const i64 channels = i64{spec.channels} * (is_to_channel() ? spec.volume : 1);
    layers_.push_back({spec.volume, channels * dtype_bytes(spec.io) / spec.vector_bytes, kernel});
    return static_cast<i32>(layers_.size()) - 1;
  }

  llvm::Error run(i32 op, const OpRequest& given) override {
    const auto& request = static_cast<const NeighbourRequest&>(given);
    MINUET_TRY(launcher_.mark(is_to_channel() ? Stage::Gather : Stage::Scatter));
    if (request.output_rows <= 0) return llvm::Error::success();
    const Layer& layer = layers_[op];
    MINUET_TRY(check_rows(request, layer.volume));
    SpaceParams params = {};
    params.input = request.input;
    params.input_ld = request.input_ld;
    params.rows = request.view.rows;
    params.output_count = request.output_count;
    params.output_rows = request.output_rows;
    params.output = request.output;
    params.output_ld = request.output_ld;
    params.overflow = request.overflow;
    params.overflow_mark = request.overflow_mark;
    params.pads_output = request.pads_output ? 1 : 0;
    return launcher_.launch_stride(layer.kernel, request.output_rows * layer.vectors, params);
  }

 private:
  struct Layer {
    i64 volume = 0;
    i64 vectors = 0;  // Counts the vectors of an output row.
    Kernel<SpaceParams> kernel;
  };

  static constexpr bool is_to_channel() { return std::is_same_v<Choice, SpaceToChannelChoice>; }

  Launcher& launcher_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<CudaOps> make_space_to_channel(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<Space<SpaceToChannelChoice>>(launcher);
}

std::unique_ptr<CudaOps> make_channel_to_space(Launcher& launcher, const CudaEngineOptions&) {
  return std::make_unique<Space<ChannelToSpaceChoice>>(launcher);
}

}  // namespace minuet
