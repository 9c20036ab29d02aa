// The kernel weight_gradient computes the sums of the parts (shared/gradient_kernels.h) with tensor cores.
// sums[slot][i][o] = sum over the pairs of the part and the offset of input[input row][i] * gradient[output
// row][o].
//
// A block computes one tile of channels of one part after the other. The rows of the pairs of a step are
// copied to shared memory, `stages` - 1 steps ahead, and their numbers one step earlier. A pair is a row
// there, so that both operands of the products are read transposed.
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/ldmatrix.h"
#include "kernels_templates/core/mma.h"
#include "kernels_templates/gradient/part_steps.h"

namespace minuet {

/// Returns the place of a byte of a row in a tile in shared memory. Chunks of 16 bytes are exchanged so that
/// eight consecutive rows have a chunk in different banks.
template <i32 Pitch>
MINUET_HD i32 tile_place(i32 row, i32 byte) {
  constexpr i32 kChunks = Pitch / 16;
  constexpr i32 kRowsPerLine = kChunks < 8 ? 8 / kChunks : 1;
  return row * Pitch + ((byte / 16) ^ (row % 8 / kRowsPerLine)) * 16 + byte % 16;
}

template <WeightGradientSpec S>
class WeightGradientTile {
 public:
  static constexpr DType kOperand = S.io == DType::F32 ? DType::TF32 : S.io;
  static constexpr i32 kThreads = weight_gradient_threads(S), kBytes = dtype_bytes(S.io);
  static constexpr i32 kPitchIn = tile_pitch(S.io, S.tile_in), kPitchOut = tile_pitch(S.io, S.tile_out);
  static constexpr i32 kDepth = mma_depth<kOperand>();
  static constexpr i32 kRowTiles = S.tile_in / S.warps_in / kMmaRows;
  static constexpr i32 kColumnTiles = S.tile_out / S.warps_out / kMmaColumns;
  static constexpr i32 kNumbers = (2 * kStepPairs + kThreads - 1) / kThreads;
  static_assert(S.tile_in % (S.warps_in * kMmaRows) == 0 && S.tile_out % (S.warps_out * 2 * kMmaColumns) == 0,
                "warps have whole products, two side by side");

  MINUET_DEVICE WeightGradientTile(const WeightGradientParams& p, i32 tile, OffsetLanes& lanes,
                                   const LateFollower& start)
      : p_(p), thread_(static_cast<i32>(threadIdx.x)), lanes_(lanes), start_(start) {
    group_ = tile / (p.tiles_in * p.tiles_out);
    first_in_ = tile / p.tiles_out % p.tiles_in * S.tile_in;
    first_out_ = tile % p.tiles_out * S.tile_out;
    shared_ = dynamic_shared();
    numbers_ = reinterpret_cast<i32*>(shared_ + S.stages * gradient_stage_bytes(S));
  }

  MINUET_DEVICE void sum_part(i32 part, i32 first, i32 end) {
    first_ = first, end_ = end;
    Segments segments(p_, lanes_, part, first, end);
    StepPlace ahead = segments.place();
    begin_pipeline(ahead);
    i32 stage = 0;
    for (; segments.has_steps(); segments.pass()) {
      clear();
      for (i32 step = segments.begin(); step < segments.end(); ++step) {
        async_copy_wait<S.stages - 2>();
        __syncthreads();
        i32 rows[kNumbers];
        read_numbers(ahead, step + S.stages, rows);
        copy_rows(step + S.stages - 1, stage == 0 ? S.stages - 1 : stage - 1);
        multiply(shared_ + stage * gradient_stage_bytes(S));
        store_numbers(stage, rows);
        stage = stage + 1 == S.stages ? 0 : stage + 1;
      }
      store(segments);
    }
    // The next part overwrites the stages.
    async_copy_wait<0>();
    __syncthreads();
  }

  /// Follows the last launch if the block has had no part.
  MINUET_DEVICE void follow() { start_.follow(); }

