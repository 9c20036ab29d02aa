// Implements main() for programs that report their failure in one sentence.
#pragma once

#include "llvm/Support/Error.h"

namespace minuet::tool {

using Program = llvm::Error (*)(int count, const char* const* values);

/// Runs the program with the arguments of main(), prints its error on stderr and returns its exit code.
int run_program(Program program, int count, const char* const* values);

}  // namespace minuet::tool
