// Defines the parsed command line and the commands of the tool, and parses the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/library.h"
#include "tools/minuet/pages/view_data.h"

namespace CLI {
class App;
}

namespace minuet::tool {

/// Holds the values of the flags of the command that the user named. Members for other commands keep their
/// defaults.
struct Arguments {
  /// Runs the subcommand that the user named, for example `list` of `minuet cache`. The pointer is null if
  /// the command has no subcommands.
  llvm::Error (*action)(const Arguments& arguments) = nullptr;
  InputOptions input;
  NetworkChoice network;
  ExecutionChoice execution;
  std::string dtype;  ///< An empty string means the device's default.
  DeviceChoice device;
  std::string cache;   ///< An empty string means the library's default.
  bool tuned = false;  ///< Tells whether to choose kernels by stored tuning results.
  std::string output, json;
  // `minuet run` uses the following members, of which other commands share some.

  /// Counts the timed inferences. The value 0 means 10 on a GPU or with --replay, and none otherwise. In
  /// `tune run` it means that the library decides.
  int repeat = 0;
  std::string output_coordinates;
  /// These flags have values NAME=FILE.npy (base/tensor_file.h) for tensors of the network.
  std::vector<std::string> output_of, coordinates_of, input_of;
  bool labels = false, random_weights = false, per_point = false;
  std::string palette;
  bool list_kernels = false, list_networks = false;
  std::string trace;
  ViewOptions view;
  // `minuet report` uses the following members.
  std::string results, title;
  // `minuet bench` and `minuet tune run` use the following members, of which `minuet precompile` shares some.
  std::vector<std::string> networks, dtypes, clouds;
  /// An empty `data` means the default folder of cloud files (bench_data_folder()). An empty `commit` means
  /// that the results name no commit.
  std::string data, commit;
  /// Holds the voxel size for the user's cloud files. An empty string means 0.1 m.
  std::string file_voxel_size;
  ColumnOptions file_columns;  ///< These options are for the user's cloud files.
  std::string range;           ///< Holds the range of the networks' grids as parse_range() takes it.
  /// Counts the timed variants of each cloud. The value 0 means 16 on a GPU and 2 on the CPU.
  int variants = 0;
  /// Counts the inferences before the timing. The value 0 means 20 on a GPU and 1 on the CPU.
  int warm_up = 0;
  bool training = false;  ///< Tells whether `bench` times, or `tune` measures, steps of training.
  int branches = 0;       ///< Counts the branches of their backward passes. 0 means that the library chooses.
  double budget = 0;      ///< Limits the time of tuning in seconds. The value 0 means the library's default.
  bool exhaustive = false;
  bool only_training = false;  ///< Tells whether `tune` measures nothing else.
  // `minuet precompile` uses the following members.

  /// Lists architectures to compile for. An empty list means sm_90a, or with --from the architectures in that
  /// file.
  std::vector<std::string> archs;
  std::string requests;
  /// Counts the kernels that are compiled at once. The value 0 means that the library decides.
  int jobs = 0;
  // `minuet quantize` uses the following members.

  std::string calibration = "max";
  std::optional<double> percentile;
  double error_budget = 0;  ///< Limits the relative error of the outputs. The value 0 means no limit.
  std::vector<std::string> floating;  ///< Names convolutions that keep floating numbers.
  std::string page;  ///< Names the HTML file for the errors layer by layer. An empty string means none.
  // `minuet cache` and `minuet tune` use the following members. `minuet precompile` also uses `tuning`.

  /// Names the folder of tuning results. An empty string means the folder that belongs to the cache folder.
  std::string tuning;
  std::string bundle;
  /// Holds the start of a kernel's key or name. In `minuet tune`, it is the start of the hash of the group of
  /// problems that a tuning result is for (TuningBucket).
  std::string key;
  std::optional<uint64_t> most_bytes;
  bool to_json = false;
};

/// Describes a command of the tool.
struct Command {
  const char* name;
  const char* help;                                  ///< Describes the command in one line.
  void (*add)(CLI::App& app, Arguments& arguments);  ///< Adds the flags of the command.
  llvm::Error (*run)(const Arguments& arguments);
};

/// Fills `arguments` from the flags of the command that the user named, and returns that command. Returns
/// null if it printed a help or version text instead. A wrong flag or value is an error of one sentence.
llvm::Expected<const Command*> parse_arguments(llvm::ArrayRef<Command> commands, int count,
                                               const char* const* values, Arguments& arguments);

/// Fills the variables of the flags that were added to `app`. Returns false if it printed a help or version
/// text instead.
llvm::Expected<bool> parse_flags(CLI::App& app, int count, const char* const* values);

}  // namespace minuet::tool
