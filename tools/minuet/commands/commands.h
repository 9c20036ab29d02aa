// The commands. Each returns an error of one sentence, or success after it has done all its work.
#pragma once

#include "tools/minuet/flags/arguments.h"

namespace minuet::tool {

llvm::Error run_command(const Arguments& arguments);
llvm::Error view_command(const Arguments& arguments);
llvm::Error report_command(const Arguments& arguments);
llvm::Error info_command(const Arguments& arguments);
llvm::Error bench_command(const Arguments& arguments);
llvm::Error precompile_command(const Arguments& arguments);
llvm::Error weights_command(const Arguments& arguments);

/// Add the subcommands of `minuet cache` and `minuet tune`, each with its flags and with the function that
/// runs it: `Arguments::action`.
void add_cache_actions(CLI::App& cache, Arguments& arguments);
void add_tune_actions(CLI::App& tune, Arguments& arguments);
/// Runs the subcommand that was named.
inline llvm::Error run_action(const Arguments& arguments) { return arguments.action(arguments); }

}  // namespace minuet::tool
