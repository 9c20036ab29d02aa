// Chooses the Spec (compile-time parameters) of the fused kernel that is expected to be fastest.
#include "codegen/choose/ops/convolution_fused.h"

#include <algorithm>

#include "codegen/base/arch.h"
#include "codegen/choose/ops/convolution_integers.h"
#include "codegen/choose/ops/convolution_warpgroups.h"
#include "codegen/choose/ops/fused_limits.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

// The following limits were measured on an H200 in fp16 (`minuet-study specs`).
constexpr i32 kFewColumns = 32;  // A block computes at most this many columns if there are few rows.
// A layer with few input channels and at most this many output channels reads its weights through the cache
// at any number of rows.
constexpr i32 kMostCachedColumns = 64;
// A layer with at most this many bytes of weights may read them through the cache if many rows share them.
constexpr i64 kMostCachedBytes = 256 << 10;
// A layer has few input channels if an input row has at most this many bytes.
constexpr i32 kFewInputBytes = 64;
// A layer with at most kFewIntegers 8-bit input channels keeps more steps of input in flight. A step of at
// most kShortIntegers 8-bit channels is short.
constexpr i32 kFewIntegers = 32, kShortIntegers = 64;
// A step of the reduction holds at most this many bytes of an input row in registers, for 8-bit and 16-bit
// types and for 32-bit types.
constexpr i32 kMostStep = 256, kMostWideStep = 128;
// The ring buffer of weights takes at most kMostRing bytes of shared memory, of which a block may have
// kMostShared bytes on every architecture.
constexpr i32 kMostRing = 72 << 10, kMostShared = 99 << 10;
constexpr i32 kMostStages = 6;
constexpr i64 kEnoughBlocks = 400;  // This many blocks keep a large GPU busy.
constexpr i64 kVeryFewRows = 1 << 10;
// With at most this many output channels, a warp computes more rows, which share the weights that it reads.
constexpr i32 kFewOutputs = 16;
// A head (an output layer) with one offset and at most this many output channels may read its weights through
// the cache.
constexpr i32 kHeadOutputs = 32;

