// Flags about the cloud, which the commands that take one share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/minuet/options.h"

namespace minuet::tool {

/// Adds the flags that say how the rows of a cloud's file are read: --columns, --intensity-column and
/// --intensity-field.
void add_file_columns(CLI::App& app, ColumnOptions& columns);
/// A file or a generated cloud, and its voxels.
void add_cloud(CLI::App& app, InputOptions& input);
/// Voxels that somebody else made, with their features, instead.
void add_voxels(CLI::App& app, Arguments& arguments);
void add_keep_first_duplicate(CLI::App& app, ExecutionChoice& execution);
/// An error where there is no cloud, or more than one.
llvm::Error check_cloud(const InputOptions& input);

}  // namespace minuet::tool
