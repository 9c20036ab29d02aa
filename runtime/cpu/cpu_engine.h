// Implements the operations of runtime/engine/engine.h on the CPU. Each operation has finished when it
// returns, so wait() returns at once.
#pragma once

#include <chrono>

#include "runtime/cpu/batch_norm.h"
#include "runtime/cpu/gradients.h"
#include "runtime/cpu/index_ops.h"
#include "runtime/cpu/map_ops.h"
#include "runtime/cpu/ops.h"
#include "runtime/cpu/parameters.h"
#include "runtime/cpu/permute_rows.h"
#include "runtime/cpu/points.h"
#include "runtime/cpu/select.h"
#include "runtime/cpu/view_ops.h"
#include "runtime/engine/engine.h"

namespace minuet {

class CpuEngine final : public Engine, private MapOperations {
 public:
  CpuEngine(std::shared_ptr<ThreadPool> pool, const VectorKernels& kernels, i32 ndim);
  ~CpuEngine() override;

  llvm::Expected<i32> add_op(const OpChoice& choice) override;
  llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) override;
  i64 workspace_bytes() const override { return 0; }
  llvm::Error set_workspace(void*) override { return llvm::Error::success(); }
  i64 scratch_bytes() const override;

  llvm::Error begin(void* /*stream*/) override { return llvm::Error::success(); }
  llvm::Error fill_words(void* target, u32 word, i64 words) override;
  llvm::Error copy(void* target, const void* source, i64 bytes) override;
  llvm::Error read_back(void* host, const void* source, i64 bytes) override;
  llvm::Expected<std::shared_ptr<DeferredReadback>> start_readback(const i32* source, i64 words) override;
  llvm::Error send(void* target, const void* host, i64 bytes) override;
  llvm::Error wait_for_sends() override { return llvm::Error::success(); }
  llvm::Error wait() override { return llvm::Error::success(); }
  llvm::Expected<void*> allocate_pinned(i64 bytes) override;

  MapOperations& maps() override { return *this; }
  ParameterOperations& parameters() override { return parameters_; }
  PointOperations& points() override { return points_; }
  SelectOperations& selections() override { return selections_; }
  GradientOperations& gradients() override { return gradients_; }
  BatchNormOperations& batch_norms() override { return batch_norms_; }
  llvm::Error permute_rows(const PermuteRequest& request) override;
  llvm::Error prepare_op(const OpRequest& request) override;
  llvm::Error run_op(const OpRequest& request) override;

  const EngineCounters& counters() const override { return counters_; }
  void reset_counters() override { counters_ = {}; }
  void set_profiling(bool on) override;
  void time_as(Timed call) override;
  llvm::Expected<PassTimes> pass_times() override;

 private:
  llvm::Error find_layout(const LayoutRequest& request) override;
  i64 workspace_bytes(const MapLimits& limits) const override {
    return place_map_scratch(limits, nullptr).bytes;
  }
  llvm::Error begin(const MapLimits& limits, void* workspace) override;
  llvm::Error build_coords(const BuildCoordsRequest& request) override;
  llvm::Error downsample(const DownsampleRequest& request) override;
  llvm::Error search(const SearchRequest& request) override;
  llvm::Error find_bounds(const i32* coordinates, i64 count, const CloudState& cloud) override;
  llvm::Error index_sets(const IndexSetsRequest& request) override;
  llvm::Error search_index(llvm::ArrayRef<IndexedSearch> searches) override;
  bool looks_up_rows() const override { return false; }
  llvm::Error count_pairs(const Coords& queries, const MapView& map) override;
  llvm::Error make_masks(const Coords& queries, i32 volume, const NeighbourView& view, i32* counts) override;
  i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const override;
  llvm::Error make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) override;
  llvm::Error unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) override;
  llvm::Error void_failed(const u32* status, i32* words, i64 counts) override;
  llvm::Error join_words(llvm::ArrayRef<JoinedWord> words) override;
  llvm::Error compact_pairs(llvm::ArrayRef<PairsRequest> requests) override;

  /// Adds the time from its construction to its destruction to one member of StageTimes, if profiling is on.
  class Timer;

  template <class Work>
  void with_key(KeyType key, const Work& work);
  template <class Work>
  llvm::Error with_call(const OpRequest& request, const Work& work);
  llvm::Error check(const OpRequest& request) const;

  std::shared_ptr<ThreadPool> pool_;
  const VectorKernels& kernels_;
  const i32 ndim_;
  std::vector<std::unique_ptr<CpuOp>> ops_;
  std::vector<PermuteRowsSpec> permutes_;
  CpuParameters parameters_;
  CpuPoints points_;
  CpuSelections selections_;
  CpuGradients gradients_;
  CpuBatchNorms batch_norms_;
  std::vector<void*> pinned_;
  i64 scratch_words_ = 0;  // Holds the number of fp32 words of scratch memory per thread of the pool.
  MapLimits limits_;
  MapScratch map_scratch_;
  EngineCounters counters_;
  PassTimes prepare_times_, run_times_;
  i32 op_ = -1;  // Holds the number of the op that is running, or -1 if none is.
  bool profiling_ = false;
  Timed timed_ = Timed::Run;
};

}  // namespace minuet
