// A whole convolution: output[q] = epilogue(sum over offsets k of input[rows[k][q]] * weights[k]), on tensor
// cores, all sums in fp32 registers, each output written once.
//
// A warp makes 8 * row_tiles queries by `columns` output channels. Channels lie along the rows of mma(),
// queries along its columns, so that 16 bytes of an input row are fragments as they come from memory: no
// input goes through shared memory. A warp passes over offsets that none of its queries has; the block's
// weights come stage by stage. Warps that share queries take the steps in turn, and their sums are added at
// the end, in order.
#pragma once

#include "kernels_templates/core/epilogue.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/mma.h"
#include "kernels_templates/fused/input_steps.h"
#include "kernels_templates/fused/weight_ring.h"

namespace minuet {

/// Who a thread is, and what its warp makes.
template <FusedSpec S>
struct FusedPlace {
  static constexpr i32 kTiles = S.columns / 16;  // of channels
  static_assert(S.columns % 16 == 0, "columns are whole tiles of 16");

  i32 lane, row_warp;
  i32 share;  // S.split: the warp that fills the ring
  i32 column_block;
  i64 block;  // position of the block's first query
  i64 first;  // and of the warp's
  i32 count;

  MINUET_DEVICE explicit FusedPlace(const FusedParams& p) {
    const i32 warp = static_cast<i32>(threadIdx.x / 32);
    lane = static_cast<i32>(threadIdx.x % 32);
    row_warp = warp % S.warps;
    share = warp / S.warps;
    column_block = static_cast<i32>(blockIdx.x % fused_column_blocks(S));
    block = static_cast<i64>(blockIdx.x / fused_column_blocks(S)) * fused_block_rows(S);
    first = block + row_warp * 8 * S.row_tiles;
    count = read_only(p.query_count);
  }
  MINUET_HD i64 query(const FusedParams& p, i64 position) const {
    return p.order != nullptr && position < count ? read_only(p.order + position) : position;
  }
};

template <FusedSpec S>
using FusedSums = float[FusedPlace<S>::kTiles][S.row_tiles][4];

/// Columns of the views that the lane's input rows come from, -1 past the count; and the mask of the warp's
/// queries, to shared memory. Where columns are positions, the first masks are under way before the count is
/// known.
template <FusedSpec S>
MINUET_DEVICE void find_queries(const FusedParams& p, const FusedPlace<S>& place,
                                i32 (&columns)[S.row_tiles]) {
  const bool by_position = p.ordered_views != 0 || p.order == nullptr;
  i64 positions[S.row_tiles];
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    positions[n] = place.first + n * 8 + place.lane / 4;
    columns[n] = static_cast<i32>(by_position ? positions[n] : place.query(p, positions[n]));
  }
  for (i32 word = 0; word < mask_words(S.volume); ++word) {
    u32 mask = 0;
    MINUET_UNROLL
    for (i32 n = 0; n < S.row_tiles; ++n) {
      const i32* address = reinterpret_cast<const i32*>(p.masks);
      if (p.masks != nullptr) address += word * p.row_stride + columns[n];
      const i32 loaded = load_row_if(p.masks != nullptr && columns[n] < p.row_stride, address);
      mask |= positions[n] >= place.count ? 0u : p.masks != nullptr ? static_cast<u32>(loaded) : 1u;
    }
    mask = __reduce_or_sync(~0u, mask);
    if (place.lane == 0 && place.share == 0) FusedMasks<S>::shared()[word * S.warps + place.row_warp] = mask;
  }
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    if (positions[n] >= place.count) columns[n] = -1;
  }
}

/// sums += a * b; fp32 as the three largest products of its parts, added to the sums by ordinary additions,
/// for tensor cores cut off.
template <FusedSpec S>
MINUET_DEVICE void multiply(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  if constexpr (S.io == DType::F32) {
    u32 high_a[4], low_a[4], high_b[2], low_b[2];
    split_to_tf32(a, high_a, low_a);
    split_to_tf32(b, high_b, low_b);
    float part[4] = {};
    mma<DType::TF32>(part, low_a, high_b);
    mma<DType::TF32>(part, high_a, low_b);
    mma<DType::TF32>(part, high_a, high_b);
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) sum[i] += part[i];
  } else {
    mma<S.io>(sum, a, b);
  }
}

