// Coordinate sets and kernel maps that live outside a network (paper 5.1), for single convolutions.
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

/// A set of a queue and the coarser ones that are made with it, all by one index of their cells, as soon as
/// somebody asks for one of them. Under Queue::work(), which calls of the queue hold.
struct SetFamily {
  std::vector<std::weak_ptr<const CoordinateSet>> wanted;  // until they are made; the caller may drop some
  i64 words = 0;                                           // of the index, of the wanted ones' levels too
  DeviceMemory counts;                                     // i32 [kMostReadbackWords] status, rows of each
  DeviceMemory memory;
  SetIndex index;  // in `memory`, once it is made: no set joins any more

  bool is_made() const { return index.layout != nullptr; }
};

/// A sorted, unique set on a device. Immutable, but that it may be made, and its rows counted, readback.
class CoordinateSet : public std::enable_shared_from_this<CoordinateSet> {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  /// Waits where there is no queue. With one it only enqueues, of a set that is itself not yet counted, too;
  /// or, where an index can have it, nothing: it is made with all others that are asked for until then.
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  /// InvalidArgument where it is not the queue's, if there is one.
  llvm::Error check_stream(void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  /// Makes this set, and what is made with it, where that was put off: under Queue::work(). Enqueues.
  llvm::Error make_wanted() const;
  /// Waits until the host knows how many rows a coarser set has, and makes it. Any thread, but that in calls
  /// of the queue make_wanted() goes before.
  llvm::Error count_rows() const;
  /// After count_rows(), as caller_rows().
  i64 rows() const { return rows_; }
  i32* count() const { return coords_.count; }  // device: rows(), of a set that is made
  /// Rows that the caller gave; the same as rows() for derived sets.
  i64 caller_rows() const { return caller_rows_ < 0 ? rows_ : caller_rows_; }
  const AxisArray& tensor_stride() const { return tensor_stride_; }
  /// [rows] the caller's row of each row, and back; null for derived sets, whose orders agree.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  const std::shared_ptr<MapEngines>& engines() const { return engines_; }
  /// What it was made with, and all that is made of it; or null.
  const std::shared_ptr<Queue>& queue() const { return queue_; }

 private:
  friend class KernelMap;
  CoordinateSet() = default;
  /// The queue's pool, or the device.
  std::shared_ptr<MemorySource> memory_source() const;
  llvm::Error allocate(i64 capacity, bool from_caller);
  /// Of its own; a coarser set that fits the finer one's shares that.
  llvm::Error allocate_layout();
  /// Whether `coarse` is made with others; else it is as it was.
  llvm::Expected<bool> join_family(CoordinateSet& coarse) const;
  /// What is made of it now.
  llvm::Expected<std::shared_ptr<CoordinateSet>> sort_coarser(std::shared_ptr<CoordinateSet> coarse,
                                                              void* stream) const;
  llvm::Error make_family(llvm::ArrayRef<std::shared_ptr<const CoordinateSet>> sets) const;
  bool is_made() const;
  /// Of the index, where there is one. What a caller gave may lie anywhere, whatever its tensor stride.
  AxisArray cell_stride() const { return coordinates_ ? AxisArray{1, 1, 1, 1} : tensor_stride_; }
  /// `declared`: null where the bounds are to be found.
  llvm::Error find_layout(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                          i32 key_bits) const;
  /// Sorts; the report is read by read_report().
  llvm::Error build(MapEngine& engine, const i32* coordinates, i64 count, const Bounds* declared,
                    i32 key_bits, void* stream);
  llvm::Error find_and_build(MapEngine& engine, const i32* coordinates, i64 count, void* stream);
  /// Waits.
  llvm::Error read_report(MapEngine& engine);
  llvm::Error take_report(llvm::ArrayRef<i32> report) const;
  /// Null once it is taken.
  std::shared_ptr<DeferredReadback> deferred_report() const;
  /// With room for rows(), or for what is known of them.
  Coords coords() const;
  /// The layout of bounds_.
  llvm::Error take_layout();
  /// Keys of this set under another layout, in `target`, which has room for rows() keys. What is enqueued
  /// reads `used`.
  llvm::Error repack(MapEngine& engine, const CloudLayout* layout, Coords target,
                     std::vector<DeviceMemory>& used) const;

  std::shared_ptr<MapEngines> engines_;
  std::shared_ptr<Queue> queue_;
  AxisArray tensor_stride_{1, 1, 1, 1};
  i64 guard_[kMaxDim] = {};             // of the layout: how far a map's offsets may reach
  i64 period_[kMaxDim] = {1, 1, 1, 1};  // of the layout: strides that divide it need no other
  Bounds bounds_;
  KeyLayout layout_;                   // as the device has it
  i32 key_bits_ = 0;                   // that the keys' sort went by; decides their width
  std::shared_ptr<SetFamily> family_;  // null of sets that are made by themselves, and have no coarser ones
  mutable i32 level_ = -1;             // of the family's index, once it has this set; under Queue::work()
  mutable std::mutex counting_;        // of the next three; never held while anything waits
  // Of the family, until this one is made. Written under Queue::work() too: either is enough to read it.
  mutable std::shared_ptr<const CoordinateSet> finest_;
  mutable std::shared_ptr<DeferredReadback> deferred_;  // the report of a set that is not counted yet
  mutable i64 rows_ = 0;
  i64 caller_rows_ = -1;  // none of a derived set
  DeviceMemory memory_;
  std::shared_ptr<const DeviceMemory> layout_memory_;
  Coords coords_;  // as allocated
  CloudState state_;
  i32* report_ = nullptr;  // [kReportWords] status, points, rows, bounds
  static constexpr i64 kRowsAt = 2, kBoundsAt = 3;
  i64 rows_at_ = kRowsAt;  // of deferred_
  static constexpr i64 kReportWords = kBoundsAt + kBoundsWords;
  i32 host_report_[kReportWords] = {};
  i32* source_row_ = nullptr;
  i32* row_of_ = nullptr;
  i32* coordinates_ = nullptr;  // [rows, 1 + ndim] ascending; null for derived sets
};

/// Which input feeds which output at which offset. Immutable but for what its queue's calls add.
class KernelMap {
 public:
  /// Waits where the sets have no queue, and for their rows; else only enqueues.
  static llvm::Expected<std::shared_ptr<KernelMap>> create(std::shared_ptr<const CoordinateSet> input,
                                                           std::shared_ptr<const CoordinateSet> output,
                                                           const AxisArray& kernel_size,
                                                           const AxisArray& dilation, bool transposed,
                                                           void* stream);
  /// The other direction of the same pairs; shares all memory.
  std::shared_ptr<KernelMap> transpose() const;
  /// [pairs][3] (k, input row, output row) to the host, in the caller's rows.
  llvm::Error export_pairs(i32* pairs, void* stream) const;