 private:
  using Segments = PartSegments<most_segment_steps(S.io)>;

  MINUET_DEVICE void begin_pipeline(StepPlace& ahead) {
    i32 rows[kNumbers];
    for (i32 stage = 0; stage < S.stages; ++stage) {
      read_numbers<true>(ahead, first_ + stage, rows);
      store_numbers(stage, rows);
    }
    __syncthreads();
    start_.follow();
    for (i32 stage = 0; stage < S.stages - 1; ++stage) copy_rows(first_ + stage, stage);
  }

  /// Reads the numbers of the rows of a step: those of the input, then those of the output's gradient.
  template <bool Early = false>
  MINUET_DEVICE void read_numbers(StepPlace& ahead, i32 step, i32 (&rows)[kNumbers]) {
    if (step < end_) ahead.visit(step);
    MINUET_UNROLL
    for (i32 n = 0; n < kNumbers; ++n) {
      const i32 i = thread_ + n * kThreads, operand = i / kStepPairs, pair = i % kStepPairs;
      const bool is_there = operand < 2 && step < end_ && pair < ahead.pairs();
      const PairRows of_pair = is_there ? rows_of_pair<Early>(p_, ahead.first_pair() + pair) : PairRows();
      rows[n] = operand == 0 ? of_pair.input : of_pair.gradient;
    }
  }
  MINUET_DEVICE void store_numbers(i32 stage, const i32 (&rows)[kNumbers]) {
    MINUET_UNROLL
    for (i32 n = 0; n < kNumbers; ++n) {
      const i32 i = thread_ + n * kThreads;
      if (i < 2 * kStepPairs) numbers_[stage * 2 * kStepPairs + i] = rows[n];
    }
  }

  /// Starts the copies of the rows of a step. Missing rows, and channels past the last one, become zeros.
  MINUET_DEVICE void copy_rows(i32 step, i32 stage) {
    if (step < end_) {
      const i32* const numbers = numbers_ + stage * 2 * kStepPairs;
      unsigned char* const tile = shared_ + stage * gradient_stage_bytes(S);
      copy_tile<S.tile_in>(numbers, tile, p_.input, p_.input_ld, p_.group_inputs, first_in_);
      copy_tile<S.tile_out>(numbers + kStepPairs, tile + kStepPairs * kPitchIn, p_.gradient, p_.gradient_ld,
                            p_.group_outputs, first_out_);
    }
    async_copy_commit();
  }
  template <i32 Channels>
  MINUET_DEVICE void copy_tile(const i32* numbers, unsigned char* tile, const void* rows, i64 ld,
                               i32 group_channels, i32 first_channel) {
    constexpr i32 kPieces = Channels * kBytes / S.vector_bytes, kAll = kStepPairs * kPieces;
    const i32 bytes = (group_channels - first_channel) * kBytes;
    // A row has fewer than 2^31 bytes, and rows are not negative, so one instruction finds a row.
    const u32 row_bytes = static_cast<u32>(ld) * kBytes;
    const char* const first =
        static_cast<const char*>(rows) + (static_cast<i64>(group_) * group_channels + first_channel) * kBytes;
    MINUET_UNROLL
    for (i32 n = 0; n < (kAll + kThreads - 1) / kThreads; ++n) {
      const i32 i = thread_ + n * kThreads;
      if (kAll % kThreads != 0 && i >= kAll) break;
      const i32 pair = i / kPieces, byte = i % kPieces * S.vector_bytes;
      const i32 row = numbers[pair];
      const bool is_there = row >= 0 && byte < bytes;
      const u64 offset =
          is_there ? static_cast<u64>(static_cast<u32>(row)) * row_bytes + static_cast<u32>(byte) : 0;
      async_copy_if<S.vector_bytes>(is_there, tile + tile_place<tile_pitch(S.io, Channels)>(pair, byte),
                                    first + offset);
    }
  }

