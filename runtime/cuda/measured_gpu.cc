// Implements a GPU that tells how many bytes of device memory its engines need. It uses no driver, so plans
// can be measured on machines without a GPU. The sizes come from the functions that CudaEngine uses too, and
// for the ops from CudaFamily::memory_bound.
#include <algorithm>
#include <utility>

#include "runtime/cuda/gradient_step.h"
#include "runtime/cuda/map_workspace.h"
#include "runtime/cuda/ops.h"
#include "runtime/cuda/point_step.h"
#include "runtime/cuda/select_step.h"
#include "runtime/cuda/view_workspace.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/device.h"

namespace minuet {
namespace {

/// Returns the error of every function that would need a GPU.
llvm::Error not_there() {
  return make_error(StatusCode::Internal, "a GPU that only measures memory was asked to use memory");
}

class MeasuredMaps final : public MapOperations {
 public:
  explicit MeasuredMaps(const EngineChoice& choice) : choice_(choice) {}

  i64 workspace_bytes(const MapLimits& limits) const override {
    return map_workspace_bytes(choice_.map32, choice_.map64, limits);
  }
  i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const override {
    return minuet::view_workspace_bytes(choice_.map32.rank_pass, requests);
  }
  bool looks_up_rows() const override { return true; }

  llvm::Error find_layout(const LayoutRequest&) override { return not_there(); }
  llvm::Error begin(const MapLimits&, void*) override { return not_there(); }
  llvm::Error build_coords(const BuildCoordsRequest&) override { return not_there(); }
  llvm::Error downsample(const DownsampleRequest&) override { return not_there(); }
  llvm::Error search(const SearchRequest&) override { return not_there(); }
  llvm::Error find_bounds(const i32*, i64, const CloudState&) override { return not_there(); }
  llvm::Error index_sets(const IndexSetsRequest&) override { return not_there(); }
  llvm::Error search_index(llvm::ArrayRef<IndexedSearch>) override { return not_there(); }
  llvm::Error count_pairs(const Coords&, const MapView&) override { return not_there(); }
  llvm::Error make_masks(const Coords&, i32, const NeighbourView&, i32*) override { return not_there(); }
  llvm::Error make_views(llvm::ArrayRef<ViewRequest>, void*) override { return not_there(); }
  llvm::Error unpack(const Coords&, const CloudLayout*, i32*) override { return not_there(); }
  llvm::Error void_failed(const u32*, i32*, i64) override { return not_there(); }
  llvm::Error join_words(llvm::ArrayRef<JoinedWord>) override { return not_there(); }
  llvm::Error compact_pairs(llvm::ArrayRef<PairsRequest>) override { return not_there(); }

 private:
  const EngineChoice choice_;
};

class MeasuredParameters final : public ParameterOperations {
 public:
  llvm::Error copy(llvm::ArrayRef<ParameterCopy>) override { return not_there(); }
  llvm::Error fold(llvm::ArrayRef<BatchNormFold>) override { return not_there(); }
  llvm::Error make_images(llvm::ArrayRef<WeightImageJob>) override { return not_there(); }
};

class MeasuredPoints final : public PointOperations {
 public:
  explicit MeasuredPoints(const MapChoice& map32) : map32_(map32) {}
  i64 workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const override {
    return point_workspace_bytes(map32_, choice, most_points);
  }
  i64 workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const override {
    return point_workspace_bytes(choice, most_points, most_rows);
  }
  i64 workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points, i64 most_rows) const override {
    return point_workspace_bytes(map32_, choice, most_points, most_rows);
  }
  llvm::Error voxelize(const VoxelizeRequest&) override { return not_there(); }
  llvm::Error devoxelize(const DevoxelizeRequest&) override { return not_there(); }
  llvm::Error devoxelize_gradient(const DevoxelizeGradientRequest&) override { return not_there(); }
  llvm::Error group_gradient(const GroupGradientRequest&) override { return not_there(); }

 private:
  const MapChoice map32_;
};

class MeasuredSelections final : public SelectOperations {
 public:
  explicit MeasuredSelections(const EngineChoice& choice) : choice_(choice) {}
  i64 workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const override {
    return select_workspace_bytes(choice_.map32, choice_.map64, choice, most_rows, batch_size);
  }
  llvm::Error select(const SelectRequest&) override { return not_there(); }

 private:
  const EngineChoice choice_;
};

class MeasuredGradients final : public GradientOperations {
 public:
  explicit MeasuredGradients(std::string arch) : arch_(std::move(arch)) {}
  i64 workspace_bytes(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows) const override {
    return gradient_workspace_bytes(choice, arch_, most_pairs, most_rows);
  }
  llvm::Error compute(const ParameterGradientRequest&) override { return not_there(); }
  i64 step_words(i64 volume) const override { return gradient_step_words(volume); }
  llvm::Error list_steps(llvm::ArrayRef<PairStepsRequest>) override { return not_there(); }
  i64 workspace_bytes(const AffineGradientChoice& choice, i64 most_rows) const override {
    return affine_gradient_bytes(choice, most_rows);
  }
  llvm::Error compute(const AffineGradientRequest&) override { return not_there(); }

