// Sort and scan in the shim, by the host twins of the kernels around CUB, launched as the runtime launches
// those.
#pragma once

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/prepare_scans.h"
#include "tests/support/software_cuda/twins/kernels_templates/map/radix_histogram.h"
#include "tests/support/software_cuda/twins/kernels_templates/map/radix_pass.h"
#include "tests/support/software_cuda/twins/kernels_templates/map/scan.h"

namespace minuet {

/// Memory of one sort of at most `keys.size()` items; keys and rows come out in `half` of them.
template <class Key>
struct SortBuffers {
  std::vector<Key> keys[2];
  std::vector<u32> rows[2];
  i32 half = 0;
};

/// Stable, by bits [begin_bit, end_bit) of the first `count` keys; the launches are made for all.
template <RadixPassSpec Pass, class Key>
void sort_by_twins(SortBuffers<Key>& buffers, i32 count, i32 begin_bit, i32 end_bit, shim::Order order) {
  constexpr RadixHistogramSpec kHistogram{.key = Pass.key, .threads = 32, .items_per_thread = 4};
  constexpr i64 kTile = static_cast<i64>(Pass.threads) * Pass.items_per_thread;
  const i64 capacity = static_cast<i64>(buffers.keys[0].size());
  const i32 tiles = static_cast<i32>(std::max<i64>(1, (capacity + kTile - 1) / kTile));
  const i32 passes = (end_bit - begin_bit + kRadixBits - 1) / kRadixBits;
  for (std::vector<u32>& rows : buffers.rows) rows.resize(buffers.keys[0].size());
  buffers.keys[1] = poisoned<Key>(buffers.keys[0].size());
  std::vector<u32> bins(static_cast<std::size_t>(passes * kRadixBins), 0);
  shim::launch(&radix_histogram<kHistogram>,
               RadixHistogramParams{buffers.keys[0].data(), &count, bins.data(), begin_bit, end_bit},
               {.blocks = 3, .threads = kHistogram.threads, .order = order});
  for (i32 pass = 0; pass < passes; ++pass, buffers.half ^= 1) {
    const i32 from = buffers.half, to = from ^ 1, bit = begin_bit + pass * kRadixBits;
    std::vector<u32> lookback(static_cast<std::size_t>(tiles * kRadixBins), 0);
    u32 next_tile = 0;
    const RadixPassParams params{&count,
                                 bins.data() + pass * kRadixBins,
                                 lookback.data(),
                                 &next_tile,
                                 buffers.keys[from].data(),
                                 buffers.keys[to].data(),
                                 Pass.values ? buffers.rows[from].data() : nullptr,
                                 Pass.values ? buffers.rows[to].data() : nullptr,
                                 bit,
                                 std::min(kRadixBits, end_bit - bit)};
    shim::launch(&radix_pass<Pass>, params, {.blocks = tiles, .threads = Pass.threads, .order = order});
  }
}

/// Exclusive sums with the total last, of volume * max(least_items, ceil(count / divisor)) items; launched
/// for `capacity` of them.
template <ScanSpec S>
void scan_to(i32* output, const void* input, i32 count, i64 capacity, shim::Order order, i32 volume = 1,
             i32 divisor = 1, i32 least_items = 0) {
  const i64 bytes = scan_state_bytes(S, capacity);
  std::vector<u64> tiles = poisoned<u64>(static_cast<std::size_t>(bytes / kScanTileBytes));
  shim::launch(&prepare_scans<PrepareScansSpec{.threads = 64}>,
               PrepareScansParams{tiles.data(), bytes, 1, nullptr, 0},
               {.blocks = 2, .threads = 64, .order = order});
  const ScanParams params{input, &count, volume, divisor, least_items, output, tiles.data()};
  // A tile waits for the one before, which a GPU starts first.
  shim::launch(&scan<S>, params, {.blocks = static_cast<i32>(scan_tiles(S, capacity)), .threads = S.threads});
}
template <ScanSpec S>
std::vector<i32> scan_by_twin(const void* input, i32 count, i64 capacity, shim::Order order, i32 volume = 1,
                              i32 divisor = 1, i32 least_items = 0) {
  std::vector<i32> output = poisoned<i32>(static_cast<std::size_t>(capacity) + 1);
  scan_to<S>(output.data(), input, count, capacity, order, volume, divisor, least_items);
  return output;
}

}  // namespace minuet
