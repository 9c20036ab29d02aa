// Chooses the Spec (compile-time parameters) of the fused kernel that is expected to be fastest.
#include "codegen/choose/ops/convolution_fused.h"

#include <algorithm>

#include "codegen/base/arch.h"
#include "codegen/choose/ops/convolution_integers.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

// The following limits were measured on an H200 in fp16 (`minuet-study specs`).
constexpr i32 kTile = 16;  // A tensor core product has this many columns.
// A thread block computes at most this many columns (output channels). 128 output channels run faster in two
// blocks of 64 columns.
constexpr i32 kMostColumns = 96;
constexpr i32 kFewColumns = 32;  // A block computes at most this many columns if there are few rows.
// A layer with few input channels and at most this many output channels reads its weights through the cache
// at any number of rows.
constexpr i32 kMostCachedColumns = 64;
// A layer with at most this many bytes of weights may read them through the cache if many rows share them.
constexpr i64 kMostCachedBytes = 256 << 10;
// A layer has few input channels if an input row has at most this many bytes.
constexpr i32 kFewInputBytes = 64;
// A step of the reduction holds at most this many bytes of an input row in registers, for 8-bit and 16-bit
// types and for 32-bit types.
constexpr i32 kMostStep = 256, kMostWideStep = 128;
// The ring buffer of weights takes at most this many bytes of shared memory, of the 99 KB that a block may
// have on every architecture.
constexpr i32 kMostRing = 72 << 10;
constexpr i32 kMostStages = 6;
constexpr i64 kEnoughBlocks = 400;  // This many blocks keep a large GPU busy.
constexpr i64 kVeryFewRows = 1 << 10;
constexpr i32 kMultiprocessors = 132;
// A launch with warpgroups has at least this many blocks.
constexpr i64 kFewestBlocks = kMultiprocessors / 4;
// From this number of rows on, more warps hide loads better than prefetching within a warp.
constexpr i64 kManyRows = 3 << 15;
// The products of at most this many kernel offsets take too little time to hide the loads.
constexpr i32 kFewOffsets = 8;
// With at most this many output channels, a warp computes more rows, which share the weights that it reads.
constexpr i32 kFewOutputs = 16;
// A head (an output layer) with one offset and at most this many output channels may read its weights through
// the cache.
constexpr i32 kHeadOutputs = 32;
// Warps divide the steps of the reduction among themselves only if there are at least this many steps.
constexpr i32 kFewSteps = 4;

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

/// Returns the number of registers that a thread of a warpgroup needs for sums, for two steps of input and
/// for a residual of more than 96 columns, plus a fixed number for everything else.
i32 warpgroup_registers(const FusedSpec& spec) {
  const i32 residual = spec.residual && spec.columns > 96 ? 8 : 0;
  return spec.columns / 2 + spec.step * dtype_bytes(spec.io) / 4 + residual + 32;
}

/// Returns the number of weight stages that fit into shared memory. The stages get less shared memory if
/// blocks read input rows in parts or if many blocks run on a multiprocessor. The level-1 cache gets the rest
/// and keeps some input rows between reads.
i32 choose_warpgroup_stages(const FusedSpec& spec) {
  constexpr i32 kWhole = 208 << 10, kOfParts = 164 << 10, kMost = 8;
  const i32 bytes = spec.in_channels > spec.step || spec.blocks > 4 ? kOfParts : kWhole;
  return std::clamp(bytes / spec.blocks / fused_stage_bytes(spec), 2, kMost);
}

}  // namespace

void fit_stages_and_blocks(FusedSpec& spec) {
  constexpr i32 kRegisters = 1 << 16, kMostBlocks = 5;  // These limits hold per multiprocessor.
  if (spec.unit == MmaUnit::Warp) {
    spec.stages = spec.weights == WeightRoad::Cached ? 1 : choose_stages(spec);
    spec.blocks = choose_blocks(spec);
    return;
  }
  const i32 registers = round_up(warpgroup_registers(spec), 8);
  spec.blocks = std::clamp(kRegisters / (fused_threads(spec) * registers), 1, kMostBlocks);
  spec.stages = choose_warpgroup_stages(spec);
}

