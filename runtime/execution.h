// One caller's use of a loaded network: prepare(coordinates), then run(features).
//
// prepare builds every coordinate set and kernel map of the network on the device, reads all counts
// back in one copy, groups every layer's GEMMs and enqueues the metadata tables; run only enqueues.
// All device memory is one arena. It grows where a cloud exceeds it, and prepare then starts over;
// a warm prepare allocates nothing.
#pragma once

#include <memory>
#include <vector>

#include "runtime/arena.h"
#include "runtime/cloud_layout.h"
#include "runtime/plan.h"

namespace minuet {

struct ExecutionOptions {
  i64 max_points = 0;
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  void* workspace = nullptr;  // the caller's arena, or null for one of ours
  i64 workspace_bytes = 0;
};

class NetworkExecution {
 public:
  static llvm::Expected<std::unique_ptr<NetworkExecution>> create(std::shared_ptr<const NetworkPlan> plan,
                                                                  std::shared_ptr<const LoadedPlan> loaded,
                                                                  const ExecutionOptions& options);

  /// Enough workspace for clouds of `points` coordinates with `neighbours` pairs per output and map.
  static llvm::Expected<i64> workspace_bound(std::shared_ptr<const NetworkPlan> plan,
                                             std::shared_ptr<const LoadedPlan> loaded, i64 points,
                                             double neighbours);

  llvm::Error prepare(const i32* coordinates, i64 count, void* stream);
  llvm::Error run(const void* features, void* output, void* stream);
  llvm::Error output_coordinates(i32* coordinates, void* stream);
  /// Largest |value| that any layer writes; runs and downloads layer by layer.
  llvm::Expected<double> largest_activation(const void* features, void* stream);

  const NetworkPlan& plan() const { return *plan_; }
  bool prepared() const { return prepared_; }
  llvm::Error check_prepared() const;  // FailedPrecondition before the first prepare
  i64 output_rows() const;
  i64 level_rows(i32 level) const { return levels_[level].rows; }
  const GroupPlan& layer_groups(i32 layer) const { return maps_[plan_->program.layers[layer].map].groups; }
  Engine& engine() { return *engine_; }
  i64 workspace_bytes() const { return arena_.bytes(); }
  /// Allocations of the arena since the last reset.
  i64 growths() const { return arena_.growths(); }
  void reset_growths() { arena_.reset_growths(); }

 private:
  struct Level {
    Coords coords;
    i64 rows = 0;
  };
  struct Map {
    MapView view;
    GroupPlan groups;
    i32 direct_offset = -1;
    i64 report_offset = 0;  // of its counts, in words
    i64 table_offset = 0;   // of its group tables, in words
  };

  NetworkExecution(std::shared_ptr<const NetworkPlan> plan, std::shared_ptr<const LoadedPlan> loaded,
                   const ExecutionOptions& options);
  static llvm::Expected<std::unique_ptr<NetworkExecution>> create_unplaced(
      std::shared_ptr<const NetworkPlan> plan, std::shared_ptr<const LoadedPlan> loaded,
      const ExecutionOptions& options);
  llvm::Error add_layers();
  void number_maps();
  llvm::Error allocate_host();
  /// Fixed part of the arena for capacity_ coordinates; the tensors' part starts at its end.
  i64 place_fixed(char* base);
  MapLimits map_limits(KeyType key) const;
  llvm::Error reserve(i64 bytes);
  llvm::Error place_anew();
  llvm::Error check_count(i64 count) const;
  llvm::Error ensure_capacity(i64 count);
  llvm::Error find_layout(const i32* coordinates, i64 count);
  llvm::Error enqueue_maps(const i32* coordinates, i64 count);
  llvm::Error read_report(i64 count);
  llvm::Error check_report(i64 count) const;
  llvm::Error group_maps();
  i64 place_tensors(char* base);
  llvm::Error enqueue_tables();
  llvm::Error prepare_layers();
  llvm::Error load_input(const void* features);
  void* tensor_address(i32 tensor, void* output) const;
  ConvolveRequest request_of(i32 layer, void* output) const;

  std::shared_ptr<const NetworkPlan> plan_;
  std::shared_ptr<const LoadedPlan> loaded_;
  ExecutionOptions options_;
  Arena arena_;
  std::unique_ptr<Engine> engine_;
  std::vector<i32> convolutions_;  // the engine's number of each layer
  i32 permute_input_ = 0, permute_output_ = 0, permute_coordinates_ = 0;

  // The cloud at hand.
  bool prepared_ = false;
  i64 count_ = 0;     // the caller's rows
  i64 capacity_ = 0;  // coordinates that the arena's fixed part holds
  KeyLayout layout_;
  Bounds bounds_;
  std::vector<Level> levels_;
  std::vector<Map> maps_;
  std::vector<char*> slots_;

  // The arena's fixed part.
  i64 fixed_bytes_ = 0;
  i32 *bounds_words_ = nullptr, *report_ = nullptr, *tables_ = nullptr;
  i32 *identity_ = nullptr, *source_row_ = nullptr, *row_of_ = nullptr, *coordinates_ = nullptr;
  void *map_workspace_ = nullptr, *engine_workspace_ = nullptr;
  void *gather_buffer_ = nullptr, *gemm_buffer_ = nullptr;

  // Host copies: [status, level counts, map counts]; bounds; group tables of all maps.
  i64 report_words_ = 0, table_words_ = 0;
  i32 *host_report_ = nullptr, *host_bounds_ = nullptr, *host_tables_ = nullptr;
};

}  // namespace minuet
