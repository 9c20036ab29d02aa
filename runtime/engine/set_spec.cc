#include "runtime/engine/set_spec.h"

#include <algorithm>
#include <climits>
#include <numeric>

namespace minuet {
namespace {

/// Returns the number whose product with `factor` is 1 modulo `modulus`. Both have no common divisor.
i32 inverse_of(i64 factor, i64 modulus) {
  // This is the extended Euclidean algorithm.
  i64 previous = 0, current = 1, dividend = modulus, divisor = factor % modulus;
  while (divisor > 1) {
    const i64 quotient = dividend / divisor;
    std::swap(dividend, divisor);
    divisor -= quotient * dividend;
    std::swap(previous, current);
    current -= quotient * previous;
  }
  return static_cast<i32>(modulus == 1 ? 0 : (current % modulus + modulus) % modulus);
}

/// Describes how the cells of a set are found from the coordinates of set number `parent`.
[[gnu::cold]] LevelSource source_of(i32 ndim, llvm::ArrayRef<SetSpec> sets, const SetSpec& spec, i32 parent) {
  const AxisArray& parent_stride = sets[parent].tensor_stride;
  LevelSource source = {};
  source.parent = parent;
  source.also_in = spec.is_intersection ? spec.other_parent : -1;
  source.cells = 1;
  for (i32 a = 0; a < kMaxDim; ++a) {
    const i32 stride = a < ndim ? spec.tensor_stride[a] : 1;
    source.stride[a] = stride;
    source.kernel_size[a] = stride;
    source.step[a] = 1;
    if (spec.is_intersection) {
      // A coordinate has a cell only if it is a multiple of the stride. It is not rounded down.
      source.kernel_size[a] = 1;
      source.step[a] = stride;
    }
    if (spec.reach && a < ndim) {
      const i32 finer = spec.reach->is_generative ? stride : parent_stride[a];
      source.kernel_size[a] = spec.reach->kernel_size[a];
      source.step[a] = spec.reach->dilation[a] * finer;
      source.padding[a] = spec.reach->padding[a] * finer;
      if (spec.reach->is_generative) {
        // The equation of LevelSource subtracts the offsets, which a generative op adds. Their order does not
        // matter for the cells, so the offsets are numbered from the other end.
        source.padding[a] = (source.kernel_size[a] - 1) * source.step[a] - source.padding[a];
      }
    }
    source.shape[a] = a < ndim ? spec.shape[a] : 0;
    source.common[a] = std::gcd(source.step[a], stride);
    source.period[a] = stride / source.common[a];
    source.inverse[a] = inverse_of(source.step[a] / source.common[a], source.period[a]);
    source.common_shift[a] = log2_or_none(source.common[a]);
    source.period_shift[a] = log2_or_none(source.period[a]);
    source.stride_shift[a] = log2_or_none(stride);
    source.axis_cells[a] = (source.kernel_size[a] + source.period[a] - 1) / source.period[a];
    source.cells *= source.axis_cells[a];
  }
  return source;
}

/// Sets the range of one axis of a set to that of the cells found from a parent, which has the range
/// [least, greatest] on it.
void find_range(const LevelSource& source, i32 axis, i64& least, i64& greatest) {
  const i64 stride = source.stride[axis], padding = source.padding[axis];
  const auto floor_div = [&](i64 value) {
    return floor_quotient(value, source.stride[axis], source.stride_shift[axis]);
  };
  const i64 extent = i64{source.kernel_size[axis] - 1} * source.step[axis];
  i64 first = -floor_div(-(least + padding - extent)), last = floor_div(greatest + padding);
  if (const i64 shape = source.shape[axis]; shape > 0) {
    first = std::clamp<i64>(first, 0, shape - 1);
    last = std::clamp<i64>(last, first, shape - 1);
  }
  least = first * stride;
  greatest = std::max(first, last) * stride;
}

/// Holds the range of a set's coordinates on each axis. The numbers may exceed 32 bits.
struct SetRange {
  i64 least[kMaxDim] = {}, greatest[kMaxDim] = {};
};

/// Returns the range of each set if the coordinates of the caller are inside `bounds`. The parents of each
/// set come before it.
std::vector<SetRange> ranges_of_sets(i32 ndim, const Bounds& bounds, llvm::ArrayRef<SetSpec> sets) {
  std::vector<SetRange> all;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    SetRange own;
    const LevelSources sources = sets[i].parent < 0 ? LevelSources() : sources_of(ndim, sets, i);
    for (i32 a = 0; a < ndim; ++a) {
      if (sources.empty()) {
        // A set of the caller's coordinates need not have multiples of its tensor stride. An index divides
        // them by it all the same.
        own.least[a] = floor_to_multiple(bounds.least[a + 1], sets[i].tensor_stride[a]);
        own.greatest[a] = floor_to_multiple(bounds.greatest[a + 1], sets[i].tensor_stride[a]);
        continue;
      }
      own.least[a] = INT64_MAX, own.greatest[a] = INT64_MIN;
      for (const LevelSource& source : sources) {
        i64 first = all[source.parent].least[a], last = all[source.parent].greatest[a];
        find_range(source, a, first, last);
        own.least[a] = std::min(own.least[a], first), own.greatest[a] = std::max(own.greatest[a], last);
      }
    }
    all.push_back(own);
  }
  return all;
}

/// Returns bounds that any coordinates are inside of.
Bounds all_coordinates() {
  Bounds bounds;
  std::fill_n(bounds.least, kMaxFields, INT_MIN);
  std::fill_n(bounds.greatest, kMaxFields, INT_MAX);
  return bounds;
}

/// Returns true if the kernel of a set that is reached leads from each coordinate of its parent to exactly
/// one cell, the one that contains the coordinate. This holds for coordinates that are multiples of the
/// parent's tensor stride, as those of all sets in an index are.
bool reaches_own_cells(i32 ndim, const SetSpec& set, const SetSpec& parent) {
  if (set.reach->is_generative) return false;
  for (i32 a = 0; a < ndim; ++a) {
    const i32 size = set.reach->kernel_size[a];
    if (set.reach->padding[a] != 0 || (size > 1 && set.reach->dilation[a] != 1)) return false;
    if (i64{size} * parent.tensor_stride[a] != set.tensor_stride[a]) return false;
  }
  return true;
}

/// Returns true if the shape of a set has the cells of all coordinates in a range.
bool has_all_cells(i32 ndim, const SetSpec& set, const SetRange& range) {
  for (i32 a = 0; a < ndim; ++a) {
    const i64 end = i64{set.shape[a]} * set.tensor_stride[a];
    if (range.least[a] < 0 || range.greatest[a] >= end) return false;
  }
  return true;
}

}  // namespace

