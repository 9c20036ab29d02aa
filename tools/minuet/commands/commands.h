// Declares the functions behind the subcommands of `minuet`. Each returns success once all of its work is
// done, or an error with a message of one sentence.
#pragma once

#include "tools/minuet/flags/arguments.h"

namespace minuet::tool {

/// Labels the progress bar while a network's kernels are compiled or found in a cache.
constexpr const char* kFindingKernels = "finding or compiling kernels";

llvm::Error run_command(const Arguments& arguments);
llvm::Error view_command(const Arguments& arguments);
llvm::Error report_command(const Arguments& arguments);
llvm::Error info_command(const Arguments& arguments);
llvm::Error bench_command(const Arguments& arguments);
llvm::Error precompile_command(const Arguments& arguments);
llvm::Error quantize_command(const Arguments& arguments);
llvm::Error weights_command(const Arguments& arguments);

/// Adds the subcommands of `minuet cache` or `minuet tune` with their flags. Parsing a subcommand stores the
/// function that runs it in Arguments::action.
void add_cache_actions(CLI::App& cache, Arguments& arguments);
void add_tune_actions(CLI::App& tune, Arguments& arguments);
/// Runs the subcommand that parsing selected.
inline llvm::Error run_action(const Arguments& arguments) { return arguments.action(arguments); }

}  // namespace minuet::tool