 private:
  const std::string arch_;
};

class MeasuredBatchNorms final : public BatchNormOperations {
 public:
  llvm::Error forward(const BatchNormChoice&, NormSteps, const BatchNormParams&) override {
    return not_there();
  }
  llvm::Error backward(const BatchNormChoice&, NormSteps, const BatchNormGradientParams&) override {
    return not_there();
  }
};

class MeasuredEngine final : public Engine {
 public:
  MeasuredEngine(const EngineChoice& choice, const std::string& arch)
      : maps_(choice), points_(choice.map32), selections_(choice), gradients_(arch) {}

  llvm::Expected<i32> add_op(const OpChoice& choice) override;
  llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec&) override { return permutes_++; }
  i64 workspace_bytes() const override;
  i64 scratch_bytes() const override;
  bool can_be_captured() const override { return true; }
  MapOperations& maps() override { return maps_; }
  ParameterOperations& parameters() override { return parameters_; }
  PointOperations& points() override { return points_; }
  SelectOperations& selections() override { return selections_; }
  GradientOperations& gradients() override { return gradients_; }
  BatchNormOperations& batch_norms() override { return batch_norms_; }
  const EngineCounters& counters() const override { return counters_; }
  void reset_counters() override {}
  void set_profiling(bool) override {}
  void time_as(Timed) override {}

  llvm::Error set_workspace(void*) override { return not_there(); }
  llvm::Error begin(void*) override { return not_there(); }
  llvm::Error fill_words(void*, u32, i64) override { return not_there(); }
  llvm::Error copy(void*, const void*, i64) override { return not_there(); }
  llvm::Error read_back(void*, const void*, i64) override { return not_there(); }
  llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32*, i64) override {
    return not_there();
  }
  llvm::Error send(void*, const void*, i64) override { return not_there(); }
  llvm::Error wait_for_sends() override { return not_there(); }
  llvm::Error wait() override { return not_there(); }
  llvm::Expected<void*> allocate_pinned(i64) override { return not_there(); }
  llvm::Error permute_rows(const PermuteRequest&) override { return not_there(); }
  llvm::Error prepare_op(const OpRequest&) override { return not_there(); }
  llvm::Error run_op(const OpRequest&) override { return not_there(); }
  llvm::Expected<PassTimes> pass_times() override { return not_there(); }

 private:
  struct Family {
    const CudaFamily* row = nullptr;
    std::vector<OpChoice> choices;

    OpMemory memory() const { return row->memory_bound ? row->memory_bound(choices) : OpMemory(); }
  };

  MeasuredMaps maps_;
  MeasuredParameters parameters_;
  MeasuredPoints points_;
  MeasuredSelections selections_;
  MeasuredGradients gradients_;
  MeasuredBatchNorms batch_norms_;
  const EngineCounters counters_;
  std::vector<Family> families_;  // Holds the op families of all added ops, in the order of CudaEngine.
  i32 ops_ = 0, permutes_ = 0;
};

llvm::Expected<i32> MeasuredEngine::add_op(const OpChoice& choice) {
  MINUET_ASSIGN(const CudaFamily* const row, cuda_family(choice.kind()));
  auto found = llvm::find_if(families_, [&](const Family& known) { return known.row == row; });
  if (found == families_.end()) {
    families_.push_back({row, {}});
    found = std::prev(families_.end());
  }
  found->choices.push_back(choice);
  return ops_++;
}

i64 MeasuredEngine::workspace_bytes() const {
  ArenaLayout parts;
  for (const Family& family : families_) {
    if (const i64 bytes = family.memory().workspace; bytes > 0) parts.add(bytes);
  }
  return parts.bytes();
}

i64 MeasuredEngine::scratch_bytes() const {
  i64 bytes = 0;
  for (const Family& family : families_) bytes = std::max(bytes, family.memory().scratch);
  return bytes;
}

class MeasuredGpu final : public Device {
 public:
  explicit MeasuredGpu(std::string arch) {
    info_.name = info_.description = "a GPU that only measures memory";
    info_.arch = std::move(arch);
  }

  const DeviceInfo& info() const override { return info_; }
  DType weight_type(DType dtype) const override { return dtype; }
  llvm::Expected<std::unique_ptr<Engine>> create_engine(const EngineChoice& choice,
                                                        std::shared_ptr<EngineShare>) override {
    return std::make_unique<MeasuredEngine>(choice, info_.arch);
  }

  llvm::Expected<void*> allocate(i64) override { return not_there(); }
  void release(void*) override {}
  llvm::Error upload(void*, const void*, i64) override { return not_there(); }
  llvm::Error clear(void*, i64) override { return not_there(); }
  llvm::Error download(void*, const void*, i64) override { return not_there(); }
  llvm::Error synchronize(void*) override { return not_there(); }
  llvm::Error load(const std::vector<std::shared_ptr<const Binary>>&, const Reload&) override {
    return not_there();
  }
  llvm::Expected<std::shared_ptr<EngineShare>> create_share() override { return not_there(); }

 private:
  DeviceInfo info_;
};

}  // namespace

std::shared_ptr<Device> measured_gpu(std::string arch) {
  return std::make_shared<MeasuredGpu>(std::move(arch));
}

}  // namespace minuet