i32 round_up(i32 value, i32 unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

i32 equal_parts(i32 whole, i32 unit, i32 most) {
  const i32 least = (whole + most - 1) / most;
  const auto size_of = [&](i32 parts) { return round_up((whole + parts - 1) / parts, unit); };
  i32 best = least;
  for (i32 parts = least; parts <= 2 * least; ++parts) {
    if (parts * size_of(parts) < best * size_of(best)) best = parts;
  }
  return size_of(best);
}

namespace {

i32 choose_step(DType io, i32 in_channels, i32 volume) {
  const i32 granule = fused_granule(io), element = dtype_bytes(io);
  const i32 most = (element == 4 ? kMostWideStep : kMostStep) / element;
  if (!folds_offsets(io, in_channels)) return equal_parts(in_channels, granule, most);
  return std::min(round_up(volume * fused_offset_depth(io, in_channels, 0), 2 * granule), most / 2);
}

/// Returns the number of stages of the ring buffer of weights. It is a multiple of `split`, because `split`
/// warps take the steps in turn, and at least twice `split`.
i32 choose_stages(const FusedSpec& spec) {
  const i32 rounds = std::min(kMostRing / fused_stage_bytes(spec), kMostStages) / spec.split;
  return std::max(rounds, 2) * spec.split;
}

/// Returns true if the kernel hides loads by many warps that take turns, and not by prefetching. Such warps
/// read weights through the cache and keep one step of input in flight.
bool has_many_warps(const FusedSpec& spec) {
  return spec.weights == WeightRoad::Cached && spec.prefetch == 1 && dtype_bytes(spec.io) != 4 &&
         !folds_offsets(spec.io, spec.in_channels);
}

/// Returns the number of blocks per multiprocessor for which its registers suffice. The number of registers
/// for everything except sums and input steps (`beside`) was observed in compiled kernels. A quarter of a
/// multiprocessor has 512 registers per lane.
i32 choose_blocks(const FusedSpec& spec) {
  const i32 granules = spec.step / fused_granule(spec.io);
  const bool is_lean = dtype_bytes(spec.io) != 4 && spec.weights == WeightRoad::BulkCopy;
  const bool many_warps = has_many_warps(spec);
  // 8-bit tensors need more, for the three factors of each channel.
  const i32 beside = spec.io == DType::F32                              ? 140
                     : is_integer(spec.io)                              ? 72
                     : many_warps && spec.columns <= kMostCachedColumns ? 40
                     : is_lean || many_warps                            ? 48
                                                                        : 64;
  const i32 needed = spec.row_tiles * (spec.columns / 4 + spec.prefetch * ((granules + 1) / 2) * 4) + beside;
  constexpr i32 kMost = 16;
  i32 blocks = 1;
  const auto registers = [&](i32 count) {
    return 512 / ((count * fused_threads(spec) / 32 + 3) / 4) / 8 * 8;
  };
  while (blocks < kMost && registers(blocks + 1) >= needed) ++blocks;
  return blocks;
}

}  // namespace

bool has_one_offset(const ConvolutionProblem& problem) {
  bool covers = problem.kind == ConvolutionKind::Transposed && problem.offsets.empty();
  for (i32 a = 0; a < problem.ndim; ++a) covers = covers && problem.kernel_size[a] <= problem.stride[a];
  return covers || kernel_volume(problem) == 1;
}

bool may_stage_rows(const FusedSpec& spec, const ConvolutionProblem& problem) {
  return !folds_offsets(spec.io, spec.in_channels) && spec.volume >= kFewOffsets &&
         mask_words(spec.volume) == 1 && !has_one_offset(problem);
}

bool fits_multiprocessor(const FusedSpec& spec) {
  constexpr i32 kMultiprocessorBytes = 228 << 10, kReservedBytes = 1 << 10;  // A block reserves the latter.
  return spec.blocks * (fused_shared_bytes(spec) + kReservedBytes) <= kMultiprocessorBytes;
}

void fit_stages_and_blocks(FusedSpec& spec) {
  constexpr i32 kRegisters = 1 << 16, kMostBlocks = 5;  // These limits hold per multiprocessor.
  if (spec.unit == MmaUnit::Warp) {
    spec.stages = spec.weights == WeightRoad::Cached ? 1 : choose_stages(spec);
    spec.blocks = choose_blocks(spec);
    return;
  }
  const i32 registers = round_up(warpgroup_registers(spec), 8);
  spec.blocks = std::clamp(kRegisters / (fused_threads(spec) * registers), 1, kMostBlocks);
  spec.stages = spec.persistent ? choose_persistent_stages(spec) : choose_warpgroup_stages(spec);
}

namespace {

/// Returns true if the Spec gives too few blocks to keep a large GPU busy, and smaller blocks would help.
bool are_few(const FusedSpec& spec, i64 rows) {
  return spec.weights != WeightRoad::Cached && fused_blocks(spec, rows) < kEnoughBlocks;
}

/// Lets the warps of a layer with few input channels wait for row numbers only once. They can then have more
/// steps of input in flight. If there are few rows or few offsets, more warps with fewer rows do better.
void choose_staged_warps(FusedSpec& spec, i64 rows) {
  if (rows >= 2 * kMostStagedRows && spec.in_channels > kTile) return;
  const bool is_small = rows < kMostStagedRows;
  spec.staged_rows = true;
  if (spec.volume <= kFewOffsets) {
    (is_small ? spec.row_tiles : spec.prefetch) = 1;
  } else if (spec.columns > kFewColumns) {
    spec.prefetch = 3;
    if (rows < kMostStagedRows / 4) spec.row_tiles = 1;
  } else if (is_small || spec.in_channels <= kTile) {
    spec.prefetch = 4;
  }
}

/// Adapts the Spec of a layer that has few input channels and a 16-bit type and reads its weights through the
/// cache.
void choose_few_channels(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  const bool few_outputs = spec.out_channels <= kFewOutputs;
  // Neighbouring rows of a coarser output have fewer input rows in common, so a strided layer is treated
  // differently.
  const bool strided = problem.kind == ConvolutionKind::Strided && spec.volume > kFewOffsets;
  const bool many = rows == 0 || rows >= (strided ? kManyRows / 2 : kManyRows);
  if (folds_offsets(spec.io, spec.in_channels)) {
    if (!many && !(few_outputs && rows >= kManyRows / 2)) return;
    spec.step = 2 * fused_granule(spec.io);
    if (few_outputs) spec.row_tiles = 4;
    return;
  }
  if (many) {
    spec.warps = 2;
    spec.prefetch = 1;
    if (few_outputs) spec.row_tiles = 4;
    if (rows >= kVeryManyRows && spec.columns > kFewColumns && may_stage_rows(spec, problem)) {
      spec.warps = 4;
      spec.staged_rows = true;
    }
  } else if (may_stage_rows(spec, problem)) {
    choose_staged_warps(spec, rows);
  }
  if (strided) spec.row_tiles = 1;
}

/// Adapts the Spec of a layer that has few 8-bit input channels and reads its weights through the cache.
/// Warps stage row numbers if there are few rows, or kVeryManyRows or more. Between these, other warps hide
/// the waits for row numbers.
void choose_few_integers(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  const bool is_short = spec.step <= kFewIntegers;
  spec.prefetch = is_short ? 4 : 2;
  if (!may_stage_rows(spec, problem)) return;
  if (rows == 0 || rows >= kVeryManyRows) {
    spec.staged_rows = true;
    spec.prefetch = 1;
  } else if (rows < (is_short ? kMostStagedRows : kMostStagedRows / 4)) {
    spec.staged_rows = true;
    spec.row_tiles = 1;
  } else if (is_short && rows < 2 * kMostStagedRows) {
    spec.staged_rows = true;
    spec.prefetch = 2;
  }
}

bool has_few_inputs(const FusedSpec& spec) {
  return spec.in_channels * dtype_bytes(spec.io) <= kFewInputBytes;
}

/// Returns true if the layer should read its weights of at most 16 bits through the cache, because many
/// blocks share them. This suits layers that turn few channels into many, and heads (output layers) with one
/// step of the reduction and few output channels.
bool suits_cache(const FusedSpec& spec, i64 rows) {
  const i32 element = dtype_bytes(spec.io);
  const i64 bytes = i64{element} * spec.volume * spec.in_channels * spec.out_channels;
  if (element == 4 || folds_offsets(spec.io, spec.in_channels) || bytes > kMostCachedBytes) return false;
  if (has_few_inputs(spec)) return rows == 0 || !are_few(spec, rows);
  const bool is_head =
      spec.volume == 1 && spec.in_channels * element <= kMostStep && spec.out_channels <= kHeadOutputs;
  return is_head && (rows == 0 || rows >= kManyRows / 2);
}

/// Lets the warps of small blocks stage row numbers if a step multiplies whole input rows. Short steps of
/// 8-bit channels take too little time to make up for it, and so do layers of 16-bit channels with very few
/// rows.
void choose_staged_shares(FusedSpec& spec, const ConvolutionProblem& problem, i64 rows) {
  const i32 element = dtype_bytes(spec.io);
  const bool is_long = element == 1 ? spec.step > kShortIntegers : element == 2 && rows >= kVeryFewRows;
  if (!is_long || spec.in_channels > spec.step || spec.volume <= kFewOffsets ||
      !may_stage_rows(spec, problem))
    return;
  FusedSpec staged = spec;
  staged.staged_rows = true;
  if (spec.step * element == kMostStep) staged.prefetch = 2;
  staged.stages = choose_stages(staged);
  if (fused_shared_bytes(staged) <= kMostShared) spec = staged;
}

void choose_warps(FusedChoice& choice, llvm::StringRef arch, i64 rows) {
  FusedSpec& spec = choice.fused;
  const i32 element = dtype_bytes(spec.io);
  spec.step = choose_step(spec.io, spec.in_channels, spec.volume);
  spec.columns = equal_parts(spec.out_channels, kTile, kMostColumns);
  spec.weights = capability(arch) >= 90 ? WeightRoad::BulkCopy : WeightRoad::AsyncCopy;
  spec.row_tiles = 2;
  spec.warps = 4;
  // The products of a reduction step of more than 64 bytes take long enough to hide the next step's loads.
  const bool is_long = spec.step * element > 64;
  spec.prefetch = is_long ? 1 : 3;
  if (has_few_inputs(spec) && spec.out_channels <= kMostCachedColumns) {
    spec.weights = WeightRoad::Cached;
    spec.prefetch = is_long ? 1 : 2;
    if (spec.columns > kMostCachedColumns / 2) spec.warps = 2;
    if (element == 2) choose_few_channels(spec, choice.problem, rows);
    if (element == 1) choose_few_integers(spec, choice.problem, rows);
  } else if (suits_cache(spec, rows)) {
    spec.weights = WeightRoad::Cached;
    spec.prefetch = 1;
    if (!has_few_inputs(spec)) spec.warps = 2;
  } else if (rows != 0 && are_few(spec, rows)) {
    spec.row_tiles = 1;
    spec.split = fused_steps(spec) < kFewSteps ? 1 : 2;
    // With many channels, the layer uses more blocks, which have fewer columns and longer steps. The weights
    // of such a step take about as much of the ring buffer as those of a shorter step with more columns.
    if (element != 4 && spec.in_channels * element > kMostStep && spec.columns > kFewColumns &&
        !has_one_offset(choice.problem) && fused_blocks(spec, rows) < kMultiprocessors) {
      spec.columns = equal_parts(spec.out_channels, kTile, kFewColumns);
      spec.step = equal_parts(spec.in_channels, fused_granule(spec.io), 2 * kMostStep / element);
    }
    if (rows < kVeryFewRows && spec.in_channels <= spec.step) spec.warps = 2;
    choose_staged_shares(spec, choice.problem, rows);
    choice.reasons.push_back(
        llvm::formatv("only {0} rows, so the thread blocks are smaller and their warps share the reduction",
                      rows)
            .str());
  }
  spec.stages = spec.weights == WeightRoad::Cached ? 1 : choose_stages(spec);
  spec.blocks = choose_blocks(spec);
}

}  // namespace

bool suits_warpgroups(const FusedSpec& spec, llvm::StringRef arch, FusedFeatures means) {
  const i32 element = dtype_bytes(spec.io), least_inputs = element == 1 ? 96 : 64;
  return means.warpgroups && arch == "sm_90a" && element != 4 && spec.in_channels >= least_inputs &&
         spec.out_channels >= 64;
}

namespace {

/// Returns true if the launch can also compute the shortcut of a residual block. The kernel must have an
/// offset in the middle of its list, at which each output row reads the input row of the same coordinate.
bool takes_shortcut(const ConvolutionProblem& problem, llvm::StringRef arch) {
  bool has_middle = problem.kind == ConvolutionKind::Submanifold;
  for (const i32 edge : problem.kernel_size) has_middle = has_middle && edge % 2 == 1;
  const i64 offsets = static_cast<i64>(problem.offsets.size());
  has_middle =
      has_middle && (offsets == 0 || (offsets % 2 == 1 && find_center(problem.offsets) == offsets / 2));
  const bool suits_integers = !has_integers(problem) || (problem.input_type && problem.shortcut_type);
  return problem.shortcut && has_middle && !arch.empty() && problem.groups == 1 && suits_integers &&
         !folds_offsets(input_type_of(problem), problem.in_channels);
}

/// With at least these numbers of input and output channels, the groups of a launch fill the tiles of a
/// product.
constexpr i32 kFewestGroupInputs = 32, kFewestGroupOutputs = kTile;

/// Returns the number of launches for the groups of the problem. There is a launch for each group if the
/// groups are large enough. Otherwise a launch computes several groups, as if they were one group with
/// weights of zero between them, because products of few channels would mostly multiply padding.
i32 group_launches(const ConvolutionProblem& problem) {
  for (i32 launches = problem.groups; launches > 1; --launches) {
    if (problem.groups % launches == 0 && problem.in_channels / launches >= kFewestGroupInputs &&
        problem.out_channels / launches >= kFewestGroupOutputs) {
      return launches;
    }
  }
  return 1;
}

std::string groups_reason(const ConvolutionProblem& problem, i32 launches) {
  if (launches == problem.groups) return "each group of channels has its own launch";
  const i32 groups = problem.groups / launches;
  return llvm::formatv(
             "the {0} groups have few channels, so {1} groups are computed in one launch, with zeros "
             "for the weights between them, which takes {1} times the products",
             problem.groups, groups)
      .str();
}

/// Makes a choice with the fields that follow from the problem. The other fields keep their defaults.
FusedChoice begin_choice(const ConvolutionProblem& problem, llvm::StringRef arch, FusedFeatures means) {
  FusedChoice choice;
  choice.problem = problem;
  FusedSpec& spec = choice.fused;
  spec.io = input_type_of(problem);
  const i32 launches = group_launches(problem);
  if (problem.groups > 1) choice.reasons.push_back(groups_reason(problem, launches));
  spec.in_channels = problem.in_channels / launches;
  spec.out_channels = problem.out_channels / launches;
  spec.volume = static_cast<i32>(kernel_volume(problem));
  spec.input_bytes = widest_vector(dtype_bytes(spec.io), spec.in_channels, {problem.input});
  spec.shortcut = takes_shortcut(problem, arch);
  if (spec.shortcut) {
    choice.reasons.emplace_back(
        "the residual block's shortcut runs in the same launch, in separate thread blocks");
  }
  set_output_types(spec, problem);
  spec.scale_shift = problem.scale_shift || is_integer(spec.io);
  spec.residual = problem.residual;
  spec.activation = problem.activation;
  spec.second_output = problem.second_output;
  if (problem.second_output) choice.reasons.emplace_back(kSecondOutputReason);
  spec.second_activation = problem.second_activation;
  spec.programmatic = means.programmatic && capability(arch) >= 90;
  return choice;
}

}  // namespace

FusedChoice choose_fused(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         FusedFeatures means) {
  FusedChoice choice = begin_choice(problem, arch, means);
  FusedSpec& spec = choice.fused;
  FusedChoice by_warpgroups = choice;
  const bool may_stay = means.warpgroups && arch == "sm_90a";
  if (may_stay && choose_resident_weights(by_warpgroups, rows)) {
    choice = std::move(by_warpgroups);
  } else if (suits_warpgroups(spec, arch, means) && choose_warpgroups(by_warpgroups, rows)) {
    choice = std::move(by_warpgroups);
  } else {
    choose_warps(choice, arch, rows);
  }
  if (spec.persistent) {
    choice.reasons.emplace_back("each warpgroup computes one tile after another and loads ahead");
  } else if (spec.staged_rows) {
    choice.reasons.emplace_back("warps copy their row numbers to shared memory first");
  }
  choice.reasons.push_back(
      llvm::formatv("each step of the reduction takes {0} of {1} input channels, and each thread "
                    "block computes {2} of {3} output channels",
                    spec.step, spec.in_channels, spec.columns, spec.out_channels)
          .str());
  return choice;
}

std::optional<FusedSpec> by_warpgroups(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows) {
  const DType io = input_type_of(problem);
  if (arch != "sm_90a" || dtype_bytes(io) == 4 || folds_offsets(io, problem.in_channels)) return std::nullopt;
  FusedChoice choice = begin_choice(problem, arch, {});
  (void)choose_warpgroups(choice, rows);  // The Spec is used even if there is little work.
  return choice.fused;
}

}  // namespace minuet
