// This file reads weights for an image (shared/fused_image.h) by vectors, along their output or their input
// channels. A thread reads the weights of two output channels (FusedPair) and of four words along the depth,
// which are one lane's share of a piece, and writes the two vectors of 16 bytes that they fill.
#pragma once

#include "kernels_templates/core/vector.h"
#include "kernels_templates/parameters/image_elements.h"

namespace minuet {

/// Describes which words a lane has: word i is kFirst * (lane % 4) + kDistance * i of a piece of 64 bytes. Of
/// a piece of 32 bytes, which only images for warps have, it has the words 2 (lane % 4) and 2 (lane % 4) + 1.
template <MmaUnit Unit>
struct LaneWords {
  static constexpr i32 kFirst = Unit == MmaUnit::Warpgroup ? 1 : 4;
  static constexpr i32 kDistance = Unit == MmaUnit::Warpgroup ? 4 : 1;
};

/// Says which part of an image a thread writes.
struct ImagePart {
  i32 stage;  // Numbers the stages of the image.
  i32 block, offset;
  i32 in;     // Gives the first input channel of the stage.
  i32 piece;  // Is the number of the first piece within the stage.
  i32 pair;   // Numbers the pairs of output channels of the column block.
  i32 lane;   // Is lane % 4.
};
/// Returns the part of item `item`. Neighbouring threads read neighbouring places of the weight.
MINUET_HD ImagePart image_part(const WeightImageJob& job, u32 item) {
  const u32 sets = static_cast<u32>(job.layout.columns) / 16, parts = static_cast<u32>(job.shares.parts);
  const u32 steps = static_cast<u32>(job.shape.steps), thread = item % 32, set = item / 32;
  const u32 offset_steps = static_cast<u32>(job.shares.offset_steps);
  const u32 part = set / sets, stage = part / parts, block = stage / steps, step = stage - block * steps;
  const u32 offset = step / offset_steps;
  const bool by_inputs = job.shares.read == ImageRead::Inputs;
  const u32 pair = by_inputs ? thread / 4 : thread % 8, lane = by_inputs ? thread % 4 : thread / 8;
  return {static_cast<i32>(stage),
          static_cast<i32>(block),
          static_cast<i32>(offset),
          static_cast<i32>(step - offset * offset_steps) * job.layout.step,
          static_cast<i32>(part - stage * parts) * kImagePieces,
          static_cast<i32>((set - part * sets) * 8 + pair),
          static_cast<i32>(lane)};
}

/// Holds what a thread writes of a piece: word i of channel c is words[i][c].
struct ImageWords {
  u32 words[4][2];
};

/// Holds what a thread reads of a piece, two output channels at once.
template <i32 ElementBytes, i32 StoredBytes, MmaUnit Unit>
struct ReadOutputs {
  static constexpr i32 kStoredBytes = StoredBytes, kPerWord = 4 / ElementBytes, kRows = 4 * kPerWord;
  Vector<2 * StoredBytes> rows[kRows];

  /// `first` is the byte of the weight of the first input of word 0 and of the pair's first channel. The
  /// thread reads the inputs up to `end`, from this first one on.
  MINUET_HD void load(const WeightImageJob& job, i64 first, i32 end) {
    const i32 row = static_cast<i32>(job.in_stride) * StoredBytes;
    MINUET_UNROLL
    for (i32 r = 0; r < kRows; ++r) {
      const i32 in = r / kPerWord * LaneWords<Unit>::kDistance * kPerWord + r % kPerWord;
      rows[r] = load_vector_if<2 * StoredBytes>(in < end, job.weight, first + i64{in} * row);
    }
  }
  MINUET_HD ImageWords convert(DType io) const {
    ImageWords image;
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) {
      const auto& low = rows[i * kPerWord].words;
      const auto& high = rows[i * kPerWord + kPerWord - 1].words;
      if constexpr (StoredBytes == 2) {
        image.words[i][0] = (low[0] & 0xffffu) | high[0] << 16;
        image.words[i][1] = low[0] >> 16 | (high[0] & 0xffff0000u);
      } else {
        image.words[i][0] = image_word<ElementBytes>(io, float_of(low[0]), float_of(high[0]));
        image.words[i][1] = image_word<ElementBytes>(io, float_of(low[1]), float_of(high[1]));
      }
    }
    return image;
  }
};

/// Holds what a thread reads of a piece, all inputs of a channel at once that lie side by side. The weights
/// are fp32.
template <i32 ElementBytes, MmaUnit Unit>
struct ReadInputs {
  static constexpr i32 kStoredBytes = 4, kPerWord = 4 / ElementBytes;
  static constexpr i32 kWords = Unit == MmaUnit::Warpgroup ? 1 : 2, kReads = 4 / kWords;  // Of a read.
  static constexpr i32 kDistance = LaneWords<Unit>::kDistance * kWords * kPerWord;
  Vector<4 * kWords * kPerWord> inputs[kReads][2];

