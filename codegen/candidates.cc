#include "codegen/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/arch.h"
#include "codegen/tuning/tuned_config.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

constexpr i64 kMostRows = i64{1} << 30;  // a kernel map has less than 2^31

/// It serves rows from `least_rows` on; what came before it ends there.
void append(std::vector<Candidate>& candidates, OpChoice choice, i64 least_rows, std::string kernel = {}) {
  Candidate candidate{std::move(choice)};
  candidate.kernel = std::move(kernel);
  if (!candidates.empty()) {
    candidate.least_rows = least_rows;
    candidates.back().most_rows = least_rows - 1;
  }
  candidates.push_back(std::move(candidate));
}

// ---- gather, GEMM, scatter ------------------------------------------------------------------------------

/// Enough consecutive channels for one widest access, where they divide the row.
i32 default_tile(i32 element_bytes, i32 channels) {
  return std::gcd(channels, kWidestAccess / element_bytes);
}

/// The measured tile of the bucket, or one widest access a thread.
i32 choose_tile(const TuningSnapshot* tuning, const TuningBucket& bucket, std::vector<std::string>& reasons) {
  i32 tile = default_tile(dtype_bytes(bucket.dtype), static_cast<i32>(bucket.channels));
  const auto* const tuned = find_tuned(tuning, bucket, tile);
  const char* const what = operation_name(bucket.operation);
  reasons.push_back(tuned ? llvm::formatv("{0} tile {1}{2}", what, tile, tuned->reason()).str()
                          : llvm::formatv("{0} tile {1} of {2} channels: one widest access a thread", what,
                                          tile, bucket.channels)
                                .str());
  return tile;
}

GatherSpec choose_gather(const ConvolutionProblem& problem, i32 tile) {
  GatherSpec gather;
  gather.io = problem.dtype;
  gather.channels = problem.in_channels;
  gather.tile = tile;
  gather.vector_bytes =
      widest_vector(dtype_bytes(gather.io), tile, {problem.input, {problem.in_channels, 0}});
  return gather;
}

ScatterSpec choose_scatter(const ConvolutionProblem& problem, i32 tile) {
  ScatterSpec scatter;
  scatter.io = problem.dtype;
  scatter.channels = problem.out_channels;
  scatter.tile = tile;
  std::vector<Columns> outputs{problem.output, {problem.out_channels, 0}};
  if (problem.residual) outputs.push_back(problem.residual_input);
  scatter.vector_bytes = widest_vector(dtype_bytes(scatter.io), tile, outputs);
  scatter.scale_shift = problem.scale_shift;
  scatter.residual = problem.residual;
  scatter.activation = problem.activation;
  return scatter;
}

}  // namespace

GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning, i64 rows) {
  GmasChoice choice;
  choice.problem = problem;

  choice.direct_center = reads_center_in_place(problem.kind == ConvolutionKind::Submanifold, problem.dtype);
  choice.reasons.push_back(
      choice.direct_center ? "the centre offset of a submanifold layer covers every row: its GEMM reads the "
                             "features in place"
      : rounds_operands(problem.dtype)
          ? kDTypeNames[static_cast<int>(problem.dtype)] +
                std::string(" operands are rounded by the gather, so every offset is gathered")
          : "no offset covers every row, so every offset is gathered");

  const i64 volume = kernel_volume(problem);
  const TuningBucket gather = gather_bucket(problem.dtype, problem.in_channels, volume, rows);
  const TuningBucket scatter = scatter_bucket(problem.dtype, problem.out_channels, volume, rows);
  choice.gather = choose_gather(problem, choose_tile(tuning, gather, choice.reasons));
  choice.scatter = choose_scatter(problem, choose_tile(tuning, scatter, choice.reasons));

  const i64 slice = i64{problem.in_channels} * problem.out_channels * dtype_bytes(problem.dtype);
  choice.permute_weights.vector_bytes = static_cast<i32>(std::gcd(slice, static_cast<i64>(kWidestAccess)));
  return choice;
}

