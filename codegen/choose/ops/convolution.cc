#include "codegen/choose/ops/convolution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "codegen/choose/ops/convolution_fused.h"
#include "codegen/choose/ops/convolution_integers.h"
#include "codegen/choose/ops/depthwise.h"
#include "codegen/choose/tuned_config.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {
namespace {

// No range of rows begins above this number, because a kernel map has fewer than 2^31 rows.
constexpr i64 kMostRows = i64{1} << 30;

/// Makes a candidate of `choice` and moves the reasons of the choice to the candidate. `was_tuned` is true if
/// tuning results chose this dataflow although the heuristic expects another one to be faster.
Candidate make_candidate(GmasChoice choice, bool was_tuned = false) {
  std::vector<std::string> reasons = std::exchange(choice.reasons, {});
  const i32 covers = choice.problem.second_output ? 1 : 0;
  Candidate candidate{std::move(choice), std::move(reasons)};
  candidate.covers = covers;
  candidate.form = ViewForm::Pairs;
  candidate.needs_counts = llvm::formatv(
      "runs by gather-gemm-scatter{0}, whose GEMMs need counts on the host: for capacity mode, make the plan "
      "with the fused dataflow{1}",
      was_tuned ? ", chosen by tuning results" : "", was_tuned ? ", which overrides tuning results" : "");
  return candidate;
}

ViewForm form_of_fused(llvm::StringRef arch) { return arch.empty() ? ViewForm::Rows : ViewForm::Masked; }

Candidate make_candidate(FusedChoice choice, llvm::StringRef arch) {
  std::vector<std::string> reasons = std::exchange(choice.reasons, {});
  const i32 covers = choice.fused.shortcut || choice.problem.second_output ? 1 : 0;
  const i32 launches = launches_of(choice);
  std::string kernel = arch.empty() || launches > 1 ? "" : display_name(choice.fused);
  Candidate candidate{std::move(choice), std::move(reasons)};
  candidate.launches = launches;
  candidate.kernel = std::move(kernel);
  candidate.form = form_of_fused(arch);
  candidate.covers = covers;
  return candidate;
}

Candidate make_candidate(DepthwiseChoice choice, llvm::StringRef arch) {
  const i32 covers = choice.problem.second_output ? 1 : 0;
  std::string kernel = display_name(choice.kernel);
  Candidate candidate{choice,
                      {"each group has one input channel, so a kernel without tensor cores computes all "
                       "groups in one pass"}};
  candidate.kernel = std::move(kernel);
  candidate.form = form_of_fused(arch);
  candidate.covers = covers;
  return candidate;
}

/// Appends a candidate that serves numbers of rows from `least_rows` on, and ends the range of the previous
/// candidate before `least_rows`.
void append(std::vector<Candidate>& candidates, Candidate candidate, i64 least_rows) {
  if (!candidates.empty()) {
    candidate.least_rows = least_rows;
    candidates.back().most_rows = least_rows - 1;
  }
  candidates.push_back(std::move(candidate));
}

// The following functions choose the kernels of the gather-GEMM-scatter dataflow.

/// Returns the tile that was measured for the problems of the bucket. If none was measured, returns a tile of
/// one access of kWidestAccess bytes per thread, or less if that does not divide the channels.
i32 choose_tile(const TuningSnapshot* tuning, const TuningBucket& bucket, std::vector<std::string>& reasons) {
  i32 tile = default_tile(dtype_bytes(bucket.dtype), static_cast<i32>(bucket.channels));
  const auto* const tuned = find_tuned(tuning, bucket, tile);
  const char* const what = operation_name(bucket.operation);
  reasons.push_back(tuned ? llvm::formatv("{0} tile {1}{2}", what, tile, tuned->reason()).str()
                          : llvm::formatv("{0} tile {1} of {2} channels: one access of the greatest "
                                          "width per thread",
                                          what, tile, bucket.channels)
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
  if (problem.second_output) outputs.push_back(problem.covered_output);
  scatter.vector_bytes = widest_vector(dtype_bytes(scatter.io), tile, outputs);
  scatter.scale_shift = problem.scale_shift;
  scatter.residual = problem.residual;
  scatter.activation = problem.activation;
  scatter.second_output = problem.second_output;
  scatter.second_activation = problem.second_activation;
  return scatter;
}

}  // namespace

llvm::Error validate(const ConvolutionProblem& problem) {
  MINUET_TRY(check_window(problem, problem.in_channels, problem.out_channels));
  if (!std::isfinite(problem.slope) || !std::isfinite(problem.second_slope)) {
    return make_error(StatusCode::InvalidArgument, "the slope of a leaky ReLU must be finite");
  }
  if (problem.shortcut && problem.second_output) {
    return make_error(StatusCode::Unimplemented,
                      "a convolution with a shortcut has no second output: run the chain by itself");
  }
  MINUET_TRY(check_groups(problem));
  return check_integers(problem);
}

ConvolutionProblem forward_of(const ConvolutionProblem& problem) {
  ConvolutionProblem forward = problem;
  if (!problem.gradient_of) return forward;
  std::swap(forward.in_channels, forward.out_channels);
  forward.kind = *problem.gradient_of;
  forward.gradient_of.reset();
  return forward;
}

ConvolutionProblem input_gradient_of(const ConvolutionProblem& forward) {
  ConvolutionProblem gradient;
  static_cast<WindowProblem&>(gradient) = forward;
  gradient.kind = swapped_kind(forward);
  gradient.in_channels = forward.out_channels;
  gradient.out_channels = forward.in_channels;
  gradient.groups = forward.groups;
  gradient.dataflow = forward.dataflow;
  gradient.gradient_of = forward.kind;
  return gradient;
}

ConvolutionProblem input_gradient_within(const ConvolutionProblem& forward) {
  ConvolutionProblem gradient = input_gradient_of(forward);
  if (has_symmetric_offsets(forward)) gradient.kind = forward.kind;
  return gradient;
}

llvm::Error check_groups(const ConvolutionProblem& problem) {
  if (problem.groups < 1) {
    return make_error(StatusCode::InvalidArgument, "groups is {0}; it must be 1 or more", problem.groups);
  }
  for (const auto& [name, channels] :
       {std::pair("in_channels", problem.in_channels), std::pair("out_channels", problem.out_channels)}) {
    if (channels % problem.groups == 0) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "groups is {0}, but {1} is {2}: each group needs the same number of channels, so groups "
        "must divide both numbers of channels",
        problem.groups, name, channels);
  }
  return llvm::Error::success();
}

