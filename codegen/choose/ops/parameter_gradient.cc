#include "codegen/choose/ops/parameter_gradient.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace minuet {
namespace {

constexpr i32 kTiles[] = {16, 32, 64, 96, 128};
/// Tensor cores would mostly multiply zeros if there are several groups of fewer channels.
constexpr i32 kLeastGroupChannels = 16;
/// The number of parts is chosen for this GPU (an H100 or H200), and is the same on all.
constexpr i32 kWantedMultiprocessors = 132, kSharedBytesOfMultiprocessor = 227 * 1024,
              kMostResidentBlocks = 8;
/// Every GPU from sm_80 on gives a block this much shared memory.
constexpr i32 kMostGradientBytes = 99 * 1024;

constexpr i32 ceil_of(i32 value, i32 step) { return (value + step - 1) / step; }

/// Returns the tile that covers the channels with the fewest channels in excess. Of several, it returns the
/// largest one, because each tile reads the rows of the other operand again.
i32 choose_gradient_tile(i32 channels, i32 largest) {
  i32 best = kTiles[0];
  for (const i32 tile : kTiles) {
    if (tile > largest) break;
    if (ceil_of(channels, tile) * tile <= ceil_of(channels, best) * best) best = tile;
  }
  return best;
}

WeightGradientSpec choose_tensor(DType dtype, i32 group_inputs, i32 group_outputs, i32 vector_bytes) {
  WeightGradientSpec spec;
  spec.io = dtype;
  const i32 largest = dtype_bytes(dtype) == 2 ? 128 : 64;
  spec.tile_in = choose_gradient_tile(group_inputs, largest);
  spec.tile_out = choose_gradient_tile(group_outputs, largest);
  spec.warps_in = spec.tile_in >= 64 ? 2 : 1;
  spec.warps_out = spec.tile_out >= 128 ? 4 : spec.tile_out >= 32 ? 2 : 1;
  spec.vector_bytes = vector_bytes;
  spec.stages = 4;
  while (spec.stages > 2 && gradient_shared_bytes(spec) > kMostGradientBytes) --spec.stages;
  return spec;
}

WeightGradientScalarSpec choose_scalar(DType dtype, i32 group_inputs) {
  WeightGradientScalarSpec spec;
  spec.io = dtype;
  spec.inputs = std::min<i32>(static_cast<i32>(std::bit_ceil(static_cast<u32>(group_inputs))), 8);
  spec.lanes = std::clamp(ceil_of(group_inputs, spec.inputs), 1, 4);
  return spec;
}

}  // namespace

llvm::Error validate(const ParameterGradientProblem& problem) {
  MINUET_TRY(validate(problem.forward));
  const i64 volume = kernel_volume(problem.forward);
  if (volume <= kMostGradientOffsets || !problem.weight) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented,
                    "the gradient of a convolution's weight takes at most {0} offsets, and the kernel has "
                    "{1}: use a smaller kernel",
                    kMostGradientOffsets, volume);
}

i64 ParameterGradientChoice::most_parts(i64 pairs) const {
  return parts_of(most_steps(pairs, kernel_volume(problem.forward)), wanted_parts);
}

[[gnu::cold]] ParameterGradientChoice choose_parameter_gradient(const ParameterGradientProblem& problem) {
  const ConvolutionProblem& forward = problem.forward;
  const i32 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  const i32 bytes = dtype_bytes(forward.dtype);
  ParameterGradientChoice choice;
  choice.problem = problem;
  const i32 vector_bytes = std::gcd(std::gcd(inputs * bytes, outputs * bytes), kWidestAccess);
  const bool is_narrow = forward.groups > 1 && std::min(inputs, outputs) < kLeastGroupChannels;
  i32 blocks = kMostResidentBlocks;  // Counts the blocks that a multiprocessor runs at once.
  if (vector_bytes >= 4 && !is_narrow) {
    const WeightGradientSpec spec = choose_tensor(forward.dtype, inputs, outputs, vector_bytes);
    choice.tensor = spec;
    choice.tiles_in = ceil_of(inputs, spec.tile_in);
    choice.tiles_out = ceil_of(outputs, spec.tile_out);
    choice.tiles = forward.groups * choice.tiles_in * choice.tiles_out;
    choice.layout.outputs = outputs;
    choice.layout.rows = choice.tiles_in * spec.tile_in;
    choice.layout.columns = choice.tiles_out * spec.tile_out;
    choice.layout.elements = i64{forward.groups} * choice.layout.rows * choice.layout.columns;
    blocks = std::clamp(kSharedBytesOfMultiprocessor / gradient_shared_bytes(spec), 1, kMostResidentBlocks);
  } else {
    const WeightGradientScalarSpec spec = choose_scalar(forward.dtype, inputs);
    choice.scalar = spec;
    choice.tiles_in = ceil_of(inputs, spec.lanes * spec.inputs);
    choice.tiles_out = ceil_of(forward.out_channels, spec.tile_out);
    choice.tiles = choice.tiles_in * choice.tiles_out;
    choice.layout.outputs = forward.out_channels;
    choice.layout.rows = choice.tiles_in * spec.lanes * spec.inputs;
    choice.layout.columns = choice.tiles_out * spec.tile_out;
    choice.layout.elements = i64{choice.layout.rows} * choice.layout.columns;
  }
  choice.wanted_parts = std::max(kWantedMultiprocessors * blocks / choice.tiles, 1);
  // With many parts for each offset, one thread for each weight would take long.
  const i64 parts_of_offset = choice.wanted_parts / kernel_volume(forward) + 1;
  choice.add.split = parts_of_offset >= 12 ? 8 : parts_of_offset >= 4 ? 4 : 1;
  choice.rows.io = storage_type(forward.dtype);
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const ParameterGradientChoice& choice) {
  if (choice.problem.weight) {
    list.add(choice.list);
    if (choice.tensor) {
      list.add(*choice.tensor);
    } else {
      list.add(choice.scalar);
    }
    list.add(choice.add);
  }
  if (!choice.problem.bias) return;
  list.add(choice.rows);
  list.add(choice.row_sums);
}

}  // namespace minuet
