// Declares the coordinate sets and kernel maps that exist outside of networks, for single convolutions
// (section 5.1 of the Minuet paper).
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
  // The pointer is null if the set uses no queue.
  std::shared_ptr<Queue> queue;
};

/// Holds what a set with a queue shares with the coarser sets derived from it. One index of occupied cells
/// makes all of these sets, as soon as one of them is needed. A thread may access the family only while it
/// holds the lock of Queue::work(). Queue::lock() takes that lock for a whole call.
struct SetFamily {
  // Lists the sets that are still to be made. The pointers are weak because the caller may release a set
  // before it is made.
  std::vector<std::weak_ptr<const CoordinateSet>> deferred_sets;
  // Counts the words that the index needs, including those for the deferred sets.
  i64 words = 0;
  // Holds kMostReadbackWords i32 words on the device: the status bits, then the number of rows of each
  // deferred set.
  DeviceMemory counts;
  DeviceMemory memory;
  // Points to the index in `memory`. Once the index is made, no more sets join the family.
  SetIndex index;

  bool is_made() const { return index.layout != nullptr; }
};

/// Holds a sorted set of unique coordinates on a device. A set does not change after its creation, except
/// that the work that makes it and the read-back of its row count may be deferred.
class CoordinateSet : public std::enable_shared_from_this<CoordinateSet> {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  /// Returns the set of the coordinates of this set, rounded down to multiples of its tensor stride times
  /// `stride`. Without a queue, the function waits until the coarser set is made. With a queue, it only
  /// enqueues work, even if the host does not know the row count of this set yet. If an index of cells can
  /// make the coarser set, it enqueues nothing. Such a set is made later, together with all other sets
  /// requested until then.
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  /// Returns InvalidArgument if the set has a queue and `stream` is not the queue's stream.
  llvm::Error check_stream(void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  /// Enqueues the work that makes this set and the other deferred sets of its family (SetFamily), if it was
  /// deferred. If the set has a queue, the caller must hold the lock of Queue::work().
  llvm::Error make_deferred() const;
  /// Waits until the host knows the number of rows, and makes the set first if that was deferred. Any thread
  /// may call this function. A thread that holds the lock of Queue::work() must call make_deferred() before,
  /// because this function would otherwise try to take the same lock.
  llvm::Error count_rows() const;
  /// Returns the number of rows. This value and caller_rows() are valid only after count_rows().
  i64 rows() const { return rows_; }
  /// Returns the device address of the number of rows. The number is valid once the set is made.
  i32* count() const { return coords_.count; }
  /// Returns the number of rows that the caller gave, or rows() for a set that downsample() derived.
  i64 caller_rows() const { return caller_rows_ < 0 ? rows_ : caller_rows_; }
  const AxisArray& tensor_stride() const { return tensor_stride_; }
  /// Returns an array of [rows] numbers on the device, whose element i is the caller's row for row i of the
  /// set. It is null for a derived set, whose rows the caller sees in the same order.
  const i32* source_row() const { return source_row_; }
  /// Returns an array of [caller_rows] numbers on the device, whose element i is the row of the set for the
  /// caller's row i. It is null for a derived set.
  const i32* row_of() const { return row_of_; }
  const std::shared_ptr<MapEngines>& engines() const { return engines_; }
  /// Returns the queue that the set and everything made from it use, or null.
  const std::shared_ptr<Queue>& queue() const { return queue_; }

 private:
  friend class KernelMap;
  CoordinateSet() = default;
  /// Returns the memory pool of the queue, or the device if there is no queue.
  std::shared_ptr<MemorySource> memory_source() const;
  llvm::Error allocate(i64 capacity, bool from_caller);
  /// Allocates device memory for a key layout of this set's own. A coarser set whose strides fit the layout
  /// of the finer set uses the finer set's layout instead.
  llvm::Error allocate_layout();
  /// Adds `coarse` to the family of this set (SetFamily), so that it is made together with the other sets,
  /// and returns true. If the family cannot take it, the function returns false and leaves `coarse`
  /// unchanged.
  llvm::Expected<bool> join_family(CoordinateSet& coarse) const;
  /// Makes the coarser set by sorting, without deferring the work.
  llvm::Expected<std::shared_ptr<CoordinateSet>> sort_coarser(std::shared_ptr<CoordinateSet> coarse,
                                                              void* stream) const;
  llvm::Error make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const;
  bool is_made() const;
  /// Returns the stride of the set's cells in an index. It is 1 for a set that the caller gave, because its
  /// coordinates need not be multiples of its tensor stride.
  AxisArray cell_stride() const { return coordinates_ ? AxisArray{1, 1, 1, 1} : tensor_stride_; }
  /// Enqueues the computation of the key layout for `count` coordinates. If `declared` is null, the device
  /// finds the bounds of the coordinates.
  llvm::Error find_layout(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                          i32 key_bits) const;
  /// Enqueues the work that builds the set by sorting. read_report() reads back the resulting row count and
  /// bounds.
  llvm::Error build(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                    i32 key_bits, void* stream);
  llvm::Error find_and_build(MapEngine& engine, const i32* coordinates, i64 count, void* stream);
  /// Copies the report, which is the words at report_, to host_report_ and waits for the copy.
  llvm::Error read_report(MapEngine& engine);
  llvm::Error take_report(llvm::ArrayRef<i32> report) const;
  /// Returns the pending read-back of the status and the row count, or null if there is none.
  std::shared_ptr<DeferredReadback> deferred_report() const;
  /// Returns the keys. Their capacity is rows() if the host knows it, otherwise an upper bound of it.
  Coords coords() const;
  /// Sets layout_ to the key layout for bounds_.
  llvm::Error take_layout();
  /// Enqueues the work that writes the keys of this set, packed in another layout, to `target`. `target` must
  /// have the capacity of coords(). The function appends the memory that this work reads to `used`. Without a
  /// queue, the caller must keep that memory until the work has finished.
  llvm::Error repack(MapEngine& engine, const CloudLayout* layout, Coords target,
                     std::vector<DeviceMemory>& used) const;

  std::shared_ptr<MapEngines> engines_;
  std::shared_ptr<Queue> queue_;
  AxisArray tensor_stride_{1, 1, 1, 1};
  // Holds, for each axis, how far the offsets of a kernel map may reach if the map uses this set's key
  // layout.
  i64 guard_[kMaxDim] = {};
  // A coarser set can share this set's key layout if its tensor stride divides this period on each axis.
  i64 period_[kMaxDim] = {1, 1, 1, 1};
  Bounds bounds_;
  // Holds a copy on the host of the key layout at `state_.layout`, which is on the device.
  KeyLayout layout_;
  // Holds the number of bits by which the keys were sorted. It determines the key type.
  i32 key_bits_ = 0;
  // The pointer is null if the coarser sets of this set can only be made by sorting.
  std::shared_ptr<SetFamily> family_;
  // Holds the number of this set among the levels of the index of its family (SetFamily), or -1 before it has
  // one. The lock of Queue::work() guards it.
  mutable i32 level_ = -1;
  // Guards finest_, deferred_ and rows_. No thread holds this lock while it waits for the device.
  mutable std::mutex counting_;
  // Points to the finest set of the family (SetFamily) until this set is made, and is null afterwards. A
  // thread that writes it must hold the lock of Queue::work() as well as counting_, so either lock is enough
  // to read it.
  mutable std::shared_ptr<const CoordinateSet> finest_;
  // Holds the pending read-back of the status and the row count, until the host knows the number of rows.
  mutable std::shared_ptr<DeferredReadback> deferred_;
  mutable i64 rows_ = 0;
  // Holds the number of rows that the caller gave. It is -1 for a derived set.
  i64 caller_rows_ = -1;
  DeviceMemory memory_;
  std::shared_ptr<const DeviceMemory> layout_memory_;
  // Holds the keys with the allocated capacity, which may exceed the number of rows.
  Coords coords_;
  CloudState state_;
  // Points to kReportWords words on the device: the status, the number of points, the number of rows, and the
  // bounds.
  i32* report_ = nullptr;
  static constexpr i64 kRowsAt = 2, kBoundsAt = 3;
  // Holds the position of this set's row count in the report, in words.
  i64 rows_at_ = kRowsAt;
  static constexpr i64 kReportWords = kBoundsAt + kBoundsWords;
  i32 host_report_[kReportWords] = {};
  i32* source_row_ = nullptr;
  i32* row_of_ = nullptr;
  // Points to the coordinates in ascending order, [rows, 1 + ndim]. It is null for a derived set.
  i32* coordinates_ = nullptr;
};

/// Lists which input row contributes to which output row at which kernel offset. A map does not change,
/// except that calls that use its queue add data to it.
class KernelMap {
 public:
  /// Waits until the host knows the row counts of both sets. Without a queue, the function also waits until
  /// the map is made. With a queue, it only enqueues that work, or defers it if an index can find the rows.
  static llvm::Expected<std::shared_ptr<KernelMap>> create(std::shared_ptr<const CoordinateSet> input,
                                                           std::shared_ptr<const CoordinateSet> output,
                                                           const AxisArray& kernel_size,
                                                           const AxisArray& dilation, bool transposed,
                                                           void* stream);
  /// Returns a map that has the same pairs in the other direction. Both maps share all memory.
  std::shared_ptr<KernelMap> transpose() const;
  /// Copies all pairs to the host as [pairs][3] numbers: offset, input row and output row. The rows are
  /// numbered in the caller's order.
  llvm::Error export_pairs(i32* pairs, void* stream) const;