llvm::Error check_dataflow(const ConvolutionProblem& problem, Dataflow dataflow) {
  const i64 volume = kernel_volume(problem);
  if (dataflow == Dataflow::Fused) {
    if (volume <= kMostFusedOffsets) return llvm::Error::success();
    return make_error(StatusCode::Unimplemented,
                      "the fused dataflow takes at most {0} offsets, and the kernel has {1}: {2}",
                      kMostFusedOffsets, volume,
                      problem.groups > 1 ? "use a smaller kernel, because no other dataflow has groups"
                      : has_integers(problem)
                          ? "use a smaller kernel, because no other dataflow has 8-bit tensors"
                          : "let the library choose the dataflow");
  }
  if (has_integers(problem)) {
    return make_error(
        StatusCode::Unimplemented,
        "the dataflow gather-gemm-scatter has no 8-bit tensors: use the fused dataflow, or let the "
        "library choose it");
  }
  if (problem.groups == 1) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented,
                    "the dataflow gather-gemm-scatter has no groups, and the convolution has {0}: use the "
                    "fused dataflow, or let the library choose it",
                    problem.groups);
}

i32 default_tile(i32 element_bytes, i32 channels) {
  return std::gcd(channels, kWidestAccess / element_bytes);
}

i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry, const OffsetList& offsets) {
  return reads_center_in_place(onto_itself, dtype) ? center_offset(geometry, offsets) : -1;
}

