// Declares `minuet tune run` and `minuet tune show`. commands/tune.cc has the other subcommands of
// `minuet tune`.
#pragma once

#include "minuet/tuning.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/flags/arguments.h"

namespace minuet::tool {

void add_tune_run(CLI::App& run, Arguments& arguments);
/// Adds the flags that `tune run` and `tune show` share: the network, the device and the cache.
void add_tune_network(CLI::App& app, Arguments& arguments);
llvm::Error tune_run(const Arguments& arguments);
llvm::Error tune_show(const Arguments& arguments);

/// Holds clouds in device memory, in the form that minuet_tune takes.
struct TuneClouds {
  std::vector<DeviceBuffer> memory;
  std::vector<minuet_tuning_cloud> clouds;
  llvm::Error add(const VoxelCloud& cloud, minuet_device* device);
};

/// Returns the fields of `config`, separated by spaces, that `other` lacks or has with another value.
std::string differences(llvm::StringRef config, llvm::StringRef other);
/// Returns the range of kernel map pairs per row that the choice holds for, such as "4 - 16" or "any".
std::string density_text(const minuet_tuned_choice& choice);

}  // namespace minuet::tool