  MINUET_DEVICE void clear() {
    MINUET_UNROLL
    for (i32 m = 0; m < kRowTiles; ++m) {
      MINUET_UNROLL
      for (i32 n = 0; n < kColumnTiles; ++n) {
        MINUET_UNROLL
        for (i32 e = 0; e < 4; ++e) sums_[m][n][e] = 0;
      }
    }
  }

  /// Loads the operand words of this lane for the channels from `channel` on and the pairs from `pair` on. A
  /// product needs 4 words of the input and 2 of the output's gradient, so `Count` is a multiple of these.
  template <i32 Pitch, bool IsInput, i32 Count>
  MINUET_DEVICE void load(const unsigned char* tile, i32 pair, i32 channel, u32 (&words)[Count]) {
    const i32 lane = thread_ % 32;
    if constexpr (kBytes == 2) {
      const i32 matrix = lane / 8, low = matrix % 2 * 8, high = matrix / 2 * 8;
      MINUET_UNROLL
      for (i32 w = 0; w < Count; w += 4) {
        const i32 row = pair + lane % 8 + (IsInput ? high : low);
        const i32 column = channel + w / 4 * 16 + (IsInput ? low : high);
        u32 four[4];
        ldmatrix_transposed(four, tile + tile_place<Pitch>(row, column * 2));
        MINUET_UNROLL
        for (i32 i = 0; i < 4; ++i) words[w + i] = four[i];
      }
    } else {
      MINUET_UNROLL
      for (i32 w = 0; w < Count; ++w) {
        const i32 row = pair + lane % 4 + (IsInput ? w % 4 / 2 : w % 2) * 4;
        const i32 column = channel + lane / 4 + (IsInput ? w / 4 * 16 + w % 2 * 8 : w / 2 * 8);
        const u32 bits = *reinterpret_cast<const u32*>(tile + tile_place<Pitch>(row, column * 4));
        words[w] = S.io == DType::TF32 ? round_to_tf32(bits) : bits;
      }
    }
  }

  MINUET_DEVICE void multiply(const unsigned char* stage) {
    const i32 warp = thread_ / 32;
    const i32 in = warp / S.warps_out * (S.tile_in / S.warps_in);
    const i32 out = warp % S.warps_out * (S.tile_out / S.warps_out);
    MINUET_UNROLL
    for (i32 pair = 0; pair < kStepPairs; pair += kDepth) {
      u32 a[kRowTiles * 4], b[kColumnTiles * 2];
      load<kPitchIn, true>(stage, pair, in, a);
      load<kPitchOut, false>(stage + kStepPairs * kPitchIn, pair, out, b);
      if constexpr (S.io == DType::F32) {
        u32 a_high[kRowTiles * 4], a_low[kRowTiles * 4], b_high[kColumnTiles * 2], b_low[kColumnTiles * 2];
        split_to_tf32(a, a_high, a_low);
        split_to_tf32(b, b_high, b_low);
        add_split_products(a_high, a_low, b_high, b_low);
      } else {
        add_products(a, b);
      }
    }
  }
  MINUET_DEVICE void add_products(const u32 (&a)[kRowTiles * 4], const u32 (&b)[kColumnTiles * 2]) {
    MINUET_UNROLL
    for (i32 m = 0; m < kRowTiles; ++m) {
      const u32 rows[4] = {a[4 * m], a[4 * m + 1], a[4 * m + 2], a[4 * m + 3]};
      MINUET_UNROLL
      for (i32 n = 0; n < kColumnTiles; ++n) {
        const u32 columns[2] = {b[2 * n], b[2 * n + 1]};
        mma<kOperand>(sums_[m][n], rows, columns);
      }
    }
  }