GmasChoice choose_gmas(const ConvolutionProblem& problem, const TuningSnapshot* tuning, i64 rows) {
  GmasChoice choice;
  choice.problem = problem;

  const bool has_center = problem.offsets.empty() || find_center(problem.offsets) >= 0;
  choice.direct_center =
      has_center && reads_center_in_place(problem.kind == ConvolutionKind::Submanifold, problem.dtype);
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
  if (problem.second_output) choice.reasons.emplace_back(kSecondOutputReason);
  const TuningBucket gemm =
      gemm_bucket(problem.dtype, problem.in_channels, problem.out_channels, volume, rows);
  if (const auto* const tuned = find_tuned(tuning, gemm, choice.gemm)) {
    choice.reasons.push_back(
        llvm::formatv("GEMMs by cuBLASLt's algorithm {0}{1}", choice.gemm.algorithm, tuned->reason()).str());
  }

  const i64 slice = i64{problem.in_channels} * problem.out_channels * dtype_bytes(problem.dtype);
  choice.permute_weights.vector_bytes = static_cast<i32>(std::gcd(slice, static_cast<i64>(kWidestAccess)));
  return choice;
}

Dataflow choose_dataflow(const ConvolutionProblem& problem, llvm::StringRef arch) {
  if (problem.groups > 1 || has_integers(problem)) return Dataflow::Fused;
  const bool wins = arch.empty() || dtype_bytes(problem.dtype) == 2;
  return wins && kernel_volume(problem) <= kMostFusedOffsets ? Dataflow::Fused : Dataflow::GatherGemmScatter;
}

namespace {

// The following functions choose the kernels of the fused dataflow for all numbers of rows.

/// Returns the first row count of the range after the one that begins with `rows`. Ranges begin at powers of
/// two, as those of TuningBucket do. They also begin half-way between them, because the best kernel depends
/// on how the number of blocks compares with the number that a GPU runs at once.
i64 next_range(i64 rows) {
  if (rows < 2) return rows + 1;
  const i64 power = static_cast<i64>(std::bit_floor(static_cast<u64>(rows)));
  return rows == power ? rows + rows / 2 : 2 * power;
}

/// Returns candidates of the fused dataflow for consecutive ranges of rows, each with its own FusedSpec. The
/// CPU has a single candidate, because it does not use the FusedSpec.
std::vector<Candidate> fused_candidates(const ConvolutionProblem& problem, llvm::StringRef arch,
                                        FusedFeatures means) {
  if (arch.empty()) return {make_candidate(choose_fused(problem, arch, 0, means), arch)};
  std::vector<Candidate> candidates;
  for (i64 rows = 1; rows <= kMostRows; rows = next_range(rows)) {
    // The number of rows in the middle of a range represents the range.
    FusedChoice choice = choose_fused(problem, arch, (rows + next_range(rows)) / 2, means);
    const bool known =
        !candidates.empty() && candidates.back().choice.get<FusedChoice>().fused == choice.fused;
    if (known) continue;
    append(candidates, make_candidate(std::move(choice), arch), rows);
  }
  return candidates;
}

// The following code makes an op's Candidates (candidates.h) from tuning results and the functions above.

/// Chooses Candidates (ways to run an op) by measurements. If `wanted` has a dataflow, all Candidates use it.
class TunedChoices {
 public:
  TunedChoices(const ConvolutionProblem& problem, llvm::StringRef arch, const TuningSnapshot* tuning,
               std::optional<Dataflow> wanted, FusedFeatures means)
      : problem_(problem), arch_(arch), tuning_(tuning), wanted_(wanted) {
    if (kernel_volume(problem) <= kMostFusedOffsets) heuristic_ = fused_candidates(problem, arch, means);
  }

