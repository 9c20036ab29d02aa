// Built by nvcc where there is one; see cub_oracle.h.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "tests/runtime/cuda/cub_oracle.h"

namespace {

using minuet::CubScan;
using minuet::CubSort;

constexpr int kThreads = 256;

template <class Key>
int sort_keys(const CubSort& sort, void* memory, std::size_t& bytes, int& half, cudaStream_t stream) {
  cub::DoubleBuffer<Key> keys(static_cast<Key*>(sort.keys[0]), static_cast<Key*>(sort.keys[1]));
  cub::DoubleBuffer<uint32_t> rows(sort.rows[0], sort.rows[1]);
  const uint32_t count = static_cast<uint32_t>(sort.count);
  const cudaError_t result =
      sort.rows[0] ? cub::DeviceRadixSort::SortPairs(memory, bytes, keys, rows, count, sort.begin_bit,
                                                     sort.end_bit, stream)
                   : cub::DeviceRadixSort::SortKeys(memory, bytes, keys, count, sort.begin_bit, sort.end_bit,
                                                    stream);
  half = keys.selector;
  return result;
}

/// Runs' heads and a map's hits as 0 and 1, and a 0 after the last item.
template <class Value, bool Heads>
struct Flag {
  const Value* values;
  int64_t count;
  __host__ __device__ int32_t operator()(int64_t i) const {
    if (i >= count) return 0;
    if constexpr (Heads) return i == 0 || values[i] != values[i - 1];
    else return values[i] >= 0;
  }
};

template <class Input>
int sum(Input input, const CubScan& scan, void* memory, std::size_t& bytes, cudaStream_t stream) {
  return cub::DeviceScan::ExclusiveSum(memory, bytes, input, scan.sums, static_cast<int>(scan.count + 1), stream);
}

template <class Value, bool Heads>
int sum_flags(const CubScan& scan, void* memory, std::size_t& bytes, cudaStream_t stream) {
  const Flag<Value, Heads> flag{static_cast<const Value*>(scan.values), scan.count};
  return sum(thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), flag), scan, memory, bytes,
             stream);
}

template <class Key>
__global__ void draw(Key* keys, uint32_t* rows, int64_t count, uint64_t mask, uint64_t seed) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  keys[i] = static_cast<Key>((z ^ (z >> 31)) & mask);
  if (rows) rows[i] = static_cast<uint32_t>(i);
}

__global__ void compare(const uint32_t* left, const uint32_t* right, int64_t words, unsigned long long* first) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < words && left[i] != right[i]) atomicMin(first, static_cast<unsigned long long>(i));
}

unsigned blocks(int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

}  // namespace

extern "C" {

int cub_oracle_sort(const CubSort* sort, void* memory, std::size_t* bytes, int* half, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  return sort->key_bytes == 4 ? sort_keys<uint32_t>(*sort, memory, *bytes, *half, on)
                              : sort_keys<uint64_t>(*sort, memory, *bytes, *half, on);
}

int cub_oracle_scan(const CubScan* scan, void* memory, std::size_t* bytes, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (scan->input) {
    case 0:
      return sum_flags<uint32_t, true>(*scan, memory, *bytes, on);
    case 1:
      return sum_flags<uint64_t, true>(*scan, memory, *bytes, on);
    case 2:
      return sum_flags<int32_t, false>(*scan, memory, *bytes, on);
    default:
      return sum(static_cast<const int32_t*>(scan->values), *scan, memory, *bytes, on);
  }
}

int cub_oracle_draw(void* keys, int key_bytes, uint32_t* rows, int64_t count, uint64_t mask, uint64_t seed,
                    void* stream) {
  if (count == 0) return cudaSuccess;
  const auto on = static_cast<cudaStream_t>(stream);
  if (key_bytes == 4) {
    draw<<<blocks(count), kThreads, 0, on>>>(static_cast<uint32_t*>(keys), rows, count, mask, seed);
  } else {
    draw<<<blocks(count), kThreads, 0, on>>>(static_cast<uint64_t*>(keys), rows, count, mask, seed);
  }
  return cudaGetLastError();
}

int cub_oracle_compare(const uint32_t* left, const uint32_t* right, int64_t words, uint64_t* first,
                       void* stream) {
  if (words == 0) return cudaSuccess;
  compare<<<blocks(words), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      left, right, words, reinterpret_cast<unsigned long long*>(first));
  return cudaGetLastError();
}

}
