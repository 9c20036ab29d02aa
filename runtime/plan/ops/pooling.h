// Writes and reads the problem of a pooling (OpFields).
#pragma once

#include "codegen/choose/ops/pooling.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {

llvm::json::Object write_pooling(const OpProblem& problem);
OpProblem read_pooling(FieldReader& fields);

}  // namespace minuet
