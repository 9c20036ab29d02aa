#include "runtime/weights/rounding.h"

#include <algorithm>
#include <cstring>

#include "runtime/vector/vector_kernels.h"

namespace minuet {
namespace {

constexpr std::size_t kAtOnce = 4096;  // elements of a block, which stays in the first-level cache

/// A block in storage format. It is aligned to its elements; callers' memory need not be.
struct Block {
  alignas(float) char bytes[kAtOnce * sizeof(float)];
};

const VectorKernels& kernels() {
  static const VectorKernels* const best = vector_kernels(VectorSet::Best);
  return *best;
}

/// Calls body(first, count) for each block of [0, count).
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
