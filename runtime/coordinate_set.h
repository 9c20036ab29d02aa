// Coordinate sets and kernel maps that live outside a network (paper 5.1), for single convolutions.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cloud_layout.h"
#include "runtime/map_engines.h"

namespace minuet {

struct CoordinateSetOptions {
  AxisArray tensor_stride{1, 1, 1, 1};
  bool keep_first_duplicate = false;
  i64 max_offset[kMaxDim] = {128, 128, 128, 128};
  bool has_bounds = false;
  Bounds bounds;
};

/// A sorted, unique set on a device. Immutable.
class CoordinateSet {
 public:
  static llvm::Expected<std::shared_ptr<CoordinateSet>> create(std::shared_ptr<MapEngines> engines,
                                                               const CoordinateSetOptions& options,
                                                               const i32* coordinates, i64 count,
                                                               void* stream);
  llvm::Expected<std::shared_ptr<CoordinateSet>> downsample(const AxisArray& stride, void* stream) const;
  llvm::Error export_coordinates(i32* coordinates, void* stream) const;

  i64 rows() const { return rows_; }
  /// Rows that the caller gave; the same as rows() for derived sets.
  i64 caller_rows() const { return caller_rows_; }
  const AxisArray& tensor_stride() const { return tensor_stride_; }
  /// [rows] the caller's row of each row, and back; null for derived sets, whose orders agree.
  const i32* source_row() const { return source_row_; }
  const i32* row_of() const { return row_of_; }
  const std::shared_ptr<MapEngines>& engines() const { return engines_; }

 private:
  friend class KernelMap;
  CoordinateSet() = default;
  llvm::Error allocate(i64 capacity, bool from_caller);
  llvm::Error build(MapEngine& engine, const i32* coordinates, i64 count, void* stream);
  llvm::Error finish(MapEngine& engine, const KeyLayout& layout);
  /// Keys of this set under another layout, in `target`, which has room for rows() keys.
  llvm::Error repack(MapEngine& engine, const KeyLayout& layout, const Bounds& bounds, Coords target) const;

  std::shared_ptr<MapEngines> engines_;
  AxisArray tensor_stride_{1, 1, 1, 1};
  i64 guard_[kMaxDim] = {};             // of the layout: how far a map's offsets may reach
  i64 period_[kMaxDim] = {1, 1, 1, 1};  // of the layout: strides that divide it need no other
  Bounds bounds_;
  KeyLayout layout_;
  i64 rows_ = 0, caller_rows_ = 0;
  DeviceMemory memory_;
  Coords coords_;
  i32* report_ = nullptr;  // [2 + kBoundsWords] status, count, bounds
  i32* source_row_ = nullptr;
  i32* row_of_ = nullptr;
  i32* coordinates_ = nullptr;  // [rows, 1 + ndim] ascending
};

/// Which input feeds which output at which offset. Immutable.
class KernelMap {
 public:
  static llvm::Expected<std::shared_ptr<KernelMap>> create(std::shared_ptr<const CoordinateSet> input,
                                                           std::shared_ptr<const CoordinateSet> output,
                                                           const AxisArray& kernel_size,
                                                           const AxisArray& dilation, bool transposed,
                                                           void* stream);
  /// [pairs][3] (k, input row, output row) to the host, in the caller's rows.
  llvm::Error export_pairs(i32* pairs, void* stream) const;

  /// InvalidArgument where it is no map of such a convolution.
  llvm::Error check_serves(const ConvolutionProblem& problem) const;

  const MapView& view() const { return view_; }
  const std::shared_ptr<Device>& device() const { return input_->engines()->device(); }
  const CoordinateSet& fine() const { return transposed_ ? *output_ : *input_; }
  const CoordinateSet& coarse() const { return transposed_ ? *input_ : *output_; }
  const std::vector<i32>& counts() const { return counts_; }
  i64 pairs() const { return pairs_; }

 private:
  KernelMap() = default;
  llvm::Error search(void* stream);

  std::shared_ptr<const CoordinateSet> input_, output_;
  bool transposed_ = false;
  MapView view_;
  DeviceMemory memory_;
  std::vector<i32> counts_;
  i64 pairs_ = 0;
};

}  // namespace minuet