namespace {

/// Of one problem: tuning moves nothing but the tiles, and what follows from them.
bool is_same(const GmasChoice& a, const GmasChoice& b) {
  return a.gather.tile == b.gather.tile && a.scatter.tile == b.scatter.tile;
}

std::vector<Candidate> gmas_candidates(const ConvolutionProblem& problem, const TuningSnapshot* tuning) {
  std::vector<Candidate> candidates;
  // From bucket to bucket: they begin at powers of two.
  for (i64 rows = 0; rows <= (tuning ? kMostRows : 0); rows = std::max<i64>(1, 2 * rows)) {
    GmasChoice choice = choose_gmas(problem, tuning, rows);
    const bool known =
        !candidates.empty() && is_same(*std::get_if<GmasChoice>(&candidates.back().choice), choice);
    if (!known) append(candidates, std::move(choice), rows);
  }
  return candidates;
}

// ---- fused ----------------------------------------------------------------------------------------------

// Measured on an H200 in fp16, on maps of a LiDAR sweep (tests/runtime/cuda/fused_bench.cc).
constexpr i32 kTile = 16;               // columns of a product
constexpr i32 kMostColumns = 96;        // of a block; 128 to 128 channels take a fifth less in two halves
constexpr i32 kMostCachedColumns = 64;  // of which weights come from the cache, for few input channels
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
  return std::min(round_up(volume * fused_offset_depth(io, in_channels, 0), 2 * granule), most / 2);
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

/// Whether blocks of this size would leave a large GPU idle, and smaller ones are of use.
bool are_few(const FusedSpec& spec, i64 rows) {
  return spec.weights != WeightRoad::Cached && fused_blocks(spec, rows) < kEnoughBlocks;
}

void choose_warps(FusedChoice& choice, llvm::StringRef arch, i64 rows) {
  FusedSpec& spec = choice.fused;
  const i32 element = dtype_bytes(spec.io);
  spec.step = choose_step(spec.io, spec.in_channels, spec.volume);
  spec.columns = equal_parts(spec.out_channels, kTile, kMostColumns);
  const bool few_channels = spec.in_channels * element <= 64 && spec.out_channels <= kMostCachedColumns;
  spec.weights = few_channels             ? WeightRoad::Cached
                 : capability(arch) >= 90 ? WeightRoad::BulkCopy
                                          : WeightRoad::AsyncCopy;
  spec.row_tiles = 2;
  spec.warps = few_channels && spec.columns > kMostCachedColumns / 2 ? 2 : 4;
  // Steps of more than 64 bytes are long enough to hide the loads of the next behind the products of one.
  spec.prefetch = spec.step * element > 64 ? 1 : few_channels ? 2 : 3;
  if (rows != 0 && are_few(spec, rows)) {
    spec.row_tiles = 1;
    spec.split = 2;
    choice.reasons.push_back(
        llvm::formatv("{0} rows are few: smaller blocks, whose warps share the steps", rows).str());
  }
  spec.stages = few_channels ? 1 : choose_stages(spec);
  spec.blocks = choose_blocks(spec);
}

/// Whether there are products by warpgroups, and they were seen to win.
bool suits_warpgroups(const FusedSpec& spec, llvm::StringRef arch, FusedMeans means) {
  return means.warpgroups && arch == "sm_90a" && dtype_bytes(spec.io) == 2 && spec.in_channels >= 96 &&
         spec.out_channels >= 96;
}

/// Whether a query has one offset only, as in a transposed convolution whose stride covers its kernel.
bool has_one_offset(const ConvolutionProblem& problem) {
  bool covers = problem.kind == ConvolutionKind::Transposed;
  for (i32 a = 0; a < problem.ndim; ++a) covers = covers && problem.kernel_size[a] <= problem.stride[a];
  return covers || kernel_volume(problem) == 1;
}

/// Blocks that fill a multiprocessor's registers, and of few rows as many of a cluster as leave little of a
/// large GPU idle. `rows`: 0 for many. Whether there is enough to do: smaller blocks take the rest.
bool choose_warpgroups(FusedChoice& choice, i64 rows) {
  constexpr i32 kWarpgroupColumns = 128, kMultiprocessors = 132, kSharedBytes = 208 << 10;
  FusedSpec& spec = choice.fused;
  const i32 piece = 2 * fused_granule(spec.io);
  spec.unit = MmaUnit::Warpgroup;
  spec.weights = WeightRoad::BulkRefill;
  spec.step = equal_parts(spec.in_channels, piece, 4 * piece);
  spec.columns = equal_parts(spec.out_channels, kTile, kWarpgroupColumns);
  spec.row_tiles = 2;
  // Registers of a thread: sums, two steps of input, and all else. Two blocks fit where 128 are enough.
  const i32 registers = spec.columns / 2 + spec.step * dtype_bytes(spec.io) / 4 + 32;
  spec.blocks = registers <= 128 ? 2 : 1;
  spec.warps = spec.blocks == 2 ? 8 : 12;
  spec.prefetch = 1;
  spec.early_loads = true;
  spec.stages = std::clamp(kSharedBytes / spec.blocks / fused_stage_bytes(spec), 2, kMostStages);
  // Two blocks share rows where there is less than a wave and a half of them, whose last part would leave
  // many idle, and four where two would fill less than half of one. Each has eight steps and a group of
  // columns to finish at least.
  const i32 groups = fused_column_group(spec, spec.columns / fused_tile(spec) - 1).number + 1;
  const auto fits = [&](i32 cluster) {
    return rows != 0 && cluster <= groups && cluster * 8 <= fused_steps(spec) &&
           !has_one_offset(choice.problem);
  };
  if (fits(2) && fused_blocks(spec, rows) < kMultiprocessors * 3 / 2) spec.cluster = 2;
  if (spec.cluster == 2 && fits(4) && fused_blocks(spec, rows) < kMultiprocessors / 2) spec.cluster = 4;
  if (spec.cluster == 2 && spec.warps == 12 && fused_blocks(spec, rows) < kMultiprocessors * 4 / 5) {
    FusedSpec smaller = spec;
    smaller.warps = 8;
    if (fused_blocks(smaller, rows) <= kMultiprocessors) spec = smaller;
  }
  if (rows != 0 && fused_blocks(spec, rows) < kMultiprocessors / 4) return false;
  choice.reasons.push_back(
      llvm::formatv("products by {0} warpgroups a block, {1} blocks of a cluster share rows", spec.warps / 4,
                    spec.cluster)
          .str());
  return true;
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
  FusedChoice by_warpgroups = choice;
  if (suits_warpgroups(spec, arch, means) && choose_warpgroups(by_warpgroups, rows)) {
    choice = std::move(by_warpgroups);
  } else {
    choose_warps(choice, arch, rows);
  }
  choice.reasons.push_back(llvm::formatv("steps of {0} of {1} channels, blocks of {2} of {3} columns",
                                         spec.step, spec.in_channels, spec.columns, spec.out_channels)
                               .str());
  return choice;
}

namespace {

/// Of few rows and of many, each for its own; rows are taken by powers of two.
std::vector<Candidate> fused_candidates(const ConvolutionProblem& problem, llvm::StringRef arch,
                                        FusedMeans means) {
  FusedChoice many = choose_fused(problem, arch, 0, means);
  if (arch.empty()) return {{std::move(many)}};
  std::vector<Candidate> candidates;
  const auto add = [&](FusedChoice choice, i64 least_rows) {
    std::string kernel = display_name(choice.fused);
    append(candidates, std::move(choice), least_rows, std::move(kernel));
  };
  if (suits_warpgroups(many.fused, arch, means)) {
    for (i64 rows = 1; rows <= kMostRows; rows *= 2) {
      FusedChoice choice = choose_fused(problem, arch, rows + rows / 2, means);  // in the middle of the range
      const bool known =
          !candidates.empty() && std::get_if<FusedChoice>(&candidates.back().choice)->fused == choice.fused;
      if (!known) add(std::move(choice), rows);
    }
    return candidates;
  }
  i64 enough = 1;
  while (enough <= kMostRows && are_few(many.fused, enough)) enough *= 2;
  if (enough > 1) add(choose_fused(problem, arch, 1, means), 1);
  if (enough <= kMostRows) add(std::move(many), enough);
  return candidates;
}

// ---- an op's candidates ---------------------------------------------------------------------------------

/// The fused one is faster on the CPU, and on a GPU with 16-bit types: measured on an H200, where both
/// shipped networks take 0.55 to 0.9 of the time, from 6e4 to 1e6 voxels. 32-bit types were not measured
/// there.
Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch) {
  const bool wins = arch.empty() || dtype_bytes(problem.dtype) == 2;
  return wins && kernel_volume(problem) <= kMostFusedOffsets ? Dataflow::Fused : Dataflow::GatherGemmScatter;
}

}  // namespace

llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& op, llvm::StringRef arch,
                                                         const TuningSnapshot* tuning,
                                                         std::optional<Dataflow> wanted, FusedMeans means) {
  MINUET_TRY(validate(op));  // so far what is valid is a convolution
  const ConvolutionProblem& problem = *std::get_if<ConvolutionProblem>(&op);
  if (wanted == Dataflow::Fused && kernel_volume(problem) > kMostFusedOffsets) {
    return make_error(StatusCode::Unimplemented,
                      "the fused dataflow takes at most {0} offsets, and the kernel has {1}: leave the "
                      "dataflow to be chosen",
                      kMostFusedOffsets, kernel_volume(problem));
  }
  const Dataflow dataflow = wanted ? *wanted : choose_dataflow(problem, arch);
  if (dataflow == Dataflow::Fused) return fused_candidates(problem, arch, means);
  return gmas_candidates(problem, arch.empty() ? nullptr : tuning);
}

const char* dataflow_name(Dataflow dataflow) {
  static constexpr const char* kNames[] = {"gather-gemm-scatter", "fused"};
  return kNames[static_cast<std::size_t>(dataflow)];
}

const ConvolutionProblem& problem_of(const OpChoice& choice) {
  return std::visit([](const auto& chosen) -> const ConvolutionProblem& { return chosen.problem; }, choice);
}

