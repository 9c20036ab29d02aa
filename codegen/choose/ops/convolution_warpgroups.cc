#include "codegen/choose/ops/convolution_warpgroups.h"

#include <algorithm>

#include "codegen/choose/ops/convolution_fused.h"
#include "codegen/choose/ops/fused_limits.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {

i32 warpgroup_registers(const FusedSpec& spec) {
  const i32 residual = spec.residual && spec.columns > 96 ? 8 : 0;
  return spec.columns / 2 + spec.step * dtype_bytes(spec.io) / 4 + residual + 32;
}

i32 choose_warpgroup_stages(const FusedSpec& spec) {
  constexpr i32 kWhole = 208 << 10, kOfParts = 164 << 10, kMost = 8;
  const i32 bytes = spec.in_channels > spec.step || spec.blocks > 4 ? kOfParts : kWhole;
  return std::clamp((bytes / spec.blocks - fused_staged_bytes(spec)) / fused_stage_bytes(spec), 2, kMost);
}

namespace {

/// A block of warpgroups computes at most this many columns.
constexpr i32 kWideColumns = 128;

/// Returns the number of waves in which the blocks run. A wave is a block on each multiprocessor.
i64 waves_of(const FusedSpec& spec, i64 rows) {
  return (fused_blocks(spec, rows) + kMultiprocessors - 1) / kMultiprocessors;
}

/// Returns true if blocks that read whole rows keep nearly all multiprocessors busy, and few of them twice.
bool fills_one_wave(const FusedSpec& spec, i64 rows) {
  const i64 blocks = fused_blocks(spec, rows);
  return spec.in_channels <= spec.step && blocks > kMultiprocessors * 3 / 4 &&
         blocks <= kMultiprocessors * 5 / 4;
}

/// Splits the work of a kernel with few offsets into more blocks if all of them still run at once, because
/// each block mostly waits for loads. If there would be more blocks of two warpgroups than multiprocessors,
/// three blocks of one warpgroup run on each multiprocessor. Three blocks do not help if each row has a
/// single offset, because such blocks end too soon.
void choose_short_blocks(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  FusedSpec shorter = spec;
  shorter.warps = 8;
  if (fused_blocks(shorter, rows) <= kMultiprocessors) {
    spec = shorter;
  } else if (fused_blocks(spec, rows) <= kMultiprocessors && !has_one_offset(problem)) {
    spec.warps = 4;
    spec.blocks = 3;
  }
}

/// Chooses blocks that fill a multiprocessor's registers. In the comments of this function, a wave is the
/// blocks that all multiprocessors run at once.
void choose_warpgroup_blocks(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  spec.unit = MmaUnit::Warpgroup;
  const i32 piece = step_granule(spec);
  spec.weights = WeightRoad::BulkRefill;
  spec.step = equal_parts(spec.in_channels, piece, 8 * fused_granule(spec.io));
  spec.columns = equal_parts(spec.out_channels, kTile, kWideColumns);
  spec.row_tiles = 2;
  spec.prefetch = 1;
  spec.early_loads = true;
  const i32 registers = warpgroup_registers(spec);
  // One group of many columns reads each row once, so that larger blocks have more loads in flight.
  const bool is_single =
      spec.columns > kMostColumns && spec.out_channels <= spec.columns && spec.volume > kFewOffsets;
  if (registers <= 96) {
    spec.blocks = mask_words(spec.volume) == 1 ? 5 : 4;
    spec.warps = 4;
  } else if (registers <= 128 && is_integer(spec.io) && !is_single) {
    // A warp that only copies weights pays if a block has one warpgroup. If there are many rows, a fourth
    // block in its place hides more loads.
    const bool has_four = spec.columns <= kMostColumns &&
                          rows >= (spec.step <= kMostColumns ? 2 * kMostStagedRows : kVeryManyRows);
    if (!has_four) spec.weights = WeightRoad::BulkCopy;
    spec.blocks = has_four ? 4 : 3;
    spec.warps = 4;
  } else if (registers <= 128 && !is_integer(spec.io)) {
    // With very many rows, blocks of one warpgroup hide more loads than a long ring of weights does.
    const bool has_four = spec.columns <= kMostColumns && spec.volume > kFewOffsets && rows >= kVeryManyRows;
    spec.blocks = has_four ? 4 : 2;
    spec.warps = has_four ? 4 : 8;
  } else {
    spec.blocks = 1;
    spec.warps = 12;
    if (rows != 0 && spec.volume <= kFewOffsets) choose_short_blocks(spec, problem, rows);
  }
  // Large blocks of 8-bit channels wait for loads, which more warps hide, or shorter blocks on all
  // multiprocessors.
  if (is_integer(spec.io) && spec.blocks == 1 && spec.volume > kFewOffsets) {
    FusedSpec shorter = spec;
    shorter.warps = 8;
    if (fills_one_wave(shorter, rows)) spec = shorter;
    if (spec.step <= kWideColumns && rows >= 2 * kMostStagedRows) spec.warps = 16;
  }
  spec.stages = choose_warpgroup_stages(spec);
  const i64 blocks = fused_blocks(spec, rows);
  // If long blocks need two or three waves, shorter blocks fill the last wave better.
  if (spec.warps == 12 && spec.in_channels >= 256 && blocks >= kMultiprocessors * 3 / 2 &&
      blocks < kMultiprocessors * 3) {
    FusedSpec shorter = spec;
    shorter.warps = 8;
    if (waves_of(shorter, rows) * shorter.warps <= waves_of(spec, rows) * spec.warps) spec = shorter;
  }
  // If the blocks need one to one and a half waves, one wave of larger blocks with shorter steps may suffice.
  // Blocks of 512 threads have too few registers for a residual.
  if (spec.blocks > 1 || spec.residual || is_integer(spec.io) || spec.volume <= kFewOffsets ||
      blocks <= kMultiprocessors || blocks >= kMultiprocessors * 3 / 2)
    return;
  FusedSpec larger = spec;
  larger.warps = 16;
  larger.step = equal_parts(spec.in_channels, piece, 4 * fused_granule(spec.io));
  larger.stages = choose_warpgroup_stages(larger);
  if (fused_blocks(larger, rows) <= kMultiprocessors) spec = larger;
}

/// Sets `cluster`, the number of blocks that share the same rows, so that fewer multiprocessors are idle. A
/// wave is the blocks that all multiprocessors run at once. Two blocks share rows if there are fewer blocks
/// than one and a half waves, or, if several blocks run on a multiprocessor, fewer than three quarters of a
/// wave. Four blocks share rows if clusters of two fill less than half of the multiprocessors. Each block
/// must have at least eight steps, and one group of columns whose output it writes. With few offsets, four
/// steps suffice if half as many blocks would already be kFewestBlocks, and if all blocks run at once with at
/// most two on each multiprocessor.
void choose_cluster(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  const i32 groups = fused_column_group(spec, spec.columns / fused_tile(spec) - 1).number + 1;
  const i64 alone = fused_blocks(spec, rows);
  const i64 at_once = kMultiprocessors * std::min(spec.blocks, 2);
  const auto fits = [&](i32 cluster) {
    const bool is_short =
        spec.volume <= kFewOffsets && alone * cluster / 2 >= kFewestBlocks && alone * cluster <= at_once;
    // Steps of 8-bit channels are shorter, so fewer of them suffice for four blocks.
    const i32 least_steps = is_short ? 4 : is_integer(spec.io) ? 6 : 8;
    return rows != 0 && cluster <= groups && cluster * least_steps <= fused_steps(spec) &&
           !has_one_offset(problem);
  };
  const i64 wave = kMultiprocessors * std::clamp(spec.blocks, 2, 4);
  // If several blocks run on a multiprocessor, no registers are left for masks of several words. If two
  // blocks run on it, none are left for a residual.
  const bool has_registers =
      spec.blocks == 1 || (mask_words(spec.volume) == 1 && !(spec.blocks == 2 && spec.residual));
  // The blocks of a shortcut fill the rest of a nearly full wave, so the limit is lower with a shortcut.
  const bool has_parts = spec.in_channels > spec.step;
  // Several groups of columns are computed by blocks of their own, which read the same rows already.
  const bool has_columns = !spec.shortcut && spec.blocks == 1 && spec.out_channels > spec.columns;
  // Blocks of 8-bit channels end sooner, so they share rows only if they leave multiprocessors idle.
  const i64 most = is_integer(spec.io) && spec.blocks == 3 ? kMultiprocessors
                   : is_integer(spec.io)                   ? kMultiprocessors * 3 / 4
                   : has_columns                           ? kMultiprocessors * 3 / 4
                   : !spec.shortcut                        ? wave * 3 / 4
                   : has_parts                             ? kMultiprocessors
                                                           : kMultiprocessors * 3 / 4;
  // If choose_warpgroup_blocks() chose 16 warps or 3 blocks, it has already filled the GPU.
  const bool is_full = spec.warps == 16 || (spec.blocks == 3 && !is_integer(spec.io));
  const bool is_tiny = spec.blocks == 3 && alone < kFewestBlocks;
  if (is_full || is_tiny || !has_registers || !fits(2) || fused_blocks(spec, rows) >= most) return;
  spec.cluster = 2;
  // Clusters and shortcuts need a few more registers, so one block fewer runs on a multiprocessor. The
  // smallest blocks keep their number if they have no shortcut and at least two of them run on each
  // multiprocessor.
  const bool has_enough =
      spec.blocks == 5 && !spec.shortcut && fused_blocks(spec, rows) >= 2 * kMultiprocessors;
  if (!has_enough && (spec.blocks == 5 || (spec.blocks == 2 && spec.shortcut))) {
    --spec.blocks;
    spec.stages = choose_warpgroup_stages(spec);
  }
  const i64 few = is_integer(spec.io) ? kMultiprocessors / 3 : kMultiprocessors / 2;
  if (fits(4) && fused_blocks(spec, rows) < few) spec.cluster = 4;
  // If blocks of 12 warps leave multiprocessors idle, blocks of 8 warps are used if all of them still run at
  // once. In clusters of four, the blocks are so few that each of them waits for its loads, so they prefetch
  // two steps.
  const i64 blocks = fused_blocks(spec, rows);
  if (spec.warps == 12 && blocks >= kFewestBlocks && blocks < kMultiprocessors * 4 / 5) {
    FusedSpec smaller = spec;
    smaller.warps = 8;
    if (spec.cluster == 4) smaller.prefetch = 2;
    if (fused_blocks(smaller, rows) <= kMultiprocessors) spec = smaller;
  }
}

/// Decides whether warpgroups stage row numbers, so that they wait for them once and not at each kernel
/// offset. Blocks that are alone on their multiprocessor stage them, because nothing else hides these waits.
/// If several blocks run on it, they stage them only where three blocks do, of which each has one warpgroup
/// and a warp that copies weights: blocks of few registers where nearly all of them run at once, and others
/// below kMostStagedRows, or kVeryManyRows with 8-bit channels. Large blocks of few columns and many rows, or
/// of many input channels and very many rows, become three blocks without staging.
void choose_staged_rows(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  if (spec.volume <= kFewOffsets || !may_stage_rows(spec, problem)) return;
  const bool is_narrow = warpgroup_registers(spec) <= 96;
  if (spec.blocks == 4 && !is_narrow) return;
  const bool is_wide = !is_integer(spec.io) && spec.in_channels >= 2 * kWideColumns && rows >= kVeryManyRows;
  if (spec.blocks > 1) {
    FusedSpec three = spec;
    three.weights = WeightRoad::BulkCopy;
    three.warps = 4;
    three.blocks = 3;
    if (is_narrow) three.prefetch = 2;
    const bool runs_at_once = fused_blocks(three, rows) <= 4 * kMultiprocessors;
    const bool suits_three = is_narrow             ? spec.cluster > 1 && runs_at_once
                             : is_integer(spec.io) ? rows < kVeryManyRows
                                                   : rows < kMostStagedRows;
    if (rows == 0 || !suits_three) return;
    if (is_narrow || (spec.cluster == 1 && spec.columns <= kMostColumns)) spec = three;
  } else if (is_wide || (spec.columns <= kMostColumns && rows >= 2 * kMostStagedRows)) {
    if (spec.warps == 12 && spec.cluster == 1 && (is_wide || rows < kVeryManyRows)) {
      spec.warps = 4;
      spec.blocks = 3;
      spec.stages = 2;
    }
    return;
  }
  spec.staged_rows = true;
  // Loads of a row's later parts need no row number, so they can wait for the products of the step before.
  // So can all loads of 8-bit rows if other blocks hide them, or if the blocks are few.
  const bool has_parts = spec.in_channels > spec.step && rows < kVeryManyRows;
  if (has_parts || (is_integer(spec.io) && (spec.blocks > 1 || spec.cluster > 1))) spec.early_loads = false;
  spec.stages = choose_warpgroup_stages(spec);
  // With many rows of many channels, one more stage of weights is worth more than the level-1 cache.
  const bool is_deep = has_parts && !is_integer(spec.io) && spec.in_channels >= 2 * kWideColumns;
  if (is_deep && spec.blocks == 1 && rows >= 2 * kMostStagedRows) ++spec.stages;
}

/// Lets each step multiply whole input rows of up to 256 channels if blocks of eight warps leave enough
/// registers for them. Such a block waits half as often for weights as one with steps of half a row.
void choose_whole_rows(FusedSpec& spec, i64 rows) {
  constexpr i32 kMostWhole = 256;
  if (rows == 0 || spec.blocks > 1 || spec.in_channels <= spec.step || spec.in_channels > kMostWhole ||
      spec.volume <= kFewOffsets)
    return;
  FusedSpec whole = spec;
  whole.warps = 8;
  whole.step = spec.in_channels;
  whole.prefetch = 1;
  whole.stages = choose_warpgroup_stages(whole);
  const bool is_shorter =
      spec.warps == 12 && waves_of(whole, rows) <= waves_of(spec, rows) && waves_of(spec, rows) > 1;
  if (spec.warps == 8 || is_shorter) spec = whole;
}

}  // namespace

bool choose_warpgroups(FusedChoice& choice, i64 rows) {
  FusedSpec& spec = choice.fused;
  choose_warpgroup_blocks(spec, choice.problem, rows);
  // If there are few blocks, a few steps are not worth the time that filling the ring buffer of weights
  // takes.
  if (rows != 0 && fused_steps(spec) < kFewSteps && fused_blocks(spec, rows) < kMultiprocessors / 2)
    return false;
  choose_cluster(spec, choice.problem, rows);
  if (rows != 0 && fused_blocks(spec, rows) < kFewestBlocks) return false;
  choose_whole_rows(spec, rows);
  choose_staged_rows(spec, choice.problem, rows);
  choice.reasons.push_back(llvm::formatv("{0} warpgroups per block compute the products, and each cluster "
                                         "has {1} blocks, which work on the same rows",
                                         spec.warps / 4, spec.cluster)
                               .str());
  return true;
}

}  // namespace minuet
