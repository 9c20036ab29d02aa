#include "codegen/choose/ops/parameter_gradient.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "codegen/base/arch.h"

namespace minuet {
namespace {

/// Tensor cores would mostly multiply zeros if there are several groups of fewer channels.
constexpr i32 kLeastGroupChannels = 16;
/// The number of parts is chosen for this GPU (an H100 or H200), and is the same on all.
constexpr i32 kWantedMultiprocessors = 132, kSharedBytesOfMultiprocessor = 227 * 1024,
              kMostResidentBlocks = 8;
/// Warpgroups multiply tiles of at least 32 channels, and most of such a tile would be zeros with fewer
/// channels than these.
constexpr i32 kLeastWarpgroupChannels = 17;
constexpr const char* kWarpgroupArch = "sm_90a";
/// Kernels with at most this many offsets have smaller tiles.
constexpr i64 kFewGradientOffsets = 8;

/// Describes how a tile is computed by warpgroups, measured on an H200. A larger tile reads fewer rows again,
/// and has fewer registers and less shared memory to hide latencies with.
struct WarpgroupTile {
  i32 in, out, copiers, stages, blocks;
  i64 least_pairs = 0;
};
constexpr WarpgroupTile kWarpgroupTiles[] = {
    {32, 32, 0, 3, 4},           {32, 64, 0, 3, 4},  {32, 96, 0, 3, 3},  {32, 128, 0, 3, 3},
    {64, 32, 0, 3, 4},           {64, 64, 1, 4, 3},  {64, 96, 0, 3, 3},  {64, 128, 0, 3, 3},
    {96, 32, 0, 4, 2},           {96, 64, 0, 4, 2},  {96, 96, 0, 3, 2},  {96, 128, 0, 3, 2},
    {128, 32, 0, 4, 2},          {128, 64, 0, 4, 2}, {128, 96, 0, 3, 2}, {128, 128, 0, 3, 2},
    {128, 256, 0, 4, 1, 200'000}};

WarpgroupGradientSpec spec_of(const WarpgroupTile& tile, DType dtype) {
  return {.io = dtype,
          .tile_in = tile.in,
          .tile_out = tile.out,
          .copiers = tile.copiers,
          .stages = tile.stages,
          .blocks = tile.blocks};
}

constexpr i32 ceil_of(i32 value, i32 step) { return (value + step - 1) / step; }

/// Returns the tile that covers the channels with the fewest channels in excess. Of several, it returns the
/// largest one, because each tile reads the rows of the other operand again.
i32 choose_gradient_tile(i32 channels, std::initializer_list<i32> tiles) {
  i32 best = *tiles.begin();
  for (const i32 tile : tiles) {
    if (ceil_of(channels, tile) * tile <= ceil_of(channels, best) * best) best = tile;
  }
  return best;
}

WeightGradientSpec choose_tensor(DType dtype, i32 group_inputs, i32 group_outputs, i32 vector_bytes) {
  const auto tile = [&](i32 channels) {
    return dtype_bytes(dtype) == 2 ? choose_gradient_tile(channels, {16, 32, 64, 96, 128})
                                   : choose_gradient_tile(channels, {16, 32, 64});
  };
  return tensor_gradient_spec(dtype, tile(group_inputs), tile(group_outputs), vector_bytes);
}

WeightGradientScalarSpec choose_scalar(DType dtype, i32 group_inputs) {
  WeightGradientScalarSpec spec;
  spec.io = dtype;
  spec.inputs = std::min<i32>(static_cast<i32>(std::bit_ceil(static_cast<u32>(group_inputs))), 8);
  spec.lanes = std::clamp(ceil_of(group_inputs, spec.inputs), 1, 4);
  return spec;
}

/// Returns how often a multiprocessor runs a block at once.
i32 resident_blocks(const WeightGradientSpec& spec) {
  return std::clamp(kSharedBytesOfMultiprocessor / gradient_shared_bytes(spec), 1, kMostResidentBlocks);
}

void set_parts(WeightGradientCandidate& candidate, i32 wanted_parts) {
  candidate.wanted_parts = wanted_parts;
  candidate.add.vector = candidate.layout.outputs % 4 == 0 ? 4 : 1;
}

/// Sets what follows from the tiles of a group and from the number of resident blocks.
void set_tiles(WeightGradientCandidate& candidate, const ConvolutionProblem& forward, i32 tile_in,
               i32 tile_out, i32 blocks) {
  const i32 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  candidate.tiles_in = ceil_of(inputs, tile_in);
  candidate.tiles_out = ceil_of(outputs, tile_out);
  candidate.tiles = forward.groups * candidate.tiles_in * candidate.tiles_out;
  candidate.layout.outputs = outputs;
  candidate.layout.rows = candidate.tiles_in * tile_in;
  candidate.layout.columns = candidate.tiles_out * tile_out;
  candidate.layout.elements = i64{forward.groups} * candidate.layout.rows * candidate.layout.columns;
  set_parts(candidate, std::max(kWantedMultiprocessors * blocks / candidate.tiles, 1));
}

/// Adds the candidates by warpgroups: the largest tile that covers the channels best, in front of those that
/// serve shorter lists. Kernels with few offsets have few pairs for each weight, so that adding up the
/// partial sums takes much of the time. Smaller tiles need fewer of these.
void add_warpgroups(std::vector<WeightGradientCandidate>& candidates, const ConvolutionProblem& forward) {
  const i32 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  const auto tile_of = [&](i32 channels) {
    return kernel_volume(forward) <= kFewGradientOffsets ? choose_gradient_tile(channels, {32, 64, 96})
                                                         : choose_gradient_tile(channels, {32, 64, 96, 128});
  };
  const i32 tile_in = tile_of(inputs);
  i32 tile_out = tile_of(outputs);
  if (tile_in == 128 && tile_out == 128) tile_out = choose_gradient_tile(outputs, {128, 256});
  for (; tile_out > 0; tile_out = tile_out == 256 ? 128 : 0) {
    for (const WarpgroupTile& tile : kWarpgroupTiles) {
      if (tile.in != tile_in || tile.out != tile_out) continue;
      WeightGradientCandidate candidate = make_candidate(forward, spec_of(tile, forward.dtype));
      candidate.least_pairs = tile.least_pairs;
      if (!candidates.empty()) set_parts(candidate, candidates.front().wanted_parts);
      candidates.push_back(candidate);
    }
  }
}

WeightGradientCandidate scalar_candidate(const ConvolutionProblem& forward) {
  const i32 inputs = group_inputs(forward);
  const WeightGradientScalarSpec spec = choose_scalar(forward.dtype, inputs);
  WeightGradientCandidate candidate;
  candidate.spec = spec;
  candidate.tiles_in = ceil_of(inputs, spec.lanes * spec.inputs);
  candidate.tiles_out = ceil_of(forward.out_channels, spec.tile_out);
  candidate.tiles = candidate.tiles_in * candidate.tiles_out;
  candidate.layout.outputs = forward.out_channels;
  candidate.layout.rows = candidate.tiles_in * spec.lanes * spec.inputs;
  candidate.layout.columns = candidate.tiles_out * spec.tile_out;
  candidate.layout.elements = i64{candidate.layout.rows} * candidate.layout.columns;
  set_parts(candidate, std::max(kWantedMultiprocessors * kMostResidentBlocks / candidate.tiles, 1));
  return candidate;
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

bool WeightGradientCandidate::runs_on(llvm::StringRef arch) const {
  if (capability != 0 && capability != minuet::capability(arch)) return false;
  return !std::holds_alternative<WarpgroupGradientSpec>(spec) || arch == kWarpgroupArch;
}

bool WeightGradientCandidate::serves(i64 most_pairs, i64 rows) const {
  return least_pairs <= most_pairs && least_rows <= rows && rows <= most_rows &&
         least_density * static_cast<double>(rows) <= static_cast<double>(most_pairs);
}

bool WeightGradientCandidate::may_serve(i64 most_pairs, i64 most_rows) const {
  return least_rows <= most_rows && serves(most_pairs, least_rows);
}

i64 WeightGradientCandidate::most_parts(i64 pairs, i64 volume) const {
  return parts_of(most_steps(pairs, volume), wanted_parts);
}

const WeightGradientCandidate& ParameterGradientChoice::candidate(llvm::StringRef arch, i64 most_pairs,
                                                                  i64 rows) const {
  for (const WeightGradientCandidate& candidate : candidates) {
    if (candidate.runs_on(arch) && candidate.serves(most_pairs, rows)) return candidate;
  }
  return candidates.back();
}

WeightGradientCandidate make_candidate(const ConvolutionProblem& forward, const WarpgroupGradientSpec& spec) {
  WeightGradientCandidate candidate;
  candidate.spec = spec;
  set_tiles(candidate, forward, spec.tile_in, spec.tile_out, spec.blocks);
  return candidate;
}

WeightGradientCandidate make_candidate(const ConvolutionProblem& forward, const WeightGradientSpec& spec) {
  WeightGradientCandidate candidate;
  candidate.spec = spec;
  set_tiles(candidate, forward, spec.tile_in, spec.tile_out, resident_blocks(spec));
  return candidate;
}

i32 gradient_vector_bytes(DType dtype, i32 group_inputs, i32 group_outputs) {
  const i32 bytes = dtype_bytes(dtype);
  return std::gcd(std::gcd(group_inputs * bytes, group_outputs * bytes), kWidestAccess);
}

bool is_gradient_tunable(const ConvolutionProblem& forward) {
  const i32 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  const bool is_narrow = forward.groups > 1 && std::min(inputs, outputs) < kLeastGroupChannels;
  return gradient_vector_bytes(forward.dtype, inputs, outputs) >= 4 && !is_narrow;
}

bool suits_warpgroups(DType dtype, i32 group_inputs, i32 group_outputs) {
  return dtype_bytes(dtype) == 2 &&
         gradient_vector_bytes(dtype, group_inputs, group_outputs) == kWidestAccess &&
         std::min(group_inputs, group_outputs) >= kLeastWarpgroupChannels;
}

WeightGradientSpec tensor_gradient_spec(DType dtype, i32 tile_in, i32 tile_out, i32 vector_bytes) {
  WeightGradientSpec spec;
  spec.io = dtype;
  spec.tile_in = tile_in;
  spec.tile_out = tile_out;
  spec.warps_in = tile_in >= 64 ? 2 : 1;
  spec.warps_out = tile_out >= 128 ? 4 : tile_out >= 32 ? 2 : 1;
  spec.vector_bytes = vector_bytes;
  spec.stages = 4;
  while (spec.stages > 2 && llvm::errorToBool(validate_spec(spec))) --spec.stages;
  return spec;
}

std::vector<WarpgroupGradientSpec> warpgroup_gradient_specs(DType dtype) {
  std::vector<WarpgroupGradientSpec> specs;
  for (const WarpgroupTile& tile : kWarpgroupTiles) specs.push_back(spec_of(tile, dtype));
  return specs;
}

[[gnu::cold]] ParameterGradientChoice choose_parameter_gradient(const ParameterGradientProblem& problem,
                                                                const TuningSnapshot* tuning) {
  const ConvolutionProblem& forward = problem.forward;
  const i32 inputs = group_inputs(forward), outputs = forward.out_channels / forward.groups;
  ParameterGradientChoice choice;
  choice.problem = problem;
  if (is_gradient_tunable(forward)) {
    if (suits_warpgroups(forward.dtype, inputs, outputs)) add_warpgroups(choice.candidates, forward);
    const i32 vector_bytes = gradient_vector_bytes(forward.dtype, inputs, outputs);
    choice.candidates.push_back(
        make_candidate(forward, choose_tensor(forward.dtype, inputs, outputs, vector_bytes)));
    if (tuning != nullptr && problem.weight) add_tuned_candidates(choice, *tuning);
  } else {
    choice.candidates.push_back(scalar_candidate(forward));
  }
  choice.rows.io = storage_type(forward.dtype);
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const ParameterGradientChoice& choice,
                               llvm::StringRef arch) {
  if (choice.problem.weight) {
    list.add(kListSteps);
    for (const WeightGradientCandidate& candidate : choice.candidates) {
      if (!candidate.runs_on(arch)) continue;
      std::visit([&](const auto& spec) { list.add(spec); }, candidate.spec);
      list.add(candidate.add);
      if (candidate.is_last()) break;
    }
  }
  if (!choice.problem.bias) return;
  list.add(choice.rows);
  list.add(choice.row_sums);
}

}  // namespace minuet
