// Writes and reads the problem of a chain of pointwise steps (OpFields).
#pragma once

#include "codegen/choose/ops/pointwise.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {

llvm::json::Object write_pointwise(const OpProblem& problem);
OpProblem read_pointwise(FieldReader& fields);

}  // namespace minuet
