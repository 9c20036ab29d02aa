#include "runtime/plan/ops/pooling.h"

namespace minuet {
namespace {

constexpr const char* kReductionFields[] = {"max", "average", "sum"};
static_assert(static_cast<int>(Reduction::Sum) == 2);

}  // namespace

// The members for columns are left out, because they follow from the program of the op.
llvm::json::Object write_pooling(const OpProblem& op) {
  const auto& problem = op.get<PoolingProblem>();
  llvm::json::Object fields = window_fields(problem);
  fields["channels"] = problem.channels;
  fields["reduction"] = kReductionFields[static_cast<int>(problem.reduction)];
  fields["winners"] = problem.winners;
  return fields;
}

OpProblem read_pooling(FieldReader& fields) {
  PoolingProblem problem;
  read_window_fields(fields, problem);
  problem.channels = fields.integer32("channels", 1, kMostChannels);
  problem.reduction = fields.choice<Reduction>("reduction", kReductionFields);
  problem.winners = fields.flag("winners");
  return problem;
}

llvm::json::Object write_pooling_gradient(const OpProblem& op) {
  const auto& problem = op.get<PoolingGradientProblem>();
  llvm::json::Object fields = window_fields(problem);
  fields["channels"] = problem.channels;
  fields["reduction"] = kReductionFields[static_cast<int>(problem.reduction)];
  return fields;
}

OpProblem read_pooling_gradient(FieldReader& fields) {
  PoolingGradientProblem problem;
  read_window_fields(fields, problem);
  problem.channels = fields.integer32("channels", 1, kMostChannels);
  problem.reduction = fields.choice<Reduction>("reduction", kReductionFields);
  return problem;
}

}  // namespace minuet
