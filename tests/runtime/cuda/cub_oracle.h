// CUB's own sort and scan as nvcc builds them, behind a C interface: what ours are held against (R37).
//
// A shared library of its own, which a test opens: it is never linked into anything that is shipped.
// Every function returns a cudaError_t and enqueues on `stream`, a CUstream; memory is the caller's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minuet {

struct CubSort {
  void* keys[2];      // [count] of key_bytes; the data lies in half 0
  uint32_t* rows[2];  // [count], or null
  int64_t count;
  int key_bytes;  // 4 or 8
  int begin_bit, end_bit;
};

/// What is added up: the numbers of ScanInput.
struct CubScan {
  int input;
  const void* values;  // [count], and for Values one 0 more
  int64_t count;
  int32_t* sums;  // [count + 1], the total last
};

}  // namespace minuet

extern "C" {
/// With null `memory` only says how many `bytes` it needs. half: where the result lies.
int cub_oracle_sort(const minuet::CubSort* sort, void* memory, std::size_t* bytes, int* half, void* stream);
int cub_oracle_scan(const minuet::CubScan* scan, void* memory, std::size_t* bytes, void* stream);
/// keys[i] = a random number of (seed, i), & mask; rows[i] = i unless rows is null.
int cub_oracle_draw(void* keys, int key_bytes, uint32_t* rows, int64_t count, uint64_t mask, uint64_t seed,
                    void* stream);
/// *first, in device memory and preset to -1, becomes the least index of a word in which they differ.
int cub_oracle_compare(const uint32_t* left, const uint32_t* right, int64_t words, uint64_t* first,
                       void* stream);
}