  /// Adds the products of fp32 numbers, each of which is split into two of tf32. Tensor cores round a sum
  /// toward zero in each of their three instructions for 8 pairs, which would add up to a large error over
  /// all pairs. So the products of 8 pairs are summed by themselves, and that sum is added with rounding to
  /// nearest.
  MINUET_DEVICE void add_split_products(const u32 (&a_high)[kRowTiles * 4], const u32 (&a_low)[kRowTiles * 4],
                                        const u32 (&b_high)[kColumnTiles * 2],
                                        const u32 (&b_low)[kColumnTiles * 2]) {
    MINUET_UNROLL
    for (i32 m = 0; m < kRowTiles; ++m) {
      const u32 high[4] = {a_high[4 * m], a_high[4 * m + 1], a_high[4 * m + 2], a_high[4 * m + 3]};
      const u32 low[4] = {a_low[4 * m], a_low[4 * m + 1], a_low[4 * m + 2], a_low[4 * m + 3]};
      MINUET_UNROLL
      for (i32 n = 0; n < kColumnTiles; ++n) {
        const u32 columns_high[2] = {b_high[2 * n], b_high[2 * n + 1]};
        const u32 columns_low[2] = {b_low[2 * n], b_low[2 * n + 1]};
        float products[4] = {};
        mma<kOperand>(products, low, columns_high);
        mma<kOperand>(products, high, columns_low);
        mma<kOperand>(products, high, columns_high);
        MINUET_UNROLL
        for (i32 e = 0; e < 4; ++e) sums_[m][n][e] += products[e];
      }
    }
  }

  /// Stores the sums of a segment in its slot, or adds them to those that this thread stored there.
  MINUET_DEVICE void store(const Segments& segments) const {
    float* const block = segments.slot() + static_cast<i64>(group_) * p_.layout.rows * p_.layout.columns;
    if (segments.adds()) {
      store_rows<true>(block);
    } else {
      store_rows<false>(block);
    }
  }
  template <bool Adds>
  MINUET_DEVICE void store_rows(float* block) const {
    const i32 warp = thread_ / 32, lane = thread_ % 32;
    const i32 in = first_in_ + warp / S.warps_out * (S.tile_in / S.warps_in) + lane / 4;
    const i32 out = first_out_ + warp % S.warps_out * (S.tile_out / S.warps_out) + lane % 4 * 2;
    MINUET_UNROLL
    for (i32 m = 0; m < kRowTiles; ++m) {
      MINUET_UNROLL
      for (i32 half = 0; half < 2; ++half) {
        const i64 row = in + m * kMmaRows + half * 8;
        store_row_of_tiles<Adds>(sums_[m], half, block + row * p_.layout.columns + out);
      }
    }
  }

  const WeightGradientParams& p_;
  const i32 thread_;
  i32 group_ = 0, first_in_ = 0, first_out_ = 0;
  OffsetLanes& lanes_;
  LateFollower start_;
  i32 first_ = 0, end_ = 0;
  unsigned char* shared_ = nullptr;
  i32* numbers_ = nullptr;
  float sums_[kRowTiles][kColumnTiles][4];
};

template <WeightGradientSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(weight_gradient_threads(S), least_gradient_blocks(S)) void weight_gradient(
    MINUET_PARAMS(WeightGradientParams) p) {
  const LateFollower start(p.reads_early != 0);
  const i32 tiles = p.groups * p.tiles_in * p.tiles_out;
  const i32 block = static_cast<i32>(blockIdx.x), walkers = static_cast<i32>(gridDim.x) / tiles;
  OffsetLanes lanes(p);
  const i32 steps = lanes.steps(), parts = static_cast<i32>(parts_of(steps, p.wanted_parts));
  WeightGradientTile<S> tile(p, block % tiles, lanes, start);
  // Blocks of the same part are neighbours, because they read the same rows.
  for (i32 part = block / tiles; part < parts; part += walkers) {
    tile.sum_part(part, static_cast<i32>(first_step_of_part(part, parts, steps)),
                  static_cast<i32>(first_step_of_part(part + 1, parts, steps)));
  }
  tile.follow();
}

}  // namespace minuet
