// This file declares the Spec (compile time) and Params (run time) of the kernels that make voxels of points,
// and give features of voxels back to points. All pointers are device pointers.
//
// To make voxels, each point is inserted into a hash table, whose slots hold the lowest point of a cell and
// the number of its points (insert_points). The sums of both over the points before a point number the voxels
// and give each voxel a part of the list of points (number_voxels). Then each point gets the row of its voxel
// and a place in the list (assign_rows), and each voxel combines its points in their order (reduce_voxels).
// A warp brings the points of one voxel into order itself if there are few. If a voxel has more than
// kUnsortedPoints, a stable sort by row lists all points in order instead (runtime/cuda/sort.h).
//
// To give features back, the rows of the level are inserted into a hash table (index_rows), the voxels around
// each point are looked up (weigh_corners), and their features are added up (devoxelize). For the nearest
// voxel, devoxelize alone is launched.
#pragma once

#include "kernels_templates/shared/counts.h"
#include "kernels_templates/shared/point_functions.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Marks a slot of a hash table that holds no row.
constexpr i32 kFreeSlot = -1;

/// The kernel clear_words fills several arrays with words.
struct ClearWordsSpec {
  i32 threads = 256;
  bool operator==(const ClearWordsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
constexpr i32 kMostClearedArrays = 4;
struct ClearedArray {
  u32* words;
  i64 count;
  u32 word;
};
struct ClearWordsParams {
  ClearedArray arrays[kMostClearedArrays];
  i32 count;
};

/// Points to points in the caller's memory.
struct PointArray {
  const float* points;  // Has the shape [most, ld] and begins with the position.
  i64 ld;
  const i32* batch;  // Has the shape [most]. If the pointer is null, all points are in batch item 0.
  const i32* count;  // Points to the number of points. If the pointer is null, there are `most`.
  i64 most;
};

/// Numbers the words of VoxelizeParams::counts.
enum PointCount : i32 {
  kCountVoxels,
  kCountKept,        // Counts the points that are in a voxel and count for its features.
  kCountOutside,     // Counts points outside the range, and those whose cell int32 cannot hold.
  kCountNotFinite,   // Counts points whose position is not finite.
  kCountPastPoints,  // Counts points that are in a voxel which already has as many as are asked for.
  kCountPastVoxels,  // Counts points whose voxel is past the number of voxels that is asked for.
};
constexpr i32 kPointCounts = 6;

struct InsertPointsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  bool operator==(const InsertPointsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
/// A block of number_voxels numbers `threads` points.
struct NumberVoxelsSpec {
  i32 threads = 512;
  bool operator==(const NumberVoxelsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct AssignRowsSpec {
  i32 threads = 256;
  bool operator==(const AssignRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct ReduceVoxelsSpec {
  DType io = DType::F32;
  i32 ndim = 3;
  PointReduction reduction = PointReduction::Mean;
  i32 threads = 128;
  bool operator==(const ReduceVoxelsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("ndim", ndim), visitor("reduction", reduction), visitor("threads", threads);
  }
};

/// A thread of reduce_voxels combines this many channels.
constexpr i32 kPointChannels = 4;
/// The points of the voxels are sorted only if a voxel has more points than a warp has threads.
constexpr i32 kUnsortedPoints = 32;

struct VoxelizeParams {
  PointArray points;
  PointGrid grid;
  i32 batch_size;  // Counts the batch items, or is 0 if their number is not limited.
  /// Points to the number of points, which insert_points stores.
  i32* point_count;
  i32* table;      // Has `slots` words, which are kFreeSlot before insert_points.
  u32 slots;       // Is a power of two.
  u32* points_in;  // Holds the number of points of each slot, and must be preset to 0.
  i32* slot_of;    // Holds the slot of each point, or -1 for one that is dropped.
  u32* place_of;   // Holds the place of each point among those of its slot.
  /// Hold the states of each tile of number_voxels (tile_sums.h), which must be preset to 0, of two sums.
  u32 *tiles, *begin_tiles;
  i32* first_rows;  // Holds the row of a voxel at the number of its first point.
  u32* begins;      // Holds where the points of each voxel begin in `list`, and, behind that, where they end.
  i32* sort_count;  // Receives the number of points if they must be sorted, and must be preset to 0.
  /// Limits the points of a voxel that count for its features, and the voxels.
  i64 most_points, most_voxels;
  i64 capacity;  // Limits the rows. If there are more, all points are dropped, and the status says so.
  i32* counts;   // Receives kPointCounts words, which must be preset to 0.
  u32* status;   // Receives kStatus... bits, and must be preset to 0.
  i32* rows;     // Receives the row of each point, or -1. The pointer may be null.
  /// If the points must be sorted, `keys` receives the row of each point, or past_key if it has none, and
  /// `values` its number.
  u32 *keys, *values;
  u32 past_key;  // Is larger than every row.
  /// Holds the numbers of the points, voxel after voxel. The sort writes it, or assign_rows if there is none.
  u32* list;
  i32 column, channels;  // The features of a point are `channels` numbers from this column on.
  i32* coordinates;      // Receives [capacity, 1 + ndim] words.
  void* features;        // Receives [capacity, channels] numbers.
  i64 features_ld;
  i32* points_of;  // Receives the number of points of each row that count. The pointer may be null.
};

struct IndexRowsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  bool operator==(const IndexRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct WeighCornersSpec {
  i32 ndim = 3;
  bool at_centres = true;  // Says where a voxel is (PointBlend).
  i32 threads = 128;
  bool operator==(const WeighCornersSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("at_centres", at_centres), visitor("threads", threads);
  }
};
struct CornersParams {
  PointArray points;
  PointGrid grid;
  i32 tensor_stride[kMaxDim];
  const i32* coordinates;  // Has the shape [most_rows, 1 + ndim].
  const i32* row_count;    // Points to the number of rows. If the pointer is null, there are `most_rows`.
  i64 most_rows;
  i32* table;  // This member and the next are as in VoxelizeParams, but slots hold rows.
  u32 slots;
  i32* rows;       // Receives the row of each corner, or -1, in the shape [corners][points.most].
  float* weights;  // Receives the weight of each corner, in the same shape.
};

struct DevoxelizeSpec {
  DType io = DType::F32;
  i32 corners = 8;        // Counts the rows of each point. One row has the weight 1.
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
  i32 threads = 256;
  bool operator==(const DevoxelizeSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("corners", corners), visitor("vector_bytes", vector_bytes),
        visitor("threads", threads);
  }
};
struct DevoxelizeParams {
  const void* input;
  i64 input_ld;
  const i32*
      input_count;  // Points to the number of input rows. If the pointer is null, there are input_rows.
  i64 input_rows;
  const i32* rows;       // Has the shape [corners][most]. A row that does not exist is left out.
  const float* weights;  // Has the same shape. The pointer is null for one corner.
  const i32* count;      // This member and the next are as in PointArray.
  i64 most;
  i32 vectors;  // Counts the vectors of a row.
  void* output;
  i64 output_ld;
};

}  // namespace minuet