  /// Loads like ReadOutputs::load().
  MINUET_HD void load(const WeightImageJob& job, i64 first, i32 end) {
    const i32 column = static_cast<i32>(job.out_stride) * 4;
    MINUET_UNROLL
    for (i32 c = 0; c < 2; ++c) {
      MINUET_UNROLL
      for (i32 r = 0; r < kReads; ++r) {
        inputs[r][c] = load_vector_if<4 * kWords * kPerWord>(r * kDistance < end, job.weight,
                                                             first + i64{c} * column + r * kDistance * 4);
      }
    }
  }
  MINUET_HD ImageWords convert(DType io) const {
    ImageWords image;
    MINUET_UNROLL
    for (i32 i = 0; i < 4; ++i) {
      MINUET_UNROLL
      for (i32 c = 0; c < 2; ++c) {
        const auto& values = inputs[i / kWords][c].words;
        const i32 low = i % kWords * kPerWord;
        image.words[i][c] =
            image_word<ElementBytes>(io, float_of(values[low]), float_of(values[low + kPerWord - 1]));
      }
    }
    return image;
  }
};

/// Says which vectors of piece 0 of a stage a thread writes: number `first`, and the one `distance` behind
/// it.
struct ImageVectors {
  i32 first, distance;
};
/// The numbers are those of fused_places_of_swizzled() and of fused_places_of_lane().
template <i32 ElementBytes, MmaUnit Unit>
MINUET_HD ImageVectors image_vectors(const FusedImage& layout, const ImagePart& part) {
  const FusedPair pair = fused_pair<ElementBytes>(layout, part.pair);
  if constexpr (Unit == MmaUnit::Warpgroup) {
    return {(pair.tile * 8 + pair.part * 2) * 4 + (part.lane ^ pair.part), 4};
  } else {
    return {pair.tile * 32 + pair.part * 4 + part.lane, layout.columns * 2};
  }
}

/// Returns vector 0 or 1 of a thread's share of a piece.
template <MmaUnit Unit>
MINUET_HD Vector<16> image_vector(const ImageWords& image, i32 vector) {
  const auto& w = image.words;
  const i32 i = 2 * vector;
  if constexpr (Unit == MmaUnit::Warpgroup) {
    return {{w[0][vector], w[1][vector], w[2][vector], w[3][vector]}};
  } else {
    return {{w[i][0], w[i][1], w[i + 1][0], w[i + 1][1]}};
  }
}

/// Writes the vectors of item `item` of a job. `Read` is one of the types above.
template <i32 ElementBytes, MmaUnit Unit, class Read>
MINUET_HD void write_image_pieces(const WeightImageJob& job, u32 item) {
  constexpr i32 kPerWord = 4 / ElementBytes;
  const ImagePart part = image_part(job, item);
  const i32 out = part.block * job.layout.columns + part.pair * 2;
  const i32 inputs = out < job.layout.out_channels ? job.layout.in_channels : 0;
  const i64 place = offset_place(job, part.offset) + out * job.out_stride;
  const auto is_half = [&](i32 piece) {
    return Unit == MmaUnit::Warp && job.shares.ends_with_half && piece == job.shares.pieces - 1;
  };
  Read read[kImagePieces];
  // All loads are started before the first one is waited for.
  MINUET_UNROLL
  for (i32 i = 0; i < kImagePieces; ++i) {
    const i32 piece = part.piece + i;
    const i32 first = part.lane * (is_half(piece) ? 2 : LaneWords<Unit>::kFirst);
    const i32 in = part.in + (piece * 16 + first) * kPerWord, end = inputs - in;
    const i32 limit = piece >= job.shares.pieces ? 0 : is_half(piece) ? 2 * kPerWord : end;
    read[i].load(job, (place + in * job.in_stride) * Read::kStoredBytes, limit < end ? limit : end);
  }
  const ImageVectors vectors = image_vectors<ElementBytes, Unit>(job.layout, part);
  const i64 stage = static_cast<i64>(part.stage) * job.shape.stage_vectors + vectors.first;
  MINUET_UNROLL
  for (i32 i = 0; i < kImagePieces; ++i) {
    const i32 piece = part.piece + i;
    if (piece >= job.shares.pieces) break;
    const ImageWords image = read[i].convert(job.layout.io);
    const i64 vector = stage + piece * job.layout.columns * 4;
    store_vector(job.image, vector * 16, image_vector<Unit>(image, 0));
    if (is_half(piece)) continue;
    store_vector(job.image, (vector + vectors.distance) * 16, image_vector<Unit>(image, 1));
  }
}

}  // namespace minuet
