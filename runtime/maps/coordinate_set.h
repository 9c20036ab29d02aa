// Declares the coordinate sets and kernel maps that exist outside of networks, for single convolutions
// (section 5.1 of the Minuet paper).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/engine/queue.h"
#include "runtime/engine/set_index.h"
#include "runtime/maps/map_engines.h"
#include "runtime/maps/map_sides.h"
#include "runtime/maps/shared_view.h"

namespace minuet {

class CoordinateSet;

struct CoordinateSetOptions {
  AxisArray tensor_stride{1, 1, 1, 1};
  bool keep_first_duplicate = false;
  bool has_bounds = false;
  Bounds bounds;
  // The pointer is null if the set uses no queue.
  std::shared_ptr<Queue> queue;
};

/// Holds what a set with a queue shares with the coarser sets derived from it. One index of voxels makes all
/// of these sets, as soon as one of them is needed. A thread may access the family only while it holds the
/// lock of Queue::work(). Queue::lock() takes that lock for a whole call.
struct SetFamily {
  // Lists the sets that are still to be made. The pointers are weak because the caller may release a set
  // before it is made.
  std::vector<std::weak_ptr<const CoordinateSet>> deferred_sets;
  static constexpr i64 kCountWords = kMostReadbackWords + 2;
  // Holds kCountWords i32 words on the device. These are the status bits, and then the number of rows of
  // each deferred set. The last two words are scratch memory.
  DeviceMemory counts;
  DeviceMemory memory;
  // Points to the index in `memory`. Once the index is made, no more sets join the family.
  IndexMemory index;

