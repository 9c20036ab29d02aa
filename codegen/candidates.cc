#include "codegen/candidates.h"

#include <algorithm>
#include <cmath>

namespace minuet {
namespace {

constexpr i64 kMostRows = i64{1} << 30;  // a kernel map has less than 2^31

/// Of one problem: tuning moves nothing but the tiles, and what follows from them.
bool is_same(const GmasChoice& a, const GmasChoice& b) {
  return a.gather.tile == b.gather.tile && a.scatter.tile == b.scatter.tile;
}

}  // namespace

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

std::vector<KernelSource> sources_of(const OpChoice& choice) {
  return std::visit([](const auto& chosen) { return sources_of(chosen); }, choice);
}

namespace {

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

std::vector<Candidate> fused_candidates(const ConvolutionProblem& problem, llvm::StringRef arch) {
  if (arch.empty()) return {{choose_fused(problem, arch, 0)}};
  std::vector<Candidate> candidates;
  for (i64 rows = 1; rows <= kMostRows; rows *= 2) {
    FusedChoice choice = choose_fused(problem, arch, rows);
    std::string kernel = display_name(choice.fused);
    if (candidates.empty() || candidates.back().kernel != kernel)
      append(candidates, std::move(choice), rows, std::move(kernel));
  }
  return candidates;
}

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
                                                         std::optional<Dataflow> wanted) {
  MINUET_TRY(validate(op));  // so far what is valid is a convolution
  const ConvolutionProblem& problem = *std::get_if<ConvolutionProblem>(&op);
  if (wanted == Dataflow::Fused && kernel_volume(problem) > kMostFusedOffsets) {
    return make_error(StatusCode::Unimplemented,
                      "the fused dataflow takes at most {0} offsets, and the kernel has {1}: leave the "
                      "dataflow to be chosen",
                      kMostFusedOffsets, kernel_volume(problem));
  }
  const Dataflow dataflow = wanted ? *wanted : choose_dataflow(problem, arch);
  if (dataflow == Dataflow::Fused) return fused_candidates(problem, arch);
  return gmas_candidates(problem, arch.empty() ? nullptr : tuning);
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