  /// Returns InvalidArgument if `problem` cannot use this map. Messages call the op by the name `op`, for
  /// example "convolution".
  llvm::Error check_serves(const WindowProblem& problem, const char* op) const;

  const MapView& view() const { return pairs_->view; }
  const std::shared_ptr<Device>& device() const { return input_->engines()->device(); }
  const CoordinateSet& fine() const { return transposed_ ? *output_ : *input_; }
  const CoordinateSet& coarse() const { return transposed_ ? *input_ : *output_; }
  /// Enqueues the work that makes the rows, positions and counts of the map (MapView), if they are missing.
  /// The fused dataflow does not need them if an index provides the rows. The caller must hold the lock of
  /// the queue (Queue::lock).
  llvm::Error find_pairs() const;
  /// Returns the map with the data from which a view of the form Rows or Masked is made. A masked view whose
  /// rows an index provides needs no table of rows, and can be made after find_masks(). In all other cases
  /// the function enqueues the work that makes the rows, without positions and counts. The caller must hold
  /// the lock of the queue (Queue::lock).
  llvm::Expected<MapView> view_of(bool transposed, ViewForm form) const;
  /// Enqueues the searches for the masks that these maps still need for their views. All maps of one index
  /// are searched together.
  static llvm::Error find_masks(llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, Engine& engine);
  /// Returns the number of pairs of each offset. The first call reads these counts back and waits. If there
  /// is a queue, the caller must hold its lock (Queue::lock).
  llvm::Expected<llvm::ArrayRef<i32>> counts() const;
  /// Returns the total number of pairs. The conditions of counts() apply.
  llvm::Expected<i64> pairs() const;
  /// Returns true if the host knows the counts. Any thread may call this function.
  bool has_counts() const { return pairs_->has_counts; }
  const std::shared_ptr<Queue>& queue() const { return input_->queue(); }
  /// Returns the view of this direction and form that executions share, or null if there is none yet. The
  /// caller of this function or keep_view() must hold the lock of the queue (Queue::lock).
  std::shared_ptr<SharedView> find_view(bool transposed, ViewForm form) const;
  void keep_view(std::shared_ptr<SharedView> view) const { pairs_->views.push_back(std::move(view)); }
  /// Returns the views that one family of ops (OpFamily) keeps with the map. Only the files of that family
  /// know the type of these views.
  std::vector<std::shared_ptr<KeptView>>& kept_views(const OpFamily& family) const {
    return pairs_->kept[&family];
  }

 private:
  /// Holds the data that both directions of a map share.
  struct Pairs {
    MapView view;
    // The memory block `positions` also contains the counts (MapView::counts).
    DeviceMemory rows, masks, positions;
    // The flag is true once the search for the masks is enqueued.
    bool has_masks = false;
    // Holds the number of pairs of each offset. It is empty until these numbers are read back from the
    // device.
    std::vector<i32> counts;
    std::atomic<bool> has_counts{false};
    std::vector<std::shared_ptr<SharedView>> views;
    std::map<const OpFamily*, std::vector<std::shared_ptr<KeptView>>> kept;
  };

  KernelMap() = default;
  /// Enqueues the work that makes the rows, if they are missing. If `positions` is true, the work also makes
  /// the positions and counts.
  llvm::Error find(void* stream, bool positions) const;
  llvm::Error search(MapEngine& engine, MapView& found, std::vector<DeviceMemory>& used, void* stream) const;
  llvm::Error search_index(MapEngine& engine, MapView& found, void* stream) const;
  /// Returns the index that contains both sets. The result is empty if there is no such index, or if it does
  /// not have cells for all offsets.
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
