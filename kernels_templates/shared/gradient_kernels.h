// This file declares the Spec (compile time) and Params (run time) of the kernels that compute the gradients
// of a convolution's weight and bias, and of the scale and the shift of an affine step. All pointers are
// device pointers.
//
// The gradient of the weights of offset k is the sum over the pairs (input row, output row) of that offset of
// input[input row]^T * gradient[output row], where `gradient` is the gradient of the output. The pairs are
// listed by ascending offset. A step multiplies up to kStepPairs consecutive pairs of one offset. list_steps
// counts the steps of all offsets, once for each list. The steps are divided evenly into parts, whose number
// does not depend on the GPU. weight_gradient_warpgroups on sm_90a, weight_gradient on other GPUs, or
// weight_gradient_scalar without tensor cores, sums each part. If a part has steps of several offsets, it has
// a sum of each. The sum of part p and offset k is stored in slot p + k, which no other pair of part and
// offset has. add_parts adds the slots of an offset. For a bias, sum_rows sums pieces of kRowsPerPiece rows
// of the output's gradient, and add_row_sums adds the sums of the pieces.
//
// For the scale and the shift of an affine step, sum_products sums the same pieces, of the gradient and of
// its product with the input. If the step reads the result of a layer norm, measure_rows finds its means and
// variances first. add_row_sums adds the sums of the pieces.
//
// All sums have a fixed order, so that results repeat bit by bit. The order is not that of the list: several
// threads add every n-th slot, row or piece, each in ascending order, and then their sums are added in an
// order that the file of the kernel names.
#pragma once

#include "kernels_templates/shared/counts.h"
#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Counts the pairs of a full step.
constexpr i32 kStepPairs = 64;
/// Returns how many steps are summed in registers at most, before the sums are added to the slot. Tensor
/// cores round toward zero, so that their sums lose accuracy with each step: on an H200, 256 steps of
/// positive numbers lose 9.9e-5 of their sum in fp16, and up to 1.14e-4 in tf32. These numbers of steps keep
/// the error below 5e-5, however many pairs there are.
MINUET_HD constexpr i32 most_segment_steps(DType io) { return dtype_bytes(io) == 2 ? 112 : 96; }
/// A part has at least this many steps if there are enough steps.
constexpr i32 kLeastPartSteps = 2;

/// Points to a list of pairs.
struct PairList {
  const i32* pairs;  // Has the shape [most, 3]: offset, input row, output row. Offsets ascend.
  const i32* count;  // Points to the number of pairs. If the pointer is null, there are `most`.
  i64 most;
};
/// Returns the number of pairs in the list.
MINUET_HD i64 pairs_in(const PairList& list) { return count_within(list.count, list.most); }

/// A kernel has at most this many offsets, because one block lists their steps in shared memory.
constexpr i32 kMostGradientOffsets = 4096;

/// Returns the number of parts into which `steps` steps are divided. It is `wanted`, or less if there are few
/// steps.
MINUET_HD constexpr i64 parts_of(i64 steps, i64 wanted) {
  const i64 enough = (steps + kLeastPartSteps - 1) / kLeastPartSteps;
  return wanted < enough ? wanted : enough;
}
/// Returns an upper bound of the steps of `pairs` pairs.
MINUET_HD constexpr i64 most_steps(i64 pairs, i64 volume) { return pairs / kStepPairs + volume; }
/// Returns a / b for numbers that are not negative. They are nearly always below 2^32, where a device divides
/// several times faster.
MINUET_HD constexpr i64 divide_steps(i64 a, i64 b) {
  return (a | b) >> 32 == 0 ? static_cast<i64>(static_cast<u32>(a) / static_cast<u32>(b)) : a / b;
}
/// Returns the first step of a part. Part `parts` stands for the end.
MINUET_HD constexpr i64 first_step_of_part(i64 part, i64 parts, i64 steps) {
  return divide_steps(part * steps, parts);
}
/// Returns the part that has a step.
MINUET_HD constexpr i64 part_of_step(i64 step, i64 parts, i64 steps) {
  return divide_steps((step + 1) * parts - 1, steps);
}
/// Names the parts that have steps of an offset.
struct PartsOfOffset {
  i32 first = 0, count = 0;
};
MINUET_HD constexpr PartsOfOffset parts_of_offset(i64 first_step, i64 end_step, i64 parts, i64 steps) {
  if (first_step >= end_step) return {};
  const i32 first = static_cast<i32>(part_of_step(first_step, parts, steps));
  return {first, static_cast<i32>(part_of_step(end_step - 1, parts, steps)) - first + 1};
}

