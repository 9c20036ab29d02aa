// Writes and reads the problems of the ops space_to_channel and channel_to_space (OpFields).
#pragma once

#include "codegen/choose/ops/space.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {

llvm::json::Object write_space_to_channel(const OpProblem& problem);
OpProblem read_space_to_channel(FieldReader& fields);
llvm::json::Object write_channel_to_space(const OpProblem& problem);
OpProblem read_channel_to_space(FieldReader& fields);

}  // namespace minuet
