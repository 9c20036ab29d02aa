// Declares functions that add flags to a command, and functions that check the flags of one command against
// each other.
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
void add_quantize(CLI::App& quantize, Arguments& arguments);
void add_weights_command(CLI::App& weights, Arguments& arguments);

// These functions return an error if flags of a command contradict one another.
llvm::Error check_run(const Arguments& arguments);
llvm::Error check_view(const Arguments& arguments);
llvm::Error check_precompile(const Arguments& arguments);
llvm::Error check_quantize(const Arguments& arguments);
/// Returns an error unless exactly one source of a cloud is given and its flags are valid.
llvm::Error check_cloud(const InputOptions& input);
/// Returns an error if --output does not end in .html or .htm.
llvm::Error check_page(const Arguments& arguments);
/// Checks that the value of a flag ends in .html.
llvm::Error check_html(llvm::StringRef flag, const std::string& path);
/// Returns an error if a flag about the weights file is given without --weights.
llvm::Error check_weights_flags(const NetworkChoice& choice);

// These functions add flags that several commands share. A function returns the option if its callers change
// it, for example its help text.
CLI::Option* add_cache(CLI::App& app, Arguments& arguments);
/// Adds --device and --threads to a command that opens a device.
void add_device(CLI::App& app, DeviceChoice& choice);
CLI::Option* add_dtype(CLI::App& app, std::string& dtype);
void add_dtypes(CLI::App& app, Arguments& arguments, const std::string& otherwise);
CLI::Option* add_dataflow(CLI::App& app, NetworkChoice& network);
CLI::Option* add_network_name(CLI::App& app, NetworkChoice& network);
CLI::Option* add_networks(CLI::App& app, Arguments& arguments);
void add_channels(CLI::App& app, NetworkChoice& network);
/// Adds --weights and the flags that say how to read the file.
void add_weights(CLI::App& app, NetworkChoice& choice);
/// Adds CLOUD (a file), --synthetic, and the flags that say how to read and voxelize the cloud.
void add_cloud(CLI::App& app, InputOptions& input);
/// Adds --range, --max-points and --max-voxels, which cut the cloud to a box.
void add_grid(CLI::App& app, InputOptions& input);
CLI::Option* add_range(CLI::App& app, std::string& range);
void add_keep_first_duplicate(CLI::App& app, ExecutionChoice& execution);
/// Adds --columns, --intensity-column and --intensity-field, which say how to read the rows of cloud files.
void add_file_columns(CLI::App& app, ColumnOptions& columns);
/// Adds --voxel-size and the column flags for cloud files, and --data for the folder with the files of the
/// clouds that `minuet bench` knows by name.
void add_bench_files(CLI::App& app, Arguments& arguments);
void add_data(CLI::App& app, std::string& data);
CLI::Option* add_palette(CLI::App& app, Arguments& arguments);
void add_commit(CLI::App& app, std::string& commit);

}  // namespace minuet::tool
