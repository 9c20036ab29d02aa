#include "codegen/choose/candidates.h"

#include <algorithm>
#include <cmath>

namespace minuet {

llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& problem,
                                                         const CandidateOptions& options) {
  MINUET_TRY(validate(problem));
  return problem.kind().candidates(problem, options);
}

bool has_same_kernels(const Candidate& a, const Candidate& b) {
  return a.least_density == b.least_density && a.most_density == b.most_density &&
         is_same(a.choice, b.choice);
}

bool needs_density(const std::vector<Candidate>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
    return candidate.least_density > 0 || !std::isinf(candidate.most_density);
  });
}

const Candidate& select(const std::vector<Candidate>& candidates, i64 output_rows,
                        std::optional<double> density) {
  std::size_t i = 0;
  const auto serves = [&](const Candidate& candidate) {
    if (output_rows < candidate.least_rows || output_rows > candidate.most_rows) return false;
    return !density || (*density >= candidate.least_density && *density <= candidate.most_density);
  };
  while (i + 1 < candidates.size() && !serves(candidates[i])) ++i;
  return candidates[i];
}

}  // namespace minuet
