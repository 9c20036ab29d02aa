#include "codegen/fused_choice.h"

#include <algorithm>

#include "codegen/arch.h"
#include "codegen/choice.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

// Measured on an H200 in fp16, on maps of a LiDAR sweep (tests/runtime/cuda/fused_bench.cc).
constexpr i32 kTile = 16;         // columns of a product
constexpr i32 kMostColumns = 96;  // of a block; 128 to 128 channels take a fifth less in two halves
// Elements of 16 and of 32 bits that a step takes of each input row, in registers.
constexpr i32 kMostStep = 128, kMostWideStep = 32;
constexpr i32 kMostRing = 72 << 10;  // bytes, of the 99 KB that a block may have everywhere
constexpr i32 kMostStages = 6;
constexpr i64 kEnoughBlocks = 400;  // that a large GPU is kept busy with

i32 round_up(i32 value, i32 unit) { return (value + unit - 1) / unit * unit; }

/// The size of equal parts of at most `most`, whole units, that need the fewest zeros behind `whole`; of
/// these the largest.
i32 equal_parts(i32 whole, i32 unit, i32 most) {
  const i32 least = (whole + most - 1) / most;
  const auto size_of = [&](i32 parts) { return round_up((whole + parts - 1) / parts, unit); };
  i32 best = least;
  for (i32 parts = least; parts <= 2 * least; ++parts) {
    if (parts * size_of(parts) < best * size_of(best)) best = parts;
  }
  return size_of(best);
}

i32 choose_step(DType io, i32 in_channels, i32 volume) {
  const i32 granule = fused_granule(io), most = dtype_bytes(io) == 4 ? kMostWideStep : kMostStep;
  if (!folds_offsets(io, in_channels)) return equal_parts(in_channels, granule, most);
  return std::min(round_up(volume * fused_offset_depth(io, in_channels, 0), 2 * granule), most);
}

/// Whole rounds, two at least.
i32 choose_stages(const FusedSpec& spec) {
  const i32 rounds = std::min(kMostRing / fused_stage_bytes(spec), kMostStages) / spec.split;
  return std::max(rounds, 2) * spec.split;
}

/// As many as may run at once, by what the compiler was seen to need beside sums and steps of input. A
/// quarter of a multiprocessor has 512 registers a lane.
i32 choose_blocks(const FusedSpec& spec) {
  const i32 granules = spec.step / fused_granule(spec.io);
  const bool is_lean = dtype_bytes(spec.io) == 2 && spec.weights == WeightRoad::BulkCopy;
  const i32 beside = spec.io == DType::F32 ? 140 : is_lean ? 48 : 64;
  const i32 needed = spec.row_tiles * (spec.columns / 4 + spec.prefetch * ((granules + 1) / 2) * 4) + beside;
  i32 blocks = 1;
  const auto registers = [&](i32 count) {
    return 512 / ((count * fused_threads(spec) / 32 + 3) / 4) / 8 * 8;
  };
  while (registers(blocks + 1) >= needed) ++blocks;
  return blocks;
}

void choose_warps(FusedChoice& choice, llvm::StringRef arch, i64 rows) {
  FusedSpec& spec = choice.fused;
  const i32 element = dtype_bytes(spec.io);
  spec.step = choose_step(spec.io, spec.in_channels, spec.volume);
  spec.columns = equal_parts(spec.out_channels, kTile, kMostColumns);
  const bool few_channels = spec.in_channels * element <= 64 && spec.columns <= 32;
  spec.weights = few_channels             ? WeightRoad::Cached
                 : capability(arch) >= 90 ? WeightRoad::BulkCopy
                                          : WeightRoad::AsyncCopy;
  spec.row_tiles = few_channels ? 1 : 2;
  spec.warps = 4;
  // Steps of more than 64 bytes are long enough to hide the loads of the next behind the products of one.
  spec.prefetch = spec.step * element <= 64 ? 3 : 1;
  if (!few_channels && rows != 0 && fused_blocks(spec, rows) < kEnoughBlocks) {
    spec.row_tiles = 1;
    spec.split = 2;
    choice.reasons.push_back(
        llvm::formatv("{0} rows are few: smaller blocks, whose warps share the steps", rows).str());
  }
  spec.stages = few_channels ? 1 : choose_stages(spec);
  spec.blocks = choose_blocks(spec);
}

