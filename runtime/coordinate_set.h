// Coordinate sets and kernel maps that live outside a network (paper 5.1), for single convolutions.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/fused_view.h"
#include "runtime/gmas_view.h"
#include "runtime/map_engines.h"
#include "runtime/queue.h"

namespace minuet {

struct CoordinateSetOptions {
  AxisArray tensor_stride{1, 1, 1, 1};
  bool keep_first_duplicate = false;
  i64 max_offset[kMaxDim] = {128, 128, 128, 128};
  bool has_bounds = false;
  Bounds bounds;
  std::shared_ptr<Queue> queue;  // may be null
};

/// A sorted, unique set on a device. Immutable, but that its rows may be counted late.
class CoordinateSet {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  /// Waits where there is no queue; else only enqueues, of a set that is itself not yet counted, too.
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  /// Waits until the host knows how many rows a coarser set has. Any thread.
  llvm::Error count_rows() const;
  /// After count_rows(), as caller_rows().
  i64 rows() const { return rows_; }
  i32* count() const { return coords_.count; }  // device: rows()
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
  llvm::Error check_stream(void* stream) const;
  llvm::Error allocate(i64 capacity, bool from_caller);
  /// Of its own; a coarser set that fits the finer one's shares that.
  llvm::Error allocate_layout();
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
  std::shared_ptr<LateWords> late_report() const;
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
  KeyLayout layout_;                         // as the device has it
  i32 key_bits_ = 0;                         // that the keys' sort went by; decides their width
  mutable std::mutex counting_;              // of the next two; never held while anything waits
  mutable std::shared_ptr<LateWords> late_;  // the report of a set that is not counted yet
  mutable i64 rows_ = 0;
  i64 caller_rows_ = -1;  // none of a derived set
  DeviceMemory memory_;
  std::shared_ptr<const DeviceMemory> layout_memory_;
  Coords coords_;  // as allocated
  CloudState state_;
  i32* report_ = nullptr;  // [kReportWords] status, points, rows, bounds
  static constexpr i64 kRowsAt = 2, kBoundsAt = 3;
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

  /// InvalidArgument where it is no map of such a convolution.
  llvm::Error check_serves(const ConvolutionProblem& problem) const;

  const MapView& view() const { return pairs_->view; }
  const std::shared_ptr<Device>& device() const { return input_->engines()->device(); }
  const CoordinateSet& fine() const { return transposed_ ? *output_ : *input_; }
  const CoordinateSet& coarse() const { return transposed_ ? *input_ : *output_; }
  /// Positions, counts, and an identity's rows, of which the fused dataflow reads none: in calls of the queue
  /// only. They are there after this.
  llvm::Error find_pairs() const;
  /// The pairs of each offset, and of all. Where there is a queue, in its calls only: the first one reads
  /// them back, and waits.
  llvm::Expected<llvm::ArrayRef<i32>> counts() const;
  llvm::Expected<i64> pairs() const;
  /// Any thread may ask.
  bool has_counts() const { return pairs_->has_counts; }
  const std::shared_ptr<Queue>& queue() const { return input_->queue(); }
  /// Views that executions share; in calls of the queue only.
  std::shared_ptr<GmasView> find_gmas_view(i32 direct_offset, const GroupingChoice& grouping) const;
  void keep_gmas_view(std::shared_ptr<GmasView> view) const { pairs_->gmas_views.push_back(std::move(view)); }
  std::shared_ptr<FusedView> find_fused_view(bool transposed) const;
  void keep_fused_view(std::shared_ptr<FusedView> view) const {
    pairs_->fused_views.push_back(std::move(view));
  }

 private:
  /// What both directions share.
  struct Pairs {
    MapView view;
    DeviceMemory rows, positions;  // and counts
    std::vector<i32> counts;       // none until they are read back,
    std::atomic<bool> has_counts{false};
    std::vector<std::shared_ptr<GmasView>> gmas_views;
    std::vector<std::shared_ptr<FusedView>> fused_views;
  };

  KernelMap() = default;
  /// Rows where they are not there yet; positions and counts.
  llvm::Error find(void* stream, bool positions) const;
  llvm::Error search(MapEngine& engine, MapView& found, std::vector<DeviceMemory>& used, void* stream) const;
  MapLimits limits(i32 key_bits, i32 sets) const;
  llvm::Error read_counts(MapEngine& engine) const;
  bool is_identity() const { return input_ == output_ && view().geometry.volume == 1; }

  std::shared_ptr<const CoordinateSet> input_, output_;
  bool transposed_ = false;
  std::shared_ptr<Pairs> pairs_ = std::make_shared<Pairs>();
};

}  // namespace minuet