struct ListStepsSpec {
  i32 threads = 1024;
  bool operator==(const ListStepsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
/// Names a list of pairs, and where its steps are stored.
struct StepsOfList {
  PairList list;
  i32 volume;
  i32* first_pair;  // Receives the first pair of each offset, and the end of the last one.
  i32* first_step;  // Receives the first step of each offset, and the number of steps.
};
/// A launch of list_steps lists the steps of at most this many lists.
constexpr i32 kMostStepLists = 32;
struct ListStepsParams {
  StepsOfList lists[kMostStepLists];
};

/// Describes the sums that a slot holds. A block of `outputs` output channels has [rows][columns] sums, one
/// for each of their input channels (padded to `rows`) and each of them (padded to `columns`).
struct SlotLayout {
  i32 outputs;
  i32 rows, columns;
  i64 elements;  // Counts the sums of all blocks.
};
MINUET_HD i64 place_in_slot(const SlotLayout& layout, i32 input, i32 output) {
  const i32 block = output < layout.outputs ? 0 : output / layout.outputs;
  return (static_cast<i64>(block) * layout.rows + input) * layout.columns + output - block * layout.outputs;
}

/// Describes the operands of weight_gradient, weight_gradient_warpgroups and weight_gradient_scalar.
struct WeightGradientParams {
  const i32* pairs;
  i32 input_column;  // Names the column of `pairs` that has the input row, 1 or 2. The other has the output
                     // row.
  const i32 *first_pair, *first_step;  // Are those of StepsOfList.
  // 1: the last launch writes neither the pairs nor these numbers of steps (core/early_loads.h). 2: it does
  // not write rows of `input` or `gradient` either, so that only the slots wait for it.
  i32 reads_early;
  i32 volume;
  i32 wanted_parts;
  i32 groups, group_inputs, group_outputs;
  i32 tiles_in, tiles_out;  // Count the tiles of a group, or of all output channels without tensor cores.
  const void* input;
  i64 input_rows, input_ld;
  const void* gradient;
  i64 gradient_rows, gradient_ld;
  SlotLayout layout;
  float* sums;  // Has the shape [slots][layout.elements].
};

/// weight_gradient computes tiles of `tile_in` input channels and `tile_out` output channels.
struct WeightGradientSpec {
  DType io = DType::F16;
  i32 tile_in = 64, tile_out = 64;
  i32 warps_in = 2, warps_out = 2;  // Divide the tile among the warps.
  i32 stages = 4;                   // Counts the steps whose rows fit into shared memory.
  i32 vector_bytes = 16;            // Gives the width of one copy, 4, 8 or 16.
  bool operator==(const WeightGradientSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("tile_in", tile_in), visitor("tile_out", tile_out);
    visitor("warps_in", warps_in), visitor("warps_out", warps_out), visitor("stages", stages);
    visitor("vector_bytes", vector_bytes);
  }
};
MINUET_HD constexpr i32 weight_gradient_threads(const WeightGradientSpec& spec) {
  return 32 * spec.warps_in * spec.warps_out;
}
/// Returns the bytes from a row of a tile in shared memory to the next, a power of two.
MINUET_HD constexpr i32 tile_pitch(DType io, i32 channels) {
  i32 pitch = 16;
  while (pitch < channels * dtype_bytes(io)) pitch *= 2;
  return pitch;
}
/// Returns the bytes of shared memory of the rows of both operands of one stage.
MINUET_HD constexpr i32 gradient_stage_bytes(const WeightGradientSpec& spec) {
  return kStepPairs * (tile_pitch(spec.io, spec.tile_in) + tile_pitch(spec.io, spec.tile_out));
}
MINUET_HD constexpr i32 gradient_shared_bytes(const WeightGradientSpec& spec) {
  return spec.stages * (gradient_stage_bytes(spec) + 2 * kStepPairs * static_cast<i32>(sizeof(i32)));
}

/// Returns how many blocks of a multiprocessor the compiler must leave registers for. Two blocks of the
/// widest tiles hide the barriers of each other; the words of 32-bit operands take the registers of both.
MINUET_HD constexpr i32 least_gradient_blocks(const WeightGradientSpec& spec) {
  return dtype_bytes(spec.io) == 2 && weight_gradient_threads(spec) <= 256 ? 2 : 1;
}

/// weight_gradient_warpgroups computes tiles of `tile_in` input channels and `tile_out` output channels, both
/// multiples of 32. A warpgroup multiplies 64 input channels of the tile.
struct WarpgroupGradientSpec {
  DType io = DType::F16;  // Has 16 bits.
  i32 tile_in = 64, tile_out = 64;
  /// Counts the warpgroups that only copy rows. If there are none, the warpgroups that multiply copy them.
  i32 copiers = 1;
  i32 stages = 4;  // Counts the steps whose rows fit into shared memory.
  i32 blocks = 1;  // Counts the blocks of a multiprocessor that the compiler must leave registers for.
  bool operator==(const WarpgroupGradientSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("tile_in", tile_in), visitor("tile_out", tile_out);
    visitor("copiers", copiers), visitor("stages", stages), visitor("blocks", blocks);
  }
};
/// Returns the number of planes of 64 channels (core/wgmma_planes.h) that a step of a tile fills.
MINUET_HD constexpr i32 gradient_planes(i32 channels) { return (channels + 63) / 64; }
MINUET_HD constexpr i32 multiplying_threads(const WarpgroupGradientSpec& spec) {
  return 128 * gradient_planes(spec.tile_in);
}
MINUET_HD constexpr i32 weight_gradient_threads(const WarpgroupGradientSpec& spec) {
  return multiplying_threads(spec) + 128 * spec.copiers;
}
MINUET_HD constexpr i32 gradient_stage_bytes(const WarpgroupGradientSpec& spec) {
  return (gradient_planes(spec.tile_in) + gradient_planes(spec.tile_out)) * kStepPairs * 128;
}
/// Behind the stages are two barriers for each stage, or the numbers of the rows of each stage.
MINUET_HD constexpr i32 gradient_shared_bytes(const WarpgroupGradientSpec& spec) {
  constexpr i32 kAlignment = 1024;
  const i32 behind = spec.copiers > 0 ? 16 : 2 * kStepPairs * static_cast<i32>(sizeof(i32));
  return kAlignment + spec.stages * (gradient_stage_bytes(spec) + behind);
}

/// weight_gradient_scalar computes tiles of `lanes` * `inputs` input channels of the group of each of
/// `tile_out` output channels. A thread has `inputs` of them.
struct WeightGradientScalarSpec {
  DType io = DType::F32;
  i32 tile_out = 64;
  i32 lanes = 4;
  i32 inputs = 8;
  bool operator==(const WeightGradientScalarSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("tile_out", tile_out), visitor("lanes", lanes), visitor("inputs", inputs);
  }
};
MINUET_HD constexpr i32 weight_gradient_threads(const WeightGradientScalarSpec& spec) {
  return spec.tile_out * spec.lanes;
}

/// A thread of add_parts adds slots of the weights of `vector` consecutive output channels. `vector`, which
/// is 1 or 4, divides the output channels of a group, and `threads` is a power of two.
struct AddPartsSpec {
  i32 vector = 1;
  i32 threads = 256;
  bool operator==(const AddPartsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("vector", vector), visitor("threads", threads);
  }
};
/// A thread loads this many slots at once.
constexpr i32 kPartsAtOnce = 8;
/// So many blocks of a multiprocessor leave a thread the registers of all these slots.
constexpr i32 kAddBlocks = 4;
/// At most 2^kMostAddBits threads add the slots of one weight.
constexpr i32 kMostAddBits = 6;
/// Returns the logarithm of the number of threads that add the slots of one weight. Each of them has
/// kPartsAtOnce slots or fewer, unless there are very many.
MINUET_HD constexpr i32 add_bits_of(i32 slots) {
  i32 bits = 0;
  while (bits < kMostAddBits && kPartsAtOnce << bits < slots) ++bits;
  return bits;
}
/// Returns the logarithm of the threads of a block.
MINUET_HD constexpr i32 add_thread_bits(const AddPartsSpec& spec) {
  i32 bits = kMostAddBits;
  while (1 << bits < spec.threads) ++bits;
  return bits;
}
/// Returns an upper bound of the blocks of add_parts that have work. An offset of n > kPartsAtOnce slots has
/// fewer than n / 4 threads for each weight, and the offsets have `wanted_parts` + volume slots at most.
MINUET_HD constexpr i64 most_add_blocks(const AddPartsSpec& spec, i64 volume, i64 weights, i64 wanted_parts) {
  static_assert(kPartsAtOnce == 8, "a split of s > 1 threads has more than 4 s slots");
  const i64 splits = volume + (wanted_parts + volume) / 4, vectors = weights / spec.vector;
  return vectors * splits / spec.threads + volume + 1;
}

struct AddPartsParams {
  const i32* first_step;
  i32 volume;
  i32 wanted_parts;
  i32 inputs, outputs;  // Count the input channels of a group and all output channels.
  SlotLayout layout;
  const float* sums;
  float* weight_gradient;
  /// The strides of the weight's gradient along the offsets. Axes of the kernel that one stride describes
  /// together count as one, because each axis but the first costs a division.
  i32 axes;
  i32 axis_sizes[kMaxDim];
  i64 axis_strides[kMaxDim];
  i64 input_stride, output_stride;
  i32 stores_vectors;  // 1: four consecutive output channels are an aligned vector of memory.
  i32 adds;            // 1: the sums are added to what is there.
};

/// Counts the rows whose sum is a piece of a bias gradient.
constexpr i32 kRowsPerPiece = 1024;

/// A block of sum_rows sums one piece of `columns` channels, with `threads` / `columns` threads each.
struct SumRowsSpec {
  DType io = DType::F16;
  i32 columns = 32;
  i32 threads = 256;
  bool operator==(const SumRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("columns", columns), visitor("threads", threads);
  }
};
struct AddRowSumsSpec {
  i32 threads = 128;
  bool operator==(const AddRowSumsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct SumRowsParams {
  const void* gradient;
  i64 rows, ld;
  const i32* count;  // Points to the number of rows. If the pointer is null, there are `rows`.
  i32 channels;
  float* sums;  // Has the shape [pieces, channels].
  float* bias_gradient;
  i32 adds;  // 1: the sums are added to what is there.
};
MINUET_HD i64 rows_in(const SumRowsParams& params) { return count_within(params.count, params.rows); }
MINUET_HD constexpr i64 row_pieces(i64 rows) { return (rows + kRowsPerPiece - 1) / kRowsPerPiece; }

/// A warp of measure_rows measures one row at a time.
struct MeasureRowsSpec {
  DType io = DType::F16;
  i32 threads = 256;
  bool operator==(const MeasureRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("threads", threads);
  }
};
/// A block of sum_products sums one piece of `columns` channels, with `threads` / `columns` threads each.
struct SumProductsSpec {
  DType io = DType::F16;
  bool normalizes = false;  // Says whether the input's rows are normalized.
  i32 columns = 32;
  i32 threads = 256;
  bool operator==(const SumProductsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("normalizes", normalizes), visitor("columns", columns);
    visitor("threads", threads);
  }
};
/// Describes the operands of measure_rows and sum_products.
struct SumProductsParams {
  const void* input;
  i64 input_ld;
  const void* gradient;
  i64 gradient_ld;
  i64 rows;
  const i32* count;  // Points to the number of rows. If the pointer is null, there are `rows`.
  i32 channels;
  float epsilon;
  float* measures;         // Holds the mean and 1 / sqrt(variance + epsilon) of each row.
  float *products, *sums;  // Have the shape [pieces, channels].
};

}  // namespace minuet
