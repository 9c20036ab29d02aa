// Writes and reads the problems of a pooling and of its gradient (OpFields).
#pragma once

#include "codegen/choose/ops/pooling_gradient.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {

llvm::json::Object write_pooling(const OpProblem& problem);
OpProblem read_pooling(FieldReader& fields);
llvm::json::Object write_pooling_gradient(const OpProblem& problem);
OpProblem read_pooling_gradient(FieldReader& fields);

}  // namespace minuet