/// Of tiles [First, First + Count) of queries.
template <FusedSpec S, i32 First, i32 Count>
MINUET_DEVICE void multiply_tiles(const WeightRing<S>& ring, const FusedPlace<S>& place,
                                  const InputStep<S>& input, FusedSums<S>& sums) {
  constexpr i32 kTiles = FusedPlace<S>::kTiles;
  MINUET_UNROLL
  for (i32 granule = 0; granule < S.step / fused_granule(S.io); ++granule) {
    u32 b[Count][2];
    MINUET_UNROLL
    for (i32 n = 0; n < Count; ++n) {
      input.operand(First + n, granule, b[n]);
      if constexpr (S.io == DType::TF32) b[n][0] = round_to_tf32(b[n][0]), b[n][1] = round_to_tf32(b[n][1]);
    }
    MINUET_UNROLL
    for (i32 tile = 0; tile < kTiles; ++tile) {
      const Vector<16> a = ring.load(((granule * kTiles + tile) * 32 + place.lane) * 16);
      MINUET_UNROLL
      for (i32 n = 0; n < Count; ++n) multiply<S>(sums[tile][First + n], a.words, b[n]);
    }
  }
}

template <FusedSpec S, i32 Tile>
MINUET_DEVICE void multiply_hits(const WeightRing<S>& ring, const FusedPlace<S>& place,
                                 const InputStep<S>& input, FusedSums<S>& sums) {
  if ((input.hits >> Tile & 1) != 0) multiply_tiles<S, Tile, 1>(ring, place, input, sums);
  if constexpr (Tile + 1 < S.row_tiles) multiply_hits<S, Tile + 1>(ring, place, input, sums);
}

/// Tiles without a row are left out. One branch a step: mma() under a condition of its own would make its
/// warp meet each time.
template <FusedSpec S>
MINUET_DEVICE void multiply_step(const WeightRing<S>& ring, const FusedPlace<S>& place,
                                 const InputStep<S>& input, FusedSums<S>& sums) {
  if (S.row_tiles == 1 || input.hits == (1u << S.row_tiles) - 1) {
    multiply_tiles<S, 0, S.row_tiles>(ring, place, input, sums);
  } else {
    multiply_hits<S, 0>(ring, place, input, sums);
  }
}

/// All steps of the warp's share, or all copies of them.
template <FusedSpec S>
MINUET_DEVICE void sum_steps(const FusedParams& p, const FusedPlace<S>& place,
                             const i32 (&columns)[S.row_tiles], FusedSums<S>& sums) {
  const i64 image = static_cast<i64>(place.column_block) * fused_steps(S) * fused_stage_bytes(S);
  StepWalk<S> walk{FusedMasks<S>(place.row_warp)};
  WeightRing<S> ring(static_cast<const char*>(p.weights) + image, walk);
  ring.fill();
  if (place.share == S.split) return;
  const i32 end = ring.end(walk.count());
  walk.advance(place.share);
  InputSteps<S> inputs(p, walk, place.share, columns);
  InputStep<S> steps[S.prefetch];
  MINUET_UNROLL
  for (i32 i = 0; i < S.prefetch; ++i) inputs.start(steps[i]);
  i32 number = place.share;
  for (bool more = true; more;) {
    MINUET_UNROLL
    for (i32 i = 0; i < S.prefetch; ++i) {
      if (steps[i].number < 0) more = false;
      if (!more) break;
      for (; number < steps[i].number; number += S.split) ring.pass(number);
      ring.acquire(number, steps[i].step);
      multiply_step<S>(ring, place, steps[i], sums);
      ring.release(number);
      number += S.split;
      inputs.start(steps[i]);
    }
  }
  for (; number < end; number += S.split) ring.pass(number);
  ring.finish();
}

/// The sums of all shares, in their order, for the warps of the first.
template <FusedSpec S>
MINUET_DEVICE void add_shares(const FusedPlace<S>& place, FusedSums<S>& sums) {
  constexpr i32 kTiles = FusedPlace<S>::kTiles;
  constexpr i64 kShareBytes = static_cast<i64>(fused_block_rows(S)) * S.columns * 4;
  const auto byte = [&](i32 tile, i32 n) {
    return static_cast<i64>(((tile * S.row_tiles + n) * S.warps + place.row_warp) * 32 + place.lane) * 16;
  };
  unsigned char* const others = fused_ring<S>();
  __syncthreads();  // the ring is read, and nothing is on its way there
  if (place.share != 0 && place.share < S.split) {
    unsigned char* const mine = others + (place.share - 1) * kShareBytes;
    MINUET_UNROLL
    for (i32 tile = 0; tile < kTiles; ++tile) {
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n)
        *reinterpret_cast<Vector<16>*>(mine + byte(tile, n)) = from_floats<DType::F32, 16>(sums[tile][n]);
    }
  }
  __syncthreads();
  if (place.share != 0) return;
  for (i32 share = 0; share + 1 < S.split; ++share) {
    MINUET_UNROLL
    for (i32 tile = 0; tile < kTiles; ++tile) {
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n) {
        float part[4];
        to_floats<DType::F32>(load_shared_vector(others + share * kShareBytes + byte(tile, n)), part);
        MINUET_UNROLL
        for (i32 i = 0; i < 4; ++i) sums[tile][n][i] += part[i];
      }
    }
  }
}

