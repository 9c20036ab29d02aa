#include "runtime/cuda/sort.h"

namespace minuet {

llvm::Error enqueue_sort(Launcher& launcher, const SortKernels& kernels, const SortRange& range,
                         const SortMemory& memory, i32& half) {
  half = 0;
  const i32 bits = range.end_bit - range.begin_bit;
  if (bits <= 0) return llvm::Error::success();
  const SortState& state = memory.state;
  const i64 per_block =
      static_cast<i64>(kernels.histogram_spec.threads) * kernels.histogram_spec.items_per_thread;
  const i64 blocks =
      stride_grid(range.capacity, per_block, launcher.multiprocessors(), kHistogramBlocksPerMultiprocessor);
  MINUET_TRY(launcher.launch(
      kernels.histogram, blocks,
      RadixHistogramParams{memory.keys[0], range.count, state.bins, range.begin_bit, range.end_bit}));
  const i64 tiles = radix_tiles(kernels.pass_spec, range.capacity);
  for (i32 pass = 0; pass < radix_passes(bits); ++pass) {
    const i32 from = pass % 2;
    RadixPassParams params = {};
    params.count = range.count;
    params.bins = state.bins + pass * kRadixBins;
    params.lookback = state.lookback + pass * memory.tiles * kRadixBins;
    params.next_tile = state.next_tile + pass;
    params.keys_in = memory.keys[from];
    params.keys_out = memory.keys[from ^ 1];
    params.values_in = memory.rows[from];
    params.values_out = memory.rows[from ^ 1];
    params.bit = range.begin_bit + pass * kRadixBits;
    params.bits = radix_pass_bits(bits, pass);
    MINUET_TRY(launcher.launch(kernels.pass, tiles, params));
  }
  half = sorted_half(bits);
  return llvm::Error::success();
}

}  // namespace minuet
