// Functions that add flags to a command, and those that check what the flags of one command say together.
#pragma once

#include "tools/minuet/flags/arguments.h"

namespace CLI {
class Option;
}

namespace minuet::tool {

// These functions add all flags of a command.
void add_run(CLI::App& run, Arguments& arguments);
void add_view(CLI::App& view, Arguments& arguments);
void add_report(CLI::App& report, Arguments& arguments);
void add_info(CLI::App& info, Arguments& arguments);
void add_bench(CLI::App& bench, Arguments& arguments);
void add_precompile(CLI::App& precompile, Arguments& arguments);
void add_weights_command(CLI::App& weights, Arguments& arguments);

// These functions refuse command lines whose flags contradict one another.
llvm::Error check_run(const Arguments& arguments);
llvm::Error check_view(const Arguments& arguments);
llvm::Error check_precompile(const Arguments& arguments);
/// An error where there is no cloud, or more than one.
llvm::Error check_cloud(const InputOptions& input);
/// An error where --output is not called as a page is.
llvm::Error check_page(const Arguments& arguments);
llvm::Error check_weights_flags(const NetworkChoice& choice);

// Flags that commands share. Where commands describe a flag differently, the function returns its option.
CLI::Option* add_cache(CLI::App& app, Arguments& arguments);
/// --device and --threads, for every command that opens a device.
void add_device(CLI::App& app, DeviceChoice& choice);
CLI::Option* add_dtype(CLI::App& app, std::string& dtype);
void add_dtypes(CLI::App& app, Arguments& arguments, const std::string& otherwise);
CLI::Option* add_dataflow(CLI::App& app, NetworkChoice& network);
CLI::Option* add_network_name(CLI::App& app, NetworkChoice& network);
CLI::Option* add_networks(CLI::App& app, Arguments& arguments);
void add_channels(CLI::App& app, NetworkChoice& network);
/// --weights, and how the file is read.
void add_weights(CLI::App& app, NetworkChoice& choice);
/// A file or a generated cloud, and its voxels.
void add_cloud(CLI::App& app, InputOptions& input);
void add_keep_first_duplicate(CLI::App& app, ExecutionChoice& execution);
/// --columns, --intensity-column and --intensity-field, which say how the rows of clouds' files are read.
void add_file_columns(CLI::App& app, ColumnOptions& columns);
/// --voxel-size and the columns for clouds that are files, and --data for those that have names.
void add_bench_files(CLI::App& app, Arguments& arguments);
void add_data(CLI::App& app, std::string& data);
CLI::Option* add_palette(CLI::App& app, Arguments& arguments);
void add_commit(CLI::App& app, std::string& commit);

}  // namespace minuet::tool
