#include "runtime/weights/rounding.h"

#include <algorithm>
#include <cstring>

#include "runtime/vector/vector_kernels.h"

namespace minuet {
namespace {

/// Limits the number of elements of a block, so that it stays in the first-level cache.
constexpr std::size_t kAtOnce = 4096;

/// Holds a block in storage format. It is aligned to its elements. The caller's memory may not be, so data is
/// copied between the two.
struct Block {
  alignas(float) char bytes[kAtOnce * sizeof(float)];
};

const VectorKernels& kernels() {
  static const VectorKernels* const best = vector_kernels(VectorSet::Best);
  return *best;
}

/// Divides the indices [0, count) into blocks and calls `body` with the first index and the size of each.
template <class Body>
void in_blocks(std::size_t count, const Body& body) {
  for (std::size_t first = 0; first < count; first += kAtOnce) body(first, std::min(kAtOnce, count - first));
}

}  // namespace

bool round_values(DType dtype, const float* values, std::size_t count, float* rounded) {
  return kernels().round(dtype, values, rounded, static_cast<i64>(count));
}

void store_values(DType dtype, const float* values, std::size_t count, void* target) {
  const std::size_t element = static_cast<std::size_t>(dtype_bytes(dtype));
  Block block;
  in_blocks(count, [&](std::size_t first, std::size_t here) {
    kernels().narrow(dtype, values + first, block.bytes, static_cast<i64>(here));
    std::memcpy(static_cast<char*>(target) + first * element, block.bytes, here * element);
  });
}

void load_values(DType dtype, const void* source, std::size_t count, float* values) {
  const DType stored = storage_type(dtype);
  const std::size_t element = static_cast<std::size_t>(dtype_bytes(stored));
  Block block;
  in_blocks(count, [&](std::size_t first, std::size_t here) {
    std::memcpy(block.bytes, static_cast<const char*>(source) + first * element, here * element);
    kernels().widen(stored, block.bytes, values + first, static_cast<i64>(here));
  });
}

bool are_finite(const float* values, std::size_t count) {
  return kernels().all_finite(values, static_cast<i64>(count));
}

}  // namespace minuet