namespace {

/// Returns true if the Spec gives too few blocks to keep a large GPU busy, and smaller blocks would help.
bool are_few(const FusedSpec& spec, i64 rows) {
  return spec.weights != WeightRoad::Cached && fused_blocks(spec, rows) < kEnoughBlocks;
}

/// Returns true if each output row has an input row at no more than one offset. The kernel then has a single
/// offset, or the convolution is transposed and its kernel is no larger than its stride on any axis.
bool has_one_offset(const ConvolutionProblem& problem) {
  bool covers = problem.kind == ConvolutionKind::Transposed && problem.offsets.empty();
  for (i32 a = 0; a < problem.ndim; ++a) covers = covers && problem.kernel_size[a] <= problem.stride[a];
  return covers || kernel_volume(problem) == 1;
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
  }
  if (strided) spec.row_tiles = 1;
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
    if (element == 1) spec.prefetch = spec.step <= 32 ? 4 : 2;
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
  constexpr i32 kWarpgroupColumns = 128;
  const i32 piece = (is_integer(spec.io) ? 1 : 2) * fused_granule(spec.io);
  spec.unit = MmaUnit::Warpgroup;
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
  } else if (registers <= 128 && is_integer(spec.io)) {
    // A warp that only copies weights pays if a block has one warpgroup.
    spec.weights = WeightRoad::BulkCopy;
    spec.blocks = 3;
    spec.warps = 4;
  } else if (registers <= 128) {
    spec.blocks = 2;
    spec.warps = 8;
  } else {
    spec.blocks = 1;
    spec.warps = 12;
    if (rows != 0 && spec.volume <= kFewOffsets) choose_short_blocks(spec, problem, rows);
  }
  spec.stages = choose_warpgroup_stages(spec);
  const i64 blocks = fused_blocks(spec, rows);
  // If long blocks need two or three waves, shorter blocks fill the last wave better.
  if (spec.warps == 12 && spec.in_channels >= 256 && blocks >= kMultiprocessors * 3 / 2 &&
      blocks < kMultiprocessors * 3) {
    FusedSpec shorter = spec;
    shorter.warps = 8;
    const auto waves = [&](const FusedSpec& of) {
      return (fused_blocks(of, rows) + kMultiprocessors - 1) / kMultiprocessors;
    };
    if (waves(shorter) * shorter.warps <= waves(spec) * spec.warps) spec = shorter;
  }
  // If the blocks need one to one and a half waves, one wave of larger blocks with shorter steps may suffice.
  // Blocks of 512 threads have too few registers for a residual.
  if (spec.blocks > 1 || spec.residual || spec.volume <= kFewOffsets || blocks <= kMultiprocessors ||
      blocks >= kMultiprocessors * 3 / 2)
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
    return rows != 0 && cluster <= groups && cluster * (is_short ? 4 : 8) <= fused_steps(spec) &&
           !has_one_offset(problem);
  };
  const i64 wave = kMultiprocessors * std::clamp(spec.blocks, 2, 4);
  // If several blocks run on a multiprocessor, no registers are left for masks of several words. If two
  // blocks run on it, none are left for a residual.
  const bool has_registers =
      spec.blocks == 1 || (mask_words(spec.volume) == 1 && !(spec.blocks == 2 && spec.residual));
  // The blocks of a shortcut fill the rest of a nearly full wave, so the limit is lower with a shortcut.
  const bool has_parts = spec.in_channels > spec.step;
  const i64 most = !spec.shortcut ? wave * 3 / 4 : has_parts ? kMultiprocessors : kMultiprocessors * 3 / 4;
  // If choose_warpgroup_blocks() chose 16 warps or 3 blocks, it has already filled the GPU.
  const bool is_full = spec.warps == 16 || spec.blocks == 3;
  if (is_full || !has_registers || !fits(2) || fused_blocks(spec, rows) >= most) return;
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
  if (fits(4) && fused_blocks(spec, rows) < kMultiprocessors / 2) spec.cluster = 4;
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

/// Chooses a Spec that multiplies by warpgroups. Returns false if there is too little work for warpgroups;
/// the caller then chooses smaller blocks.
bool choose_warpgroups(FusedChoice& choice, i64 rows) {
  FusedSpec& spec = choice.fused;
  choose_warpgroup_blocks(spec, choice.problem, rows);
  // If there are few blocks, a few steps are not worth the time that filling the ring buffer of weights
  // takes.
  if (rows != 0 && fused_steps(spec) < kFewSteps && fused_blocks(spec, rows) < kMultiprocessors / 2)
    return false;
  choose_cluster(spec, choice.problem, rows);
  if (rows != 0 && fused_blocks(spec, rows) < kFewestBlocks) return false;
  choice.reasons.push_back(llvm::formatv("{0} warpgroups per block compute the products, and each cluster "
                                         "has {1} blocks, which work on the same rows",
                                         spec.warps / 4, spec.cluster)
                               .str());
  return true;
}

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
  if (suits_warpgroups(spec, arch, means) && choose_warpgroups(by_warpgroups, rows)) {
    choice = std::move(by_warpgroups);
  } else {
    choose_warps(choice, arch, rows);
  }
  choice.reasons.push_back(
      llvm::formatv("each step of the reduction takes {0} of {1} input channels, and each thread "
                    "block computes {2} of {3} output channels",
                    spec.step, spec.in_channels, spec.columns, spec.out_channels)
          .str());
  return choice;
}

std::optional<FusedSpec> by_warpgroups(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows) {
  const bool folds = folds_offsets(problem.dtype, problem.in_channels);
  if (arch != "sm_90a" || dtype_bytes(problem.dtype) != 2 || folds) return std::nullopt;
  FusedChoice choice = begin_choice(problem, arch, {});
  (void)choose_warpgroups(choice, rows);  // The Spec is used even if there is little work.
  return choice.fused;
}

}  // namespace minuet
