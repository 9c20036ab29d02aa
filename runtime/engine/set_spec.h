// Describes coordinate sets by the way in which they follow from other sets.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "kernels_templates/shared/reached_cells.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/cloud_layout.h"

namespace minuet {

/// Describes a coordinate set that has every coordinate which an op reaches from its parent set, like the
/// outputs of a dense convolution. These are all multiples q of the set's tensor stride for which
/// q + (k * dilation - padding) * (the parent's tensor stride) is in the parent set for some offset k of the
/// kernel. If the set has a shape, it lacks the coordinates outside of it.
///
/// A generative op leads the other way, from a coarser parent to a finer set. The set then has all
/// q + (k * dilation - padding) * (the set's own tensor stride) for coordinates q of the parent, so that the
/// op reads the map of the op above backwards.
struct ReachSpec {
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  AxisArray padding{};
  bool is_generative = false;
  bool operator==(const ReachSpec&) const = default;
};

/// Describes a coordinate set.
struct SetSpec {
  // Holds the stride of each axis, or 0 if the caller gives the set.
  AxisArray tensor_stride{1, 1, 1, 1};
  // Holds the number of the set from which this one is made, among the sets of a network, a pyramid or an
  // index. It is -1 if the set is made of the caller's coordinates.
  i32 parent = -1;
  // Holds the number of another such set if the set is the union or the intersection of both, and -1
  // otherwise.
  i32 other_parent = -1;
  // Says whether a set of two parents has the coordinates that are in both, and not those that are in either.
  // The tensor strides of both parents divide that of an intersection (common_multiple()), and are multiples
  // of that of a union (common_stride()).
  bool is_intersection = false;
  // Is empty if the set has the coordinates of its parents, rounded down to multiples of its tensor stride.
  std::optional<ReachSpec> reach = std::nullopt;
  // Holds the number of cells that the set may have on each axis, in units of its tensor stride. Coordinates
  // divided by the tensor stride are from 0 to this number - 1. It is 0 on each axis if the set has no shape.
  AxisArray shape{};

  bool has_shape() const { return shape[0] > 0; }
  bool has_two_parents() const { return other_parent >= 0; }
  bool is_union() const { return has_two_parents() && !is_intersection; }
  /// Returns false if the set has the coordinates of a single set, rounded down.
  bool is_reached_or_combined() const { return reach.has_value() || has_two_parents(); }
};

/// Returns the padding with which the offsets of a kernel are centred.
AxisArray centred_padding(const AxisArray& kernel_size, const AxisArray& dilation);

/// Returns the greatest common divisor of two tensor strides on each axis.
AxisArray common_stride(const AxisArray& first, const AxisArray& second);

/// Returns the least common multiple of two tensor strides on each axis, which may exceed kMostCells.
std::array<i64, kMaxDim> common_multiple(const AxisArray& first, const AxisArray& second);

/// Describes how the cells of a set are found from the coordinates of its parent, and then from those of its
/// other parent if it is a union.
using LevelSources = std::vector<LevelSource>;
/// Returns the sources of set number `set`, which has a parent.
LevelSources sources_of(i32 ndim, llvm::ArrayRef<SetSpec> sets, std::size_t set);

/// Returns, for each set, bounds of its coordinates if those of the caller are inside `bounds`. The parents
/// of each set come before it. Returns OutOfRange if a coordinate would not fit into 32 bits.
llvm::Expected<std::vector<Bounds>> bounds_of_sets(i32 ndim, const Bounds& bounds,
                                                   llvm::ArrayRef<SetSpec> sets);

/// Returns the same sets in the form in which they are made fastest: without the reach of those that have the
/// coordinates of their parents, rounded down. An index makes such sets together, and each set that is
/// reached by itself. A kernel of as many cells as its stride, without padding and dilation, reaches from
/// each coordinate only the cell that contains it. The shape of the set must have this cell, whatever the
/// coordinates inside `bounds` are, or else the set stays as it is. `bounds` is empty if the coordinates of
/// the caller may be anywhere. The parents of each set come before it.
std::vector<SetSpec> rounded_where_equal(i32 ndim, const std::optional<Bounds>& bounds,
                                         std::vector<SetSpec> sets);

/// Returns how far, on an axis, coordinates of any set may lie outside of the bounds of the caller's
/// coordinates because they are reached from them.
i64 reach_margin(i32 axis, llvm::ArrayRef<SetSpec> sets);

}  // namespace minuet
