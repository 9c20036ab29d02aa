#include "runtime/engine/cloud_layout.h"

#include <algorithm>
#include <limits>

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

llvm::Error check_least(i32 ndim, const Bounds& bounds, const i64* multiple) {
  if (bounds.least[0] < 0) {
    return make_error(StatusCode::InvalidArgument, "a coordinate has batch index {0}; it must be 0 or more",
                      bounds.least[0]);
  }
  for (i32 a = 0; a < ndim; ++a) {
    if (floor_to_multiple(bounds.least[a + 1], multiple[a]) < std::numeric_limits<i32>::min()) {
      return make_error(StatusCode::OutOfRange,
                        "axis {0} begins at {1}: coordinates of coarser levels would not fit into 32 bits; "
                        "move the cloud towards the origin",
                        a, bounds.least[a + 1]);
    }
  }
  return llvm::Error::success();
}

llvm::Error check_key_bits(i32 ndim, const Bounds& bounds, const i32* bits) {
  i32 total = 0;
  for (i32 f = 0; f <= ndim; ++f) total += bits[f];
  if (total <= kMostKeyBits) return llvm::Error::success();
  std::string spans;
  for (i32 f = 0; f <= ndim; ++f) {
    spans += llvm::formatv("{0}{1} bits for {2} to {3}", f ? ", " : "", bits[f], bounds.least[f],
                           bounds.greatest[f])
                 .str();
  }
  return make_error(
      StatusCode::OutOfRange,
      "the cloud spans more than a 64-bit key can hold ({0}): use larger voxels or drop far points", spans);
}

llvm::Expected<KeyLayout> make_cloud_layout(i32 ndim, const Bounds& bounds, const i64* guard,
                                            const i64* period) {
  MINUET_TRY(check_least(ndim, bounds, period));
  const KeyLayout layout = make_key_layout(ndim, bounds.least, bounds.greatest, guard, period);
  MINUET_TRY(check_key_bits(ndim, bounds, layout.bits));
  return layout;
}

i32 rounded_key_bits(const KeyLayout& layout) {
  return std::max(1, (layout.total_bits + kRadixBits - 1) / kRadixBits) * kRadixBits;
}

void KeyBits::note(i32 needed) {
  most_of_fewer_ = std::max(most_of_fewer_, needed);
  const bool is_fewer = needed < bits_;
  if (is_fewer && ++fewer_ < kPatience) return;
  bits_ = is_fewer ? most_of_fewer_ : needed;
  fewer_ = most_of_fewer_ = 0;
}

llvm::Expected<Bounds> declared_bounds(i32 ndim, const i32* least, const i32* greatest) {
  Bounds bounds;
  for (i32 f = 0; f <= ndim; ++f) {
    if (least[f] > greatest[f]) {
      return make_error(
          StatusCode::InvalidArgument,
          "least[{0}] is {1} and greatest[{0}] is {2}; the least coordinate must not exceed the greatest", f,
          least[f], greatest[f]);
    }
    bounds.least[f] = least[f];
    bounds.greatest[f] = greatest[f];
  }
  return bounds;
}

llvm::Error check_coordinate_count(i64 count) {
  if (count < 0) {
    return make_error(StatusCode::InvalidArgument, "the number of coordinates is {0}; it must be 0 or more",
                      count);
  }
  if (count > kMaxCoordinates) {
    return make_error(StatusCode::OutOfRange,
                      "{0} coordinates are more than the {1} that a coordinate set can hold: split the batch",
                      count, kMaxCoordinates);
  }
  return llvm::Error::success();
}

llvm::Error check_coordinate_status(u32 status) {
  if (status & kStatusNegativeBatch) {
    return make_error(StatusCode::InvalidArgument,
                      "a coordinate has a negative batch index; it must be 0 or more");
  }
  if (status & (kStatusOutOfBounds | kStatusOutsideKeys)) {
    return make_error(StatusCode::OutOfRange,
                      "a coordinate lies outside the declared bounds: widen them, or declare none");
  }
  // If no capacities were declared, kStatusPastCapacity too means that the index is full: memory for more
  // rows of reached levels has been tried by then (NetworkMaps::needs_room()), and only kMostIndexSlots
  // limits the number of blocks.
  if (status & (kStatusIndexFull | kStatusPastCapacity)) {
    return make_error(
        StatusCode::ResourceExhausted,
        "the cloud has too many voxels far from each other for the index of its voxels: split the batch, or "
        "set map_method to MINUET_MAPS_SORTED");
  }
  return llvm::Error::success();
}

llvm::Error check_duplicates(i64 unique, i64 count, bool keep_first_duplicate) {
  if (unique == count || keep_first_duplicate) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "{0} of {1} coordinates are duplicates: make them unique, or set the option keep_first_duplicate",
      count - unique, count);
}

llvm::Error check_cloud_rows(i64 count, i64 volume) {
  MINUET_TRY(check_coordinate_count(count));
  const i64 most = most_map_rows(volume);
  if (count <= most) return llvm::Error::success();
  return make_error(
      StatusCode::OutOfRange,
      "{0} coordinates are more than the {1} that the network's kernels allow in one cloud: split the "
      "batch",
      count, most);
}

}  // namespace minuet
