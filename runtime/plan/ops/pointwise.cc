#include "runtime/plan/ops/pointwise.h"

namespace minuet {

// The members for columns are left out, because they follow from the program of the op.
[[gnu::cold]] llvm::json::Object write_pointwise(const OpProblem& op) {
  const auto& problem = op.get<PointwiseProblem>();
  llvm::json::Object fields = window_fields(problem);
  llvm::json::Array kinds, numbers;
  for (const PointwiseStep& step : problem.steps) {
    kinds.push_back(static_cast<i64>(step.kind));
    numbers.push_back(static_cast<double>(step.number));
  }
  fields["channels"] = problem.channels;
  fields["kinds"] = std::move(kinds);
  fields["numbers"] = std::move(numbers);
  return fields;
}

[[gnu::cold]] OpProblem read_pointwise(FieldReader& fields) {
  PointwiseProblem problem;
  read_window_fields(fields, problem);
  problem.channels = fields.integer32("channels", 1, kMostChannels);
  const std::vector<i32> kinds = fields.integers("kinds", 1, kPointwiseKinds - 1);
  const std::vector<float> numbers = fields.reals("numbers");
  if (numbers.size() != kinds.size()) fields.fail("numbers");
  for (std::size_t i = 0; i < std::min(kinds.size(), numbers.size()); ++i) {
    problem.steps.push_back({static_cast<PointwiseKind>(kinds[i]), numbers[i]});
  }
  return problem;
}

}  // namespace minuet
