#include "codegen/candidates.h"

#include <algorithm>

namespace minuet {
namespace {

constexpr i64 kMostTunedRows = i64{1} << 30;  // a kernel map has less than 2^31

/// Of one problem: tuning moves nothing but the tiles, and what follows from them.
bool is_same(const ConvolutionChoice& a, const ConvolutionChoice& b) {
  return a.gather.tile == b.gather.tile && a.scatter.tile == b.scatter.tile;
}

}  // namespace

llvm::Expected<std::vector<Candidate>> choose_candidates(const OpProblem& op, llvm::StringRef arch,
                                                         const TuningSnapshot* tuning) {
  MINUET_TRY(validate(op));  // so far what is valid is a convolution
  if (arch.empty()) tuning = nullptr;
  std::vector<Candidate> candidates;
  // From bucket to bucket: they begin at powers of two.
  for (i64 rows = 0; rows <= (tuning ? kMostTunedRows : 0); rows = std::max<i64>(1, 2 * rows)) {
    Candidate candidate{choose_convolution(*std::get_if<ConvolutionProblem>(&op), tuning, rows), rows};
    if (!candidates.empty()) {
      if (is_same(candidates.back().choice, candidate.choice)) continue;
      candidates.back().most_rows = rows - 1;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

const Candidate& select(const std::vector<Candidate>& candidates, i64 rows, double density) {
  std::size_t i = 0;
  const auto serves = [&](const Candidate& candidate) {
    return rows >= candidate.least_rows && rows <= candidate.most_rows &&
           density >= candidate.least_density && density <= candidate.most_density;
  };
  while (i + 1 < candidates.size() && !serves(candidates[i])) ++i;
  return candidates[i];
}

}  // namespace minuet
