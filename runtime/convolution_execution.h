// One caller's use of a loaded convolution: prepare_map(map), then run(features).
#pragma once

#include <memory>

#include "runtime/arena.h"
#include "runtime/coordinate_set.h"
#include "runtime/plan.h"

namespace minuet {

class ConvolutionExecution {
 public:
  static llvm::Expected<std::unique_ptr<ConvolutionExecution>> create(
      std::shared_ptr<const ConvolutionPlan> plan, std::shared_ptr<const LoadedPlan> loaded, void* workspace,
      i64 workspace_bytes);

  /// Groups the map's GEMMs and enqueues its metadata tables. Allocates where the arena is too small;
  /// waits for the tables of an earlier map to be on the device.
  llvm::Error prepare_map(std::shared_ptr<const KernelMap> map, void* stream);
  llvm::Error run(const void* input, const void* residual, void* output, void* stream);

  Engine& engine() { return *engine_; }
  i64 workspace_bytes() const { return arena_.bytes(); }
  /// Allocations of the arena since the last reset.
  i64 growths() const { return arena_.growths(); }
  void reset_growths() { arena_.reset_growths(); }
  const GroupPlan& groups() const { return groups_; }
  const ConvolutionPlan& plan() const { return *plan_; }
  const KernelMap* map() const { return map_.get(); }

 private:
  ConvolutionExecution(std::shared_ptr<const ConvolutionPlan> plan, std::shared_ptr<const LoadedPlan> loaded,
                       void* workspace, i64 workspace_bytes);
  llvm::Error add_layer();
  llvm::Error check_map(const KernelMap& map) const;
  i64 place(char* base, const KernelMap& map);
  llvm::Error send_tables();
  ConvolveRequest request() const;

  std::shared_ptr<const ConvolutionPlan> plan_;
  std::shared_ptr<const LoadedPlan> loaded_;
  Arena arena_;
  std::unique_ptr<Engine> engine_;
  i32 convolution_ = 0, permute_input_ = 0, permute_output_ = 0;
  std::shared_ptr<const KernelMap> map_;
  MapView view_;  // of map_, with tables in the arena
  GroupPlan groups_;
  i32* host_tables_ = nullptr;  // pinned
  i32* tables_ = nullptr;
  char *input_ = nullptr, *residual_ = nullptr, *output_ = nullptr;  // engine order
  void *gather_buffer_ = nullptr, *gemm_buffer_ = nullptr, *engine_workspace_ = nullptr;
  bool tables_sent_ = false;
};

}  // namespace minuet