AxisArray centred_padding(const AxisArray& kernel_size, const AxisArray& dilation) {
  AxisArray padding;
  for (std::size_t a = 0; a < padding.size(); ++a) {
    padding[a] = static_cast<i32>(std::min<i64>(i64{(kernel_size[a] - 1) / 2} * dilation[a], INT_MAX));
  }
  return padding;
}

AxisArray common_stride(const AxisArray& first, const AxisArray& second) {
  AxisArray common;
  for (std::size_t a = 0; a < common.size(); ++a) common[a] = std::gcd(first[a], second[a]);
  return common;
}

std::array<i64, kMaxDim> common_multiple(const AxisArray& first, const AxisArray& second) {
  std::array<i64, kMaxDim> multiple;
  for (std::size_t a = 0; a < multiple.size(); ++a) multiple[a] = std::lcm<i64>(first[a], second[a]);
  return multiple;
}

LevelSources sources_of(i32 ndim, llvm::ArrayRef<SetSpec> sets, std::size_t set) {
  const SetSpec& spec = sets[set];
  LevelSources sources{source_of(ndim, sets, spec, spec.parent)};
  if (spec.is_union()) sources.push_back(source_of(ndim, sets, spec, spec.other_parent));
  return sources;
}

llvm::Expected<std::vector<Bounds>> bounds_of_sets(i32 ndim, const Bounds& bounds,
                                                   llvm::ArrayRef<SetSpec> sets) {
  std::vector<Bounds> all;
  for (const SetRange& range : ranges_of_sets(ndim, bounds, sets)) {
    Bounds own = bounds;
    for (i32 a = 0; a < ndim; ++a) {
      if (range.least[a] < INT_MIN || range.greatest[a] > INT_MAX) {
        return make_error(
            StatusCode::OutOfRange,
            "axis {0}: coordinates from {1} to {2} of set {3}, which follows from the cloud's, do "
            "not fit into 32 bits; move the cloud towards the origin",
            a, range.least[a], range.greatest[a], all.size());
      }
      own.least[a + 1] = static_cast<i32>(range.least[a]);
      own.greatest[a + 1] = static_cast<i32>(range.greatest[a]);
    }
    all.push_back(own);
  }
  return all;
}

std::vector<SetSpec> rounded_where_equal(i32 ndim, const std::optional<Bounds>& bounds,
                                         std::vector<SetSpec> sets) {
  const std::vector<SetRange> ranges = ranges_of_sets(ndim, bounds.value_or(all_coordinates()), sets);
  for (SetSpec& set : sets) {
    if (!set.reach || !reaches_own_cells(ndim, set, sets[set.parent])) continue;
    if (set.has_shape() && !has_all_cells(ndim, set, ranges[set.parent])) continue;
    set.reach.reset();
  }
  return sets;
}

i64 reach_margin(i32 axis, llvm::ArrayRef<SetSpec> sets) {
  i64 most = 0;
  std::vector<i64> margins;
  for (const SetSpec& set : sets) {
    i64 margin = set.parent < 0 ? 0 : margins[set.parent];
    if (set.has_two_parents()) margin = std::max(margin, margins[set.other_parent]);
    if (set.reach) {
      const i64 step = (set.reach->is_generative ? set : sets[set.parent]).tensor_stride[axis];
      const i64 above = set.reach->padding[axis] * step;
      const i64 extent = i64{set.reach->kernel_size[axis] - 1} * set.reach->dilation[axis] * step;
      margin += std::max(above, extent - above);
    }
    margins.push_back(margin);
    most = std::max(most, margin);
  }
  return most;
}

}  // namespace minuet
