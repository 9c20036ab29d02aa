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

i32 choose_persistent_stages(FusedSpec spec) {
  constexpr i32 kMost = 8;
  if (spec.weights == WeightRoad::Resident) return 1;
  for (spec.stages = kMost; spec.stages > 2 && !fits_multiprocessor(spec);) --spec.stages;
  return spec.stages;
}

namespace {

// A layer with at least this many input channels has long blocks. They read 16-bit rows in several steps.
constexpr i32 kManyInputs = 256;

/// Returns the number of waves in which the blocks run. A wave is a block on each multiprocessor.
i64 waves_of(const FusedSpec& spec, i64 rows) {
  return (fused_blocks(spec, rows) + kMultiprocessors - 1) / kMultiprocessors;
}

/// Returns true if there are 0.75 to 1.25 blocks for each multiprocessor, and each step reads a whole row.
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

/// Chooses blocks for 8-bit channels, whose products take less time, so that the blocks wait more for loads.
/// The limits were measured on an H200 (specs_minkunet42.json of tools/bench/results).
void choose_integer_blocks(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  constexpr i64 kManyBlocksRows = 1 << 16;         // So many rows are many blocks for each multiprocessor.
  constexpr i32 kShortStep = 96, kMostStep = 128;  // Limit steps for a fourth block, and for 16 warps.
  const bool has_one_mask = mask_words(spec.volume) == 1;
  // If one block computes all output channels, no other block reads its rows. Larger blocks then have more
  // loads in flight.
  const bool reads_alone =
      spec.columns > kMostColumns && spec.out_channels <= spec.columns && spec.volume > kFewOffsets;
  if (warpgroup_registers(spec) <= 128 && !reads_alone) {
    // A warp that only copies weights pays if a block has one warpgroup. With many rows, a fourth block in
    // its place hides more loads.
    const i64 many = spec.step <= kShortStep ? kManyBlocksRows : kVeryManyRows;
    const bool has_fourth =
        spec.columns <= kMostColumns && spec.volume >= kFewOffsets && has_one_mask && rows >= many;
    if (!has_fourth) spec.weights = WeightRoad::BulkCopy;
    spec.blocks = has_fourth ? 4 : 3;
    spec.warps = 4;
    return;
  }
  spec.blocks = 1;
  spec.warps = 12;
  if (spec.volume <= kFewOffsets) {
    if (rows != 0) choose_short_blocks(spec, problem, rows);
    return;
  }
  FusedSpec shorter = spec;
  shorter.warps = 8;
  if (fills_one_wave(shorter, rows)) spec = shorter;
  if (spec.step <= kMostStep && has_one_mask && rows >= kManyBlocksRows) spec.warps = 16;
}

/// Chooses blocks that fill a multiprocessor's registers. In the comments of this function, a wave is the
/// blocks that all multiprocessors run at once.
void choose_warpgroup_blocks(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  constexpr i32 kWarpgroupColumns = 128;
  spec.unit = MmaUnit::Warpgroup;
  const i32 piece = step_granule(spec);
  spec.weights = WeightRoad::BulkRefill;
  spec.step = equal_parts(spec.in_channels, piece, 8 * fused_granule(spec.io));
  spec.columns = equal_parts(spec.out_channels, kTile, kWarpgroupColumns);
  spec.row_tiles = 2;
  spec.prefetch = 1;
  spec.early_loads = true;
  const i32 registers = warpgroup_registers(spec);
  if (registers <= 96) {
    spec.blocks = mask_words(spec.volume) == 1 ? 5 : 4;
    spec.warps = 4;
  } else if (is_integer(spec.io)) {
    choose_integer_blocks(spec, problem, rows);
  } else if (registers <= 128) {
    // With very many rows, four blocks of one warpgroup hide more loads than two with a longer ring.
    const bool has_four = spec.columns <= kMostColumns && spec.volume > kFewOffsets && rows >= kVeryManyRows;
    spec.blocks = has_four ? 4 : 2;
    spec.warps = has_four ? 4 : 8;
  } else {
    spec.blocks = 1;
    spec.warps = 12;
    if (rows != 0 && spec.volume <= kFewOffsets) choose_short_blocks(spec, problem, rows);
  }
  spec.stages = choose_warpgroup_stages(spec);
  // Four blocks of 8-bit channels hide the waits for weights from each other, and shared memory that no ring
  // takes is cache for the input rows.
  if (is_integer(spec.io) && spec.blocks == 4 && mask_words(spec.volume) == 1 && rows >= kVeryManyRows)
    spec.stages = 2;
  const i64 blocks = fused_blocks(spec, rows);
  // If long blocks need two or three waves, shorter blocks fill the last wave better.
  if (spec.warps == 12 && spec.in_channels >= kManyInputs && blocks >= kMultiprocessors * 3 / 2 &&
      blocks < kMultiprocessors * 3) {
    FusedSpec shorter = spec;
    shorter.warps = 8;
    if (waves_of(shorter, rows) * shorter.warps <= waves_of(spec, rows) * spec.warps) spec = shorter;
  }
  // If the blocks need one to one and a half waves, one wave of larger blocks with shorter steps may suffice.
  // Blocks of 512 threads have too few registers for 16-bit channels with a residual. For 8-bit channels,
  // choose_integer_blocks() has decided.
  if (spec.blocks > 1 || spec.residual || is_integer(spec.io) || spec.volume <= kFewOffsets ||
      blocks <= kMultiprocessors || blocks >= kMultiprocessors * 3 / 2)
    return;
  FusedSpec larger = spec;
  larger.warps = 16;
  larger.step = equal_parts(spec.in_channels, piece, 4 * fused_granule(spec.io));
  larger.stages = choose_warpgroup_stages(larger);
  if (fused_blocks(larger, rows) <= kMultiprocessors) spec = larger;
}

/// Returns how many blocks keep the GPU busy enough, so that blocks need not share rows. A wave is the blocks
/// that all multiprocessors run at once. Three quarters of a wave are enough, or one and a half waves if each
/// block is alone on its multiprocessor. Fewer blocks are enough in three cases: with a shortcut, whose
/// blocks fill the rest of a nearly full wave; for large blocks of 8-bit channels, which end soon; and for
/// large blocks of layers with more output than input channels, several of which read the same rows anyway.
i64 enough_blocks(const FusedSpec& spec) {
  const i64 most_of_one = kMultiprocessors * 3 / 4;
  if (is_integer(spec.io) && spec.blocks == 3) return kMultiprocessors;
  const bool widens = spec.out_channels > std::max(spec.columns, spec.in_channels);
  if (spec.blocks == 1 && (is_integer(spec.io) || (widens && !spec.shortcut))) return most_of_one;
  if (spec.shortcut) return spec.in_channels > spec.step ? kMultiprocessors : most_of_one;
  return i64{kMultiprocessors} * std::clamp(spec.blocks, 2, 4) * 3 / 4;
}

/// Sets `cluster`, the number of blocks that share the same rows, so that fewer multiprocessors are idle. Two
/// blocks share rows if there are fewer than enough_blocks(). Four blocks share rows if clusters of two fill
/// less than half of the multiprocessors, or a third with 8-bit channels. Each block must have at least eight
/// steps, or six of 8-bit channels, and one group of columns whose output it writes. With few offsets, four
/// steps suffice if half as many blocks would already be kFewestBlocks, and if all blocks run at once with at
/// most two on each multiprocessor.
void choose_cluster(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  const i32 groups = fused_column_group(spec, spec.columns / fused_tile(spec) - 1).number + 1;
  const i64 alone = fused_blocks(spec, rows);
  const i64 at_once = kMultiprocessors * std::min(spec.blocks, 2);
  const auto fits = [&](i32 cluster) {
    const bool is_short =
        spec.volume <= kFewOffsets && alone * cluster / 2 >= kFewestBlocks && alone * cluster <= at_once;
    const i32 least_steps = is_short ? 4 : is_integer(spec.io) ? 6 : 8;
    return rows != 0 && cluster <= groups && cluster * least_steps <= fused_steps(spec) &&
           !has_one_offset(problem);
  };
  // If several blocks run on a multiprocessor, no registers are left for masks of several words. If two
  // blocks run on it, none are left for a residual.
  const bool has_registers =
      spec.blocks == 1 || (mask_words(spec.volume) == 1 && !(spec.blocks == 2 && spec.residual));
  // If choose_warpgroup_blocks() chose 16 warps or 3 blocks, it has already filled the GPU. 3 blocks of 8-bit
  // channels are also chosen for few rows, but if they are very few, smaller blocks follow
  // (choose_warpgroups).
  const bool is_full =
      spec.warps == 16 || (spec.blocks == 3 && (!is_integer(spec.io) || alone < kFewestBlocks));
  if (is_full || !has_registers || !fits(2) || alone >= enough_blocks(spec)) return;
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
/// below kMostStagedRows, or kVeryManyRows with 8-bit channels. Large blocks become three blocks without
/// staging if they have few columns and many rows, or many input channels and very many rows. With few
/// columns and very many rows, they do so only if no other block reads the same 16-bit rows, which each step
/// reads whole.
void choose_staged_rows(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  if (spec.volume <= kFewOffsets || !may_stage_rows(spec, problem)) return;
  const bool is_narrow = warpgroup_registers(spec) <= 96;
  if (spec.blocks == 4 && !is_narrow) return;
  const bool has_many_parts =
      !is_integer(spec.io) && spec.in_channels >= kManyInputs && !spec.shortcut && rows >= kVeryManyRows;
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
  } else if (has_many_parts || (spec.columns <= kMostColumns && rows >= 2 * kMostStagedRows)) {
    const bool has_one_block = !is_integer(spec.io) && spec.in_channels <= spec.step &&
                               spec.out_channels <= spec.columns && mask_words(spec.volume) == 1;
    if (spec.warps == 12 && spec.cluster == 1 && (has_many_parts || has_one_block || rows < kVeryManyRows)) {
      spec.warps = 4;
      spec.blocks = 3;
      spec.stages = 2;
    }
    return;
  }
  spec.staged_rows = true;
  // Loads of a row's later parts need no row number, so they can wait for the products of the step before.
  // So can all loads of wide 8-bit rows if other blocks hide them, or if the blocks are few.
  const bool reads_parts = spec.in_channels > spec.step && rows < kVeryManyRows;
  const bool is_hidden = is_integer(spec.io) && !is_narrow && (spec.blocks > 1 || spec.cluster > 1);
  if (reads_parts || is_hidden) spec.early_loads = false;
  spec.stages = choose_warpgroup_stages(spec);
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
  whole.step = equal_parts(spec.in_channels, step_granule(spec), kMostWhole);
  whole.prefetch = 1;
  whole.stages = choose_warpgroup_stages(whole);
  const bool is_shorter =
      spec.warps == 12 && waves_of(whole, rows) <= waves_of(spec, rows) && waves_of(spec, rows) > 1;
  if (spec.warps == 8 || is_shorter) spec = whole;
}

/// Lets blocks compute one tile after another (FusedSpec::persistent) in layers with a shortcut, half of
/// whose tiles have one step each and therefore mostly wait. On an H200 this was faster with very many rows
/// where a block has one warpgroup, reads whole rows of about 128 channels and computes all of about 96. With
/// fewer input channels, or without a shortcut, it was slower where rows have many pairs.
void choose_persistent_blocks(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  constexpr i32 kLeastInputs = 112, kMostInputs = 128, kLeastOutputs = 80;
  const bool has_channels = spec.in_channels >= kLeastInputs && spec.in_channels <= kMostInputs &&
                            spec.out_channels >= kLeastOutputs && spec.out_channels <= kMostColumns;
  const bool is_one_group = spec.warps == 4 && spec.cluster == 1 && spec.in_channels <= spec.step &&
                            spec.out_channels <= spec.columns;
  if (!spec.shortcut || rows < kVeryManyRows || !has_channels || !is_one_group ||
      spec.volume <= kFewOffsets || !may_stage_rows(spec, problem))
    return;
  spec.persistent = spec.staged_rows = true;
  spec.stages = choose_persistent_stages(spec);
}

}  // namespace

