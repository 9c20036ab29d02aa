// Coordinate sets and kernel maps outside of networks, for single convolutions (paper, section 5.1).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/queue.h"
#include "runtime/engine/set_index.h"
#include "runtime/maps/map_engines.h"
#include "runtime/maps/shared_view.h"

namespace minuet {

class CoordinateSet;

struct CoordinateSetOptions {
  AxisArray tensor_stride{1, 1, 1, 1};
  bool keep_first_duplicate = false;
  i64 max_offset[kMaxDim] = {128, 128, 128, 128};
  bool has_bounds = false;
  Bounds bounds;
  std::shared_ptr<Queue> queue;  // may be null
};

/// A set of a queue and the coarser sets derived from it. One index of cells makes all of them as soon as one
/// of them is needed. Access requires Queue::work(), which calls of the queue hold.
struct SetFamily {
  // The sets to make. The caller may have dropped some of them.
  std::vector<std::weak_ptr<const CoordinateSet>> deferred_sets;
  i64 words = 0;        // of the index, including the levels of the deferred sets
  DeviceMemory counts;  // i32 [kMostReadbackWords] status, then the rows of each set
  DeviceMemory memory;
  SetIndex index;  // in `memory`; once it is made, no more sets join the family

  bool is_made() const { return index.layout != nullptr; }
};

/// A sorted set of unique coordinates on a device. Immutable, except that its creation and the read-back of
/// its row count may be deferred.
class CoordinateSet : public std::enable_shared_from_this<CoordinateSet> {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  /// Without a queue, waits until the coarser set is made. With a queue, only enqueues, even if this set's
  /// rows are not counted yet. If an index can make the coarser set, enqueues nothing: the set is made later,
  /// together with all sets requested until then.
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  /// Returns InvalidArgument if the set has a queue and `stream` is not the queue's stream.
  llvm::Error check_stream(void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  /// Enqueues the work that makes this set, and its family, if that was deferred. Requires Queue::work().
  llvm::Error make_deferred() const;
  /// Waits until the host knows the number of rows. Makes the set first if that was deferred. Any thread may
  /// call it, but a call of the queue must call make_deferred() before.
  llvm::Error count_rows() const;
  /// Valid after count_rows(); so is caller_rows().
  i64 rows() const { return rows_; }
  i32* count() const { return coords_.count; }  // device: rows(); valid once the set is made
  /// Returns the number of rows that the caller gave; rows() for derived sets.
  i64 caller_rows() const { return caller_rows_ < 0 ? rows_ : caller_rows_; }
  const AxisArray& tensor_stride() const { return tensor_stride_; }
  /// Return the caller's row of each row, [rows], and the row of each of the caller's rows, [caller_rows];
  /// null for derived sets, whose rows the caller sees in the same order.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  const std::shared_ptr<MapEngines>& engines() const { return engines_; }
  /// Returns the queue that the set and everything made from it use; may be null.
  const std::shared_ptr<Queue>& queue() const { return queue_; }

 private:
  friend class KernelMap;
  CoordinateSet() = default;
  /// Returns the queue's pool, or the device if there is no queue.
  std::shared_ptr<MemorySource> memory_source() const;
  llvm::Error allocate(i64 capacity, bool from_caller);
  /// Allocates a layout of this set's own. A coarser set whose strides fit the finer set's layout shares that
  /// one.
  llvm::Error allocate_layout();
  /// Returns true if `coarse` joins the family, to be made with the others. Otherwise `coarse` is unchanged.
  llvm::Expected<bool> join_family(CoordinateSet& coarse) const;
  /// Makes the coarser set now, by sorting.
  llvm::Expected<std::shared_ptr<CoordinateSet>> sort_coarser(std::shared_ptr<CoordinateSet> coarse,
                                                              void* stream) const;
  llvm::Error make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const;
  bool is_made() const;
  /// Returns the stride of the set's cells in an index: 1 for a caller's set, whose coordinates may be
  /// anywhere, whatever its tensor stride.
  AxisArray cell_stride() const { return coordinates_ ? AxisArray{1, 1, 1, 1} : tensor_stride_; }
  /// `declared` is null if the device must find the bounds.
  llvm::Error find_layout(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                          i32 key_bits) const;
  /// Enqueues a sort-based build; read_report() reads its result.
  llvm::Error build(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                    i32 key_bits, void* stream);
  llvm::Error find_and_build(MapEngine& engine, const i32* coordinates, i64 count, void* stream);
  /// Waits for the report.
  llvm::Error read_report(MapEngine& engine);
  llvm::Error take_report(llvm::ArrayRef<i32> report) const;
  /// Returns null if the report has already been taken.
  std::shared_ptr<DeferredReadback> deferred_report() const;
  /// Returns the keys with capacity rows(), or an upper bound if the rows are not counted yet.
  Coords coords() const;
  /// Computes the layout of bounds_.
  llvm::Error take_layout();
  /// Writes the keys of this set under another layout to `target`, which has capacity for rows() keys. The
  /// enqueued work reads memory that is appended to `used`.
  llvm::Error repack(MapEngine& engine, const CloudLayout* layout, Coords target,
                     std::vector<DeviceMemory>& used) const;

  std::shared_ptr<MapEngines> engines_;
  std::shared_ptr<Queue> queue_;
  AxisArray tensor_stride_{1, 1, 1, 1};
  i64 guard_[kMaxDim] = {};             // how far the offsets of a map may reach under the layout
  i64 period_[kMaxDim] = {1, 1, 1, 1};  // a stride that divides it can use the same layout
  Bounds bounds_;
  KeyLayout layout_;                   // the same layout as on the device
  i32 key_bits_ = 0;                   // bits that the keys were sorted by; they decide the key type
  std::shared_ptr<SetFamily> family_;  // null for sets that are built on their own and have no family
  mutable i32 level_ = -1;       // in the family's index, once it has this set; guarded by Queue::work()
  mutable std::mutex counting_;  // guards the next three members; never held during a wait
  // The finest set of the family until this set is made; null afterwards. Writing requires Queue::work() too,
  // so either lock is enough to read it.
  mutable std::shared_ptr<const CoordinateSet> finest_;
  mutable std::shared_ptr<DeferredReadback> deferred_;  // the report of a set whose rows are not counted yet
  mutable i64 rows_ = 0;
  i64 caller_rows_ = -1;  // -1 for a derived set
  DeviceMemory memory_;
  std::shared_ptr<const DeviceMemory> layout_memory_;
  Coords coords_;  // as allocated
  CloudState state_;
  i32* report_ = nullptr;  // [kReportWords] status, points, rows, bounds
  static constexpr i64 kRowsAt = 2, kBoundsAt = 3;
  i64 rows_at_ = kRowsAt;  // in deferred_
  static constexpr i64 kReportWords = kBoundsAt + kBoundsWords;
  i32 host_report_[kReportWords] = {};
  i32* source_row_ = nullptr;
  i32* row_of_ = nullptr;
  i32* coordinates_ = nullptr;  // [rows, 1 + ndim] ascending; null for derived sets
};

/// A kernel map: which input row feeds which output row at which offset. Immutable, except for what calls of
/// its queue add.
class KernelMap {
 public:
  /// Waits for the rows of both sets. Without a queue, also waits until the map is made; with one, only
  /// enqueues that.
  static llvm::Expected<std::shared_ptr<KernelMap>> create(std::shared_ptr<const CoordinateSet> input,
                                                           std::shared_ptr<const CoordinateSet> output,
                                                           const AxisArray& kernel_size,
                                                           const AxisArray& dilation, bool transposed,
                                                           void* stream);
  /// Returns the same pairs in the other direction; shares all memory.
  std::shared_ptr<KernelMap> transpose() const;
  /// Copies [pairs][3] (offset, input row, output row) to the host, in the caller's row numbers.
  llvm::Error export_pairs(i32* pairs, void* stream) const;

