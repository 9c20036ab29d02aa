// Relates the cells of two levels of a program, for the ops that lead from the coarser one to the finer one.
#pragma once

#include <string>

#include "runtime/program/program.h"

namespace minuet {

/// Returns how many cells of level `fine` a cell of level `coarse` has on each axis. Returns InvalidArgument
/// if the cells of one are not made of cells of the other. `onto` is the name of a result on level `fine`,
/// for messages.
llvm::Expected<AxisArray> stride_between(const Program& program, const std::string& onto, i32 fine,
                                         i32 coarse);

}  // namespace minuet