std::vector<std::string>& reasons_of(OpChoice& choice) {
  return std::visit([](auto& chosen) -> std::vector<std::string>& { return chosen.reasons; }, choice);
}

void add_sources(SourceList& list, const OpChoice& choice) {
  if (const auto* const fused = std::get_if<FusedChoice>(&choice)) return list.add(fused->fused);
  const GmasChoice& gmas = *std::get_if<GmasChoice>(&choice);
  list.add(gmas.gather);
  list.add(gmas.scatter);
  list.add(gmas.permute_weights);
}

bool needs_density(const std::vector<Candidate>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.least_density > 0 || !std::isinf(candidate.most_density);
  });
}

const Candidate& select(const std::vector<Candidate>& candidates, i64 input_rows, i64 output_rows,
                        std::optional<double> density) {
  std::size_t i = 0;
  const auto serves = [&](const Candidate& candidate) {
    const i64 rows = dataflow_of(candidate.choice) == Dataflow::Fused ? output_rows : input_rows;
    if (rows < candidate.least_rows || rows > candidate.most_rows) return false;
    return !density || (*density >= candidate.least_density && *density <= candidate.most_density);
  };
  while (i + 1 < candidates.size() && !serves(candidates[i])) ++i;
  return candidates[i];
}

}  // namespace minuet