  /// Returns InvalidArgument if this is not a map that `problem` can use. `op` names the op in messages, for
  /// example "convolution".
  llvm::Error check_serves(const WindowProblem& problem, const char* op) const;

  const MapView& view() const { return pairs_->view; }
  const std::shared_ptr<Device>& device() const { return input_->engines()->device(); }
  const CoordinateSet& fine() const { return transposed_ ? *output_ : *input_; }
  const CoordinateSet& coarse() const { return transposed_ ? *input_ : *output_; }
  /// Makes rows, positions and counts, if they are missing. The fused dataflow does not need them if an index
  /// gives the rows. Only in calls of the queue.
  llvm::Error find_pairs() const;
  /// Returns the map in the state from which views of the form Rows or Masked are made. A masked view whose
  /// rows an index gives needs no table, and can be made after find_masks(). In all other cases makes the
  /// rows, without positions and counts. Only in calls of the queue.
  llvm::Expected<MapView> view_of(bool transposed, ViewForm form) const;
  /// Enqueues one search for the masks that these maps still need for their views.
  static llvm::Error find_masks(llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, Engine& engine);
  /// Return the pairs of each offset and of all offsets. If there is a queue, only in its calls; the first
  /// call reads the counts back and waits.
  llvm::Expected<llvm::ArrayRef<i32>> counts() const;
  llvm::Expected<i64> pairs() const;
  /// Any thread may call it.
  bool has_counts() const { return pairs_->has_counts; }
  const std::shared_ptr<Queue>& queue() const { return input_->queue(); }
  /// Views that executions share. Only in calls of the queue.
  std::shared_ptr<SharedView> find_view(bool transposed, ViewForm form) const;
  void keep_view(std::shared_ptr<SharedView> view) const { pairs_->views.push_back(std::move(view)); }
  /// Returns the views that one family of ops keeps with the map; only its files know their type.
  std::vector<std::shared_ptr<KeptView>>& kept_views(const OpFamily& family) const {
    return pairs_->kept[&family];
  }

 private:
  /// The data that both directions share.
  struct Pairs {
    MapView view;
    DeviceMemory rows, masks, positions;  // `positions` also holds the counts
    bool has_masks = false;               // true once the search is enqueued
    std::vector<i32> counts;              // empty until they are read back
    std::atomic<bool> has_counts{false};
    std::vector<std::shared_ptr<SharedView>> views;
    std::map<const OpFamily*, std::vector<std::shared_ptr<KeptView>>> kept;
  };

  KernelMap() = default;
  /// Makes the rows, if they are missing; with `positions`, also positions and counts.
  llvm::Error find(void* stream, bool positions) const;
  llvm::Error search(MapEngine& engine, MapView& found, std::vector<DeviceMemory>& used, void* stream) const;
  llvm::Error search_index(MapEngine& engine, MapView& found, void* stream) const;
  /// Returns the index that contains both sets; empty if there is none or it has no cells for all offsets.
  IndexedSides find_index(const AxisArray& kernel_size, const AxisArray& dilation) const;
  bool is_indexed() const { return view().index.layout != nullptr; }
  bool is_guarded() const;
  llvm::Error place_masks() const;
  MapLimits limits(i32 key_bits, i32 sets) const;
  llvm::Error read_counts(MapEngine& engine) const;
  bool is_identity() const { return input_ == output_ && view().geometry.volume == 1; }

  std::shared_ptr<const CoordinateSet> input_, output_;
  bool transposed_ = false;
  std::shared_ptr<Pairs> pairs_ = std::make_shared<Pairs>();
};

}  // namespace minuet
