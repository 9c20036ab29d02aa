// Flags about weights files: those that run and precompile share, and `minuet weights`.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/minuet/options.h"

namespace minuet::tool {

/// --weights, and how the file is read.
void add_weights(CLI::App& app, NetworkChoice& choice);
void add_weights_command(CLI::App& weights, Arguments& arguments);
llvm::Error check_weights_flags(const NetworkChoice& choice);

}  // namespace minuet::tool