  /// Returns one candidate for each range of densities (pairs per output row), where neighbouring ranges with
  /// the same choice count as one. The candidate at whose densities the default configuration was measured to
  /// take longest comes first, because select() takes the first one if the density is not known.
  [[gnu::cold]] std::vector<Candidate> of_rows(i64 rows) const {
    std::vector<Chosen> all;
    for (i64 log4 = 0; log4 <= log4_of(static_cast<double>(kernel_volume(problem_))); ++log4) {
      Chosen chosen = choose(rows, least_density_of(log4));
      if (!all.empty() && is_same(all.back().candidate.choice, chosen.candidate.choice)) {
        all.back().default_ns = std::max(all.back().default_ns, chosen.default_ns);
        continue;
      }
      chosen.candidate.least_density = least_density_of(log4);
      if (!all.empty()) all.back().candidate.most_density = std::nextafter(least_density_of(log4), 0);
      all.push_back(std::move(chosen));
    }
    const auto most = std::max_element(
        all.begin(), all.end(), [](const Chosen& a, const Chosen& b) { return a.default_ns < b.default_ns; });
    std::vector<Candidate> candidates{std::move(most->candidate)};
    for (auto chosen = all.begin(); chosen != all.end(); ++chosen) {
      if (chosen != most) candidates.push_back(std::move(chosen->candidate));
    }
    return candidates;
  }

 private:
  struct Chosen {
    Candidate candidate;
    i64 default_ns = 0;  // Holds the measured time of the default configuration, or 0 if there is none.
  };

  /// Chooses the dataflow and its kernels. If the fused dataflow cannot run the problem, no measured dataflow
  /// is read, because a snapshot of configurations that the tuner tries is not validated and could name the
  /// fused dataflow.
  [[gnu::cold]] Chosen choose(i64 rows, double density) const {
    Dataflow dataflow = wanted_ ? *wanted_ : choose_dataflow(problem_, arch_);
    const TunedResult* const tuned =
        wanted_ || heuristic_.empty()
            ? nullptr
            : find_tuned(tuning_, layer_bucket(Operation::Dataflow, problem_, rows, density), dataflow);
    const bool was_tuned = tuned && choose_dataflow(problem_, arch_) == Dataflow::Fused;
    Chosen chosen = dataflow == Dataflow::GatherGemmScatter
                        ? Chosen{make_candidate(choose_gmas(problem_, tuning_, rows), was_tuned)}
                        : choose_kernel(rows, density);
    if (tuned) {
      chosen.candidate.reasons.push_back(dataflow_name(dataflow) + tuned->reason());
      chosen.default_ns = std::max(chosen.default_ns, tuned->default_ns);
    }
    return chosen;
  }

  [[gnu::cold]] Chosen choose_kernel(i64 rows, double density) const {
    const Candidate& fallback = select(heuristic_, rows, {});
    FusedChoice fused = fallback.choice.get<FusedChoice>();
    fused.reasons = fallback.reasons;
    const i64 default_ns = arch_.empty() ? 0 : tune(fused, rows, density);
    return {make_candidate(std::move(fused), arch_), default_ns};
  }

  /// Replaces the Spec of the choice with the measured one if GPUs of the architecture can run it. Returns
  /// the measured time of the default Spec, or 0 if the Spec of the choice was kept.
  [[gnu::cold]] i64 tune(FusedChoice& choice, i64 rows, double density) const {
    FusedSpec spec = choice.fused;
    const auto* const tuned =
        find_tuned(tuning_, layer_bucket(Operation::Fused, problem_, rows, density), spec);
    if (!tuned || !runs_on(spec, arch_)) return 0;
    choice.fused = spec;
    choice.reasons.push_back("kernel " + display_name(spec) + tuned->reason());
    return tuned->default_ns;
  }

  const ConvolutionProblem& problem_;
  const llvm::StringRef arch_;
  const TuningSnapshot* const tuning_;
  const std::optional<Dataflow> wanted_;
  /// Holds the candidates of the fused dataflow without tuning, and is empty if that dataflow cannot run the
  /// problem.
  std::vector<Candidate> heuristic_;
};

[[gnu::cold]] std::vector<Candidate> tuned_candidates(const TunedChoices& choices) {
  std::vector<Candidate> candidates;
  std::size_t last = 0;  // This is the index of the first Candidate for the range of rows added last.
  for (i64 rows = 0; rows <= kMostRows; rows = next_range(rows)) {
    std::vector<Candidate> next = choices.of_rows(rows);
    const auto before = candidates.begin() + static_cast<std::ptrdiff_t>(last);
    if (std::equal(before, candidates.end(), next.begin(), next.end(), has_same_kernels)) continue;
    std::for_each(before, candidates.end(), [&](Candidate& candidate) { candidate.most_rows = rows - 1; });
    last = candidates.size();
    for (Candidate& candidate : next) {
      candidate.least_rows = rows;
      candidates.push_back(std::move(candidate));
    }
  }
  return candidates;
}

}  // namespace

