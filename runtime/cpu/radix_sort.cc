#include "runtime/cpu/radix_sort.h"

#include <algorithm>

namespace minuet {
namespace {

constexpr i32 kDigitBits = 8;
constexpr i32 kDigits = 1 << kDigitBits;

/// Replaces the counts in `bins` [chunk][digit] by the output position of each chunk's first key with that
/// digit. Returns false if all keys have the same digit, because this pass of the sort would then move
/// nothing.
bool place_bins(u32* bins, i64 chunks, i64 count) {
  u32 place = 0;
  for (i32 digit = 0; digit < kDigits; ++digit) {
    const u32 first = place;
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
      u32& bin = bins[chunk * kDigits + digit];
      const u32 keys = bin;
      bin = place;
      place += keys;
    }
    if (place - first == static_cast<u64>(count)) return false;
  }
  return true;
}

}  // namespace

template <class Key>
void radix_sort(ThreadPool& pool, i64 count, i32 total_bits, PingPong<Key>& keys, PingPong<u32>& rows,
                u32* bins) {
  const i64 chunks = cpu_chunks(count);
  for (i32 bit = 0; bit < total_bits && count > 1; bit += kDigitBits) {
    const Key mask = static_cast<Key>((1u << std::min(kDigitBits, total_bits - bit)) - 1);
    pool.run(chunks, [&](i64 chunk, i32) {
      u32* mine = bins + chunk * kDigits;
      std::fill(mine, mine + kDigits, 0u);
      const i64 end = std::min(count, (chunk + 1) * kCpuChunk);
      for (i64 i = chunk * kCpuChunk; i < end; ++i) ++mine[(keys.now[i] >> bit) & mask];
    });
    if (!place_bins(bins, chunks, count)) continue;
    pool.run(chunks, [&](i64 chunk, i32) {
      u32* mine = bins + chunk * kDigits;
      const i64 end = std::min(count, (chunk + 1) * kCpuChunk);
      for (i64 i = chunk * kCpuChunk; i < end; ++i) {
        const u32 place = mine[(keys.now[i] >> bit) & mask]++;
        keys.next[place] = keys.now[i];
        if (rows.now != nullptr) rows.next[place] = rows.now[i];
      }
    });
    keys.turn();
    rows.turn();
  }
}

template void radix_sort(ThreadPool&, i64, i32, PingPong<u32>&, PingPong<u32>&, u32*);
template void radix_sort(ThreadPool&, i64, i32, PingPong<u64>&, PingPong<u32>&, u32*);

}  // namespace minuet