  /// InvalidArgument where it is not the map that an op asks for. `op`: "convolution", for the message.
  llvm::Error check_serves(const WindowProblem& problem, const char* op) const;

  const MapView& view() const { return pairs_->view; }
  const std::shared_ptr<Device>& device() const { return input_->engines()->device(); }
  const CoordinateSet& fine() const { return transposed_ ? *output_ : *input_; }
  const CoordinateSet& coarse() const { return transposed_ ? *input_ : *output_; }
  /// Rows, positions and counts, of which the fused dataflow reads none where an index tells rows: in calls
  /// of the queue only. They are there after this.
  llvm::Error find_pairs() const;
  /// The map as views of one direction in the form Rows or Masked are made of it. A masked view may be made
  /// of an index, where that tells its rows, once find_masks() was called; else rows are there after this,
  /// without positions and counts. In calls of the queue only.
  llvm::Expected<MapView> view_of(bool transposed, ViewForm form) const;
  /// The masks that views of these maps are made of; of all maps together. Enqueues.
  static llvm::Error find_masks(llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, Engine& engine);
  /// The pairs of each offset, and of all. Where there is a queue, in its calls only: the first one reads
  /// them back, and waits.
  llvm::Expected<llvm::ArrayRef<i32>> counts() const;
  llvm::Expected<i64> pairs() const;
  /// Any thread may ask.
  bool has_counts() const { return pairs_->has_counts; }
  const std::shared_ptr<Queue>& queue() const { return input_->queue(); }
  /// Views that executions share; in calls of the queue only.
  std::shared_ptr<SharedView> find_view(bool transposed, ViewForm form) const;
  void keep_view(std::shared_ptr<SharedView> view) const { pairs_->views.push_back(std::move(view)); }
  /// Views of one family of ops, of a type that its files know.
  std::vector<std::shared_ptr<KeptView>>& kept_views(const OpFamily& family) const {
    return pairs_->kept[&family];
  }

 private:
  /// What both directions share.
  struct Pairs {
    MapView view;
    DeviceMemory rows, masks, positions;  // and counts
    bool has_masks = false;               // or will have, by what is enqueued
    std::vector<i32> counts;              // none until they are read back,
    std::atomic<bool> has_counts{false};
    std::vector<std::shared_ptr<SharedView>> views;
    std::map<const OpFamily*, std::vector<std::shared_ptr<KeptView>>> kept;
  };

  KernelMap() = default;
  /// Rows where they are not there yet; positions and counts.
  llvm::Error find(void* stream, bool positions) const;
  llvm::Error search(MapEngine& engine, MapView& found, std::vector<DeviceMemory>& used, void* stream) const;
  llvm::Error search_index(MapEngine& engine, MapView& found, void* stream) const;
  /// The index that has both sets; none where an offset leads past what it has cells for.
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