llvm::Expected<std::vector<Candidate>> convolution_candidates(const ConvolutionProblem& problem,
                                                              llvm::StringRef arch,
                                                              const TuningSnapshot* tuning,
                                                              std::optional<Dataflow> wanted,
                                                              FusedFeatures means) {
  MINUET_TRY(validate(problem));
  const Dataflow dataflow = wanted ? *wanted : choose_dataflow(problem, arch);
  MINUET_TRY(check_dataflow(problem, dataflow));
  if (is_depthwise(problem) && !arch.empty()) {
    return std::vector<Candidate>{make_candidate(choose_depthwise(problem), arch)};
  }
  const bool is_tuned = tuning != nullptr && tuning->serves(arch) && is_tunable(problem);
  if (is_tuned) {
    // A layer of floating numbers may have the bucket in which the dataflow of this one would be.
    if (!has_tunable_dataflow(problem)) wanted = dataflow;
    return tuned_candidates(TunedChoices(problem, arch, tuning, wanted, means));
  }
  if (dataflow == Dataflow::Fused) return fused_candidates(problem, arch, means);
  std::vector<Candidate> candidates;
  append(candidates, make_candidate(choose_gmas(problem)), 0);
  return candidates;
}

const char* dataflow_name(Dataflow dataflow) {
  static constexpr const char* kNames[] = {"gather-gemm-scatter", "fused"};
  return kNames[static_cast<std::size_t>(dataflow)];
}

std::optional<Dataflow> dataflow_of(const OpChoice& choice) {
  if (choice.get_if<GmasChoice>()) return Dataflow::GatherGemmScatter;
  if (choice.get_if<FusedChoice>() || choice.get_if<DepthwiseChoice>()) return Dataflow::Fused;
  return std::nullopt;
}

void add_sources(SourceList& list, const GmasChoice& choice) {
  list.add(choice.gather);
  list.add(choice.scatter);
  list.add(choice.permute_weights);
  list.add(MakeTablesSpec{});
}

void add_sources(SourceList& list, const FusedChoice& choice) { list.add(choice.fused); }

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.

/// Returns true if both choices use the same kernels. Tuning changes only the fields that are compared here
/// and those that follow from them.
static bool is_same(const GmasChoice& a, const GmasChoice& b) {
  return a.gather.tile == b.gather.tile && a.scatter.tile == b.scatter.tile &&
         a.gemm.algorithm == b.gemm.algorithm;
}

static bool is_same(const FusedChoice& a, const FusedChoice& b) { return a.fused == b.fused; }

static llvm::Expected<std::vector<Candidate>> candidates(const ConvolutionProblem& problem,
                                                         const CandidateOptions& options) {
  return convolution_candidates(problem, options.arch, options.tuning, problem.dataflow);
}

static const WindowProblem* window(const ConvolutionProblem& problem) { return &problem; }

static OperandShape shape(const ConvolutionProblem& problem) {
  return {.in_channels = problem.in_channels,
          .out_channels = problem.out_channels,
          .has_residual = problem.residual,
          .has_weight = true,
          .refuses_duplicates = problem.gradient_of.has_value()};
}

static ConvolutionProblem at_columns(ConvolutionProblem problem, const OperandColumns& columns) {
  problem.input = columns.input;
  problem.output = columns.output;
  problem.residual_input = columns.residual;
  problem.covered_output = columns.covered_output;
  return problem;
}

const OpFamily GmasChoice::kKind = make_op_family<GmasChoice>("gather-gemm-scatter");
const OpFamily FusedChoice::kKind = make_op_family<FusedChoice>("fused");
const OpKind ConvolutionProblem::kKind = make_op_kind<ConvolutionProblem>("convolution", form_of_fused);

}  // namespace minuet
