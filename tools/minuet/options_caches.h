// Flags of the commands about kernels: precompile and cache; and those that commands share.
#pragma once

#include <CLI/CLI.hpp>

#include "tools/minuet/options.h"

namespace minuet::tool {

void add_cache(CLI::App& app, Arguments& arguments);
/// --device and --threads, for every command that opens a device.
void add_device(CLI::App& app, DeviceChoice& choice);
void add_channels(CLI::App& app, Arguments& arguments);
CLI::Option* add_networks(CLI::App& app, Arguments& arguments);
void add_precompile(CLI::App& precompile, Arguments& arguments);
void add_cache_command(CLI::App& cache, Arguments& arguments);
llvm::Error check_precompile(const Arguments& arguments);

}  // namespace minuet::tool
