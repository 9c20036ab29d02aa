// Writes and reads the problem of a convolution (OpFields). Dataflows are written by their names, also those
// of a network.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/plan/problem_fields.h"

namespace minuet {

llvm::json::Object write_convolution(const OpProblem& problem);
OpProblem read_convolution(FieldReader& fields);

/// Returns the name of the dataflow, or "auto" if none is requested.
const char* requested_dataflow_name(std::optional<Dataflow> dataflow);
std::optional<Dataflow> read_requested_dataflow(FieldReader& fields, llvm::StringRef name);

}  // namespace minuet