/// Whole pieces of 64 bytes, and enough of them for products of 64 rows to be worth while.
bool fits_warpgroups(const FusedSpec& spec) {
  return spec.io != DType::F32 && spec.in_channels * dtype_bytes(spec.io) >= 128 && spec.out_channels >= 64;
}

/// Blocks of one to three warpgroups that fill a multiprocessor's registers, as many of a cluster as leave
/// none of a large GPU idle.
void choose_warpgroups(FusedChoice& choice, i64 rows) {
  constexpr i32 kWarpgroupColumns = 128, kMultiprocessors = 132, kSharedBytes = 208 << 10;
  FusedSpec& spec = choice.fused;
  const i32 piece = 2 * fused_granule(spec.io);
  spec.unit = MmaUnit::Warpgroup;
  spec.weights = WeightRoad::BulkRefill;
  spec.step = equal_parts(spec.in_channels, piece, 4 * piece);
  spec.columns = equal_parts(spec.out_channels, kTile, kWarpgroupColumns);
  const bool wide = spec.columns > 96 || spec.step > 3 * piece, many = rows == 0 || rows >= 60000;
  i32 warpgroups = 1;
  if (wide) {
    warpgroups = 3, spec.blocks = 1;
  } else if (spec.columns > 64 && many) {
    warpgroups = 2, spec.blocks = 2;
  } else {
    spec.blocks = spec.columns > 64 || !many ? 3 : 4;
  }
  spec.warps = 4 * warpgroups;
  spec.prefetch = warpgroups == 1 ? 2 : 1;
  spec.early_loads = wide || spec.blocks == 4;
  spec.stages = std::clamp(kSharedBytes / spec.blocks / fused_stage_bytes(spec), 2, kMostStages);
  // Four fifths of what runs at once; eight offsets are a block's share of them at least.
  const i64 enough = spec.blocks * kMultiprocessors * 4 / 5;
  while (rows != 0 && spec.cluster * 8 <= spec.volume && spec.cluster < 4 &&
         fused_blocks(spec, rows) < enough)
    spec.cluster *= 2;
  choice.reasons.push_back(
      llvm::formatv("products by {0} warpgroups a block, {1} blocks a cluster", warpgroups, spec.cluster)
          .str());
}

}  // namespace

FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedMeans means) {
  FusedChoice choice;
  choice.problem = problem;
  FusedSpec& spec = choice.fused;
  const i32 element = dtype_bytes(problem.dtype);
  spec.io = problem.dtype;
  spec.in_channels = problem.in_channels;
  spec.out_channels = problem.out_channels;
  spec.volume = static_cast<i32>(kernel_volume(problem));
  spec.input_bytes = widest_vector(element, problem.in_channels, {problem.input});
  std::vector<Columns> outputs{problem.output};
  if (problem.residual) outputs.push_back(problem.residual_input);
  spec.output_bytes = widest_vector(element, problem.out_channels, outputs);
  spec.scale_shift = problem.scale_shift;
  spec.residual = problem.residual;
  spec.activation = problem.activation;

  spec.programmatic = means.programmatic && capability(arch) >= 90;
  if (means.warpgroups && arch == "sm_90a" && fits_warpgroups(spec)) {
    choose_warpgroups(choice, rows);
  } else {
    choose_warps(choice, arch, rows);
  }
  choice.reasons.push_back(llvm::formatv("steps of {0} of {1} channels, blocks of {2} of {3} columns",
                                         spec.step, spec.in_channels, spec.columns, spec.out_channels)
                               .str());
  return choice;
}

std::vector<KernelSource> sources_of(const FusedChoice& choice) { return {emit(choice.fused)}; }

}  // namespace minuet