bool choose_resident_weights(FusedChoice& choice, i64 rows) {
  constexpr i32 kInputs = 32, kOutputs = 64;  // These were measured.
  FusedSpec& spec = choice.fused;
  const bool is_measured = dtype_bytes(spec.io) == 2 && spec.in_channels == kInputs &&
                           spec.out_channels == kOutputs &&
                           choice.problem.kind == ConvolutionKind::Submanifold;
  if (!is_measured || rows < kVeryManyRows || spec.shortcut || spec.volume <= kFewOffsets ||
      !may_stage_rows(spec, choice.problem))
    return false;
  spec.unit = MmaUnit::Warpgroup;
  spec.weights = WeightRoad::Resident;
  spec.step = kInputs;
  spec.columns = kOutputs;
  spec.row_tiles = 2;
  spec.warps = 16;
  spec.blocks = spec.stages = 1;
  spec.prefetch = 2;
  spec.early_loads = spec.staged_rows = spec.persistent = true;
  choice.reasons.emplace_back("all weights stay in shared memory");
  return true;
}

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
  choose_persistent_blocks(spec, choice.problem, rows);
  choice.reasons.push_back(llvm::formatv("{0} warpgroups per block compute the products, and each cluster "
                                         "has {1} blocks, which work on the same rows",
                                         spec.warps / 4, spec.cluster)
                               .str());
  return true;
}

}  // namespace minuet