/// `Count` channels of one output row from `channel` on: epilogue and write. Whether all are finite in
/// memory.
template <FusedSpec S, i32 Count>
MINUET_DEVICE bool finish_channels(const FusedParams& p, i64 row, i32 channel, const float* sums,
                                   const float* scale, const float* shift, bool is_padding) {
  constexpr i32 kElement = dtype_bytes(S.io), kBytes = Count * kElement;
  constexpr i32 kAccess = S.output_bytes < kBytes ? S.output_bytes : kBytes, kEach = kAccess / kElement;
  bool finite = true;
  MINUET_UNROLL
  for (i32 first = 0; first < Count; first += kEach) {
    if (channel + first >= S.out_channels) break;
    float residual[kEach] = {}, values[kEach] = {};
    if (!is_padding) {
      if constexpr (S.residual) {
        to_floats<S.io>(load_vector<kAccess>(p.residual, (row * p.residual_ld + channel + first) * kElement),
                        residual);
      }
      MINUET_UNROLL
      for (i32 e = 0; e < kEach; ++e) {
        const i32 c = first + e;
        values[e] =
            epilogue<S.scale_shift, S.residual, S.activation>(sums[c], scale[c], shift[c], residual[e]);
        // A ReLU would hide a sum that is minus infinity already.
        finite = finite && !overflows(DType::F32, bits_of(sums[c])) && !overflows(S.io, bits_of(values[e]));
      }
    }
    store_vector(p.output, (row * p.output_ld + channel + first) * kElement,
                 from_floats<S.io, kAccess>(values));
  }
  return finite;
}

/// Tiles [First, First + Tiles) of channels: a lane has 2 * Tiles consecutive ones of two queries of each
/// tile of 8.
template <FusedSpec S, i32 First>
MINUET_DEVICE void finish_group(const FusedParams& p, const FusedPlace<S>& place, const FusedSums<S>& sums) {
  constexpr FusedColumnGroup kGroup = fused_column_group(S.io, S.columns, First);
  constexpr i32 kCount = 2 * kGroup.tiles;
  const i32 channel = place.column_block * S.columns + First * 16 + place.lane / 4 * kCount;
  float scale[kCount] = {}, shift[kCount] = {};
  if constexpr (S.scale_shift) {
    MINUET_UNROLL
    for (i32 c = 0; c < kCount; ++c) {
      if (channel + c >= S.out_channels) break;
      scale[c] = read_only(p.scale + channel + c);
      shift[c] = read_only(p.shift + channel + c);
    }
  }
  bool finite = true;
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    MINUET_UNROLL
    for (i32 e = 0; e < 2; ++e) {
      const i64 position = place.first + n * 8 + place.lane % 4 * 2 + e;
      const bool is_padding = position >= place.count;
      if (is_padding && position >= p.padded_rows) continue;
      float values[kCount];
      MINUET_UNROLL
      for (i32 c = 0; c < kCount; ++c) values[c] = sums[First + c / 2][n][c % 2 * 2 + e];
      if (!finish_channels<S, kCount>(p, place.query(p, position), channel, values, scale, shift, is_padding))
        finite = false;
    }
  }
  if (!finite) *p.overflow = 1;
  if constexpr (First + kGroup.tiles < FusedPlace<S>::kTiles)
    finish_group<S, First + kGroup.tiles>(p, place, sums);
}

template <FusedSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(fused_threads(S), S.blocks) void fused_convolution(const FusedParams p) {
  const FusedPlace<S> place(p);
  i32 columns[S.row_tiles];
  find_queries<S>(p, place, columns);
  if (place.block >= place.count && place.block >= p.padded_rows) return;
  WeightRing<S>::prepare();
  __syncthreads();
  float sums[FusedPlace<S>::kTiles][S.row_tiles][4] = {};
  sum_steps<S>(p, place, columns, sums);
  if constexpr (S.split > 1) add_shares<S>(place, sums);
  if (place.share == 0) finish_group<S, 0>(p, place, sums);
}

}  // namespace minuet