  bool is_made() const { return index.index != nullptr; }
};

/// Holds a set of unique coordinates on a device, in an index of its voxels. A set does not change after its
/// creation, except that the work that makes it and the read-back of its row count may be deferred.
class CoordinateSet : public std::enable_shared_from_this<CoordinateSet> {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  /// Returns the set of the coordinates of this set, rounded down to multiples of its tensor stride times
  /// `stride`. Without a queue, the function waits until the coarser set is made. With a queue, it only
  /// enqueues work, even if the host does not know the row count of this set yet. If the coarser set can join
  /// the family of this set (SetFamily), the function does not even enqueue work. The set is then made later,
  /// together with all other sets that have joined until then.
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  /// Returns the set of all coordinates that an op with this stride reaches from this set (ReachSpec). The
  /// tensor stride of a generative op's set is that of this set divided by the stride.
  /// `shape` is that of SetSpec. Waits like downsample(), but the set never joins a family (SetFamily),
  /// because callers may begin a capture right after the call.
  llvm::Expected<std::shared_ptr<CoordinateSet>> reach(const ReachSpec& reach, const AxisArray& stride,
                                                       const AxisArray& shape, void* stream) const;
  /// Returns InvalidArgument if the set has a queue and `stream` is not the queue's stream.
  llvm::Error check_stream(void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  /// Enqueues the work that makes this set and the other deferred sets of its family (SetFamily), if that
  /// work was deferred. If the set has a queue, the caller must hold the lock of Queue::work().
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
  /// Allocates the memory of an index (voxel_index.h) that has this set only.
  llvm::Error allocate_index(i64 capacity);
  /// Adds `coarse` to the family of this set (SetFamily), so that it is made together with the other sets,
  /// and returns true. If the family cannot take it, the function returns false and leaves `coarse`
  /// unchanged.
  llvm::Expected<bool> join_family(CoordinateSet& coarse) const;
  /// Returns a coarser set with the stride and the bounds that downsample() gives it, but without memory.
  llvm::Expected<std::shared_ptr<CoordinateSet>> describe_coarser(const AxisArray& stride) const;
  /// Makes a coarser set, which has memory, in an index of its own, without deferring the work.
  llvm::Error index_coarser(CoordinateSet& coarse, void* stream) const;
  /// Returns the set that downsample() makes, which has an index of its own and is never deferred.
  llvm::Expected<std::shared_ptr<CoordinateSet>> round_down(const AxisArray& stride, void* stream) const;
  llvm::Error make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const;
  bool is_made() const;
  /// Returns the stride of the set's voxels in an index. It is 1 for a set that the caller gave, because its
  /// coordinates need not be multiples of its tensor stride.
  AxisArray voxel_stride() const { return coordinates_ ? AxisArray{1, 1, 1, 1} : tensor_stride_; }
  /// Returns the description of an index of sets with these voxel strides.
  llvm::Expected<VoxelIndex> describe(llvm::ArrayRef<AxisArray> strides) const;
  /// Returns this set and the one that is reached from it as the two levels of an index.
  std::vector<SetSpec> reached_levels(const ReachSpec& reach, const AxisArray& tensor_stride,
                                      const AxisArray& shape) const;
  /// Makes a set that is reached from this one in an index of both sets, with room for `capacity` rows.
  /// If coordinates of this set are outside `bounds`, the status in reached.host_report_ says so, and
  /// reached.bounds_ becomes their actual bounds, unless bounds are declared or there is a queue.
  llvm::Error index_reached(MapEngine& engine, CoordinateSet& reached, llvm::ArrayRef<SetSpec> levels,
                            const Bounds& bounds, i64 capacity) const;
  /// Enqueues the work that builds a set that the caller gave. read_report() reads back the row count.
  llvm::Error build(MapEngine& engine, const i32* coordinates, i64 count, void* stream);
  /// Enqueues the work that builds this set in an index of its own. `given_count` points to the number of
  /// coordinates in device memory. If it is null, there are `most` coordinates.
  llvm::Error index_alone(MapEngine& engine, const i32* coordinates, const i32* given_count, i64 most,
                          i32* row_of);
  /// Sets bounds_ to the bounds of the caller's coordinates. The function waits for the device.
  llvm::Error find_bounds(MapEngine& engine, const i32* coordinates, i64 count);
  /// Copies the report, which is the words at report_, to host_report_ and waits for the copy.
  llvm::Error read_report(MapEngine& engine);
  llvm::Error take_report(llvm::ArrayRef<i32> report) const;
  /// Returns the pending read-back of the status and the row count, or null if there is none.
  std::shared_ptr<DeferredReadback> deferred_report() const;
  /// Returns the set for use by MapOperations. Its capacity is the number of rows if the host knows this
  /// number, and otherwise an upper bound of the number.
  Coords coords() const;
  /// Returns an index that contains the set, and the set's level in it. This is the index of the family
  /// (SetFamily) if it is made and contains the set, and otherwise the set's own index.
  IndexSide side() const;

  std::shared_ptr<MapEngines> engines_;
  std::shared_ptr<Queue> queue_;
  AxisArray tensor_stride_{1, 1, 1, 1};
  // Holds the range of the coordinates that an index of this set must have room for.
  Bounds bounds_;
  bool has_bounds_ = false;  // Says whether the caller declared the bounds.
  // The pointer is null for a set without a queue, and for a set that has joined no family.
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
  // Holds the index of this set alone. It is empty for a set that was made with its family.
  DeviceMemory index_memory_;
  IndexMemory index_;
  i32 index_level_ = 0;     // Holds the number of this set among the levels of index_.
  i64 index_capacity_ = 0;  // Gives the number of rows for which index_ was placed.
  // Holds the set with the allocated capacity, which may exceed the number of rows.
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
  // Points to the coordinates in the order of the rows, [rows, 1 + ndim]. It is null for a derived set.
  i32* coordinates_ = nullptr;
};

/// Lists which input row contributes to which output row at which kernel offset. A map does not change,
/// except that calls that use its queue add data to it.
class KernelMap {
 public:
  /// Waits until the host knows the row counts of both sets. Without a queue, the function also waits until
  /// the map is made. With a queue, it only enqueues that work, or defers it if an index of both sets can
  /// find the rows. Of `kernel`, the function reads kernel_size, dilation, padding and offsets, and
  /// check_offsets() must have accepted the offsets.
  static llvm::Expected<std::shared_ptr<KernelMap>> create(std::shared_ptr<const CoordinateSet> input,
                                                           std::shared_ptr<const CoordinateSet> output,
                                                           const WindowProblem& kernel, bool transposed,
                                                           void* stream);
  /// Returns a map that has the same pairs in the other direction. Both maps share all memory.
  std::shared_ptr<KernelMap> transpose() const;
  /// Copies all pairs to the host as [pairs][3] numbers: offset, input row and output row. The rows are
  /// numbered in the caller's order.
  llvm::Error export_pairs(i32* pairs, void* stream) const;
  /// Enqueues the same to device memory for the first `capacity` pairs, sorted by offset, and stores the
  /// number of all pairs at `count`. Returns InvalidArgument if a set of the map has duplicates.
  llvm::Error list_pairs(i32* pairs, i64 capacity, i32* count, void* stream) const;
  /// Returns InvalidArgument if a set of the map lacks duplicates that it was made of. A convolution gives a
  /// duplicate the output of the first row of equal coordinates, so that gradients of several rows would have
  /// to be added, which no op does.
  llvm::Error check_no_duplicates() const;

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
  /// Enqueues one search (MapOperations::search_index()) for the masks that these maps still need for
  /// their views. The search handles all the maps together.
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
    OffsetList offsets;  // Holds the list to which MapView::offsets refers.
    // The memory block `positions` also contains the counts (MapView::counts).
    DeviceMemory rows, masks, positions;
    // The flag is true if the map's offsets lead from a coarser voxel of an index to the finer voxels in
    // it (fills_voxels()). The memory block `masks` then also contains IndexedSides::children and parents.
    bool has_children = false;
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
  PairsRequest pairs_request(i32* pairs, i64 capacity, i32* count) const;
  /// Sets MapView::index if one index contains both sets and the device can look rows up in it.
  void find_index(const WindowProblem& kernel) const;
  bool is_indexed() const { return view().index.index != nullptr; }
  llvm::Error place_masks() const;
  MapLimits limits() const;
  llvm::Error read_counts(MapEngine& engine) const;
  /// Returns true if the map has only the offset 0 and both sets are the same.
  bool is_identity() const { return input_ == output_ && view().has_only_offset_0(); }

  std::shared_ptr<const CoordinateSet> input_, output_;
  bool transposed_ = false;
  std::shared_ptr<Pairs> pairs_ = std::make_shared<Pairs>();
};

}  // namespace minuet
