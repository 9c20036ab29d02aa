// Decides where a program's tensors are in memory, once all of its layers are known.
#pragma once

#include "runtime/program/program.h"

namespace minuet {

/// Sets the row pitch and the first column of the operands of each layer. They are known only after the last
/// concatenation has been added.
void assign_columns(Program& program);

/// Finds when each storage is in use (StorageSpec::first, StorageSpec::last), and stacks those that are
/// (Program::stack). A storage lives until its last reader, and that of an output until the end of the run.
void stack_storages(Program& program);

/// Stacks the storages, whose lives are known already. Storages in Program::kept have a place of their own.
void stack_by_lives(Program& program);

}  // namespace minuet
