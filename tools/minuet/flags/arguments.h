// The parsed command line, and the table of commands that parses it.
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

/// The values of the named command's flags. Members for other commands keep their defaults.
struct Arguments {
  /// Runs the named subcommand; null if the command has no subcommands.
  llvm::Error (*action)(const Arguments& arguments) = nullptr;
  InputOptions input;
  NetworkChoice network;
  ExecutionChoice execution;
  std::string dtype;  ///< empty means the device's default
  DeviceChoice device;
  std::string cache;   ///< empty means the library's default
  bool tuned = false;  ///< true to choose kernels by stored tuning results
  std::string output, json;
  // run
  int repeat = 0;  ///< 0 means 10 on a GPU and none on the CPU; in `tune run` the library decides
  std::string output_coordinates;
  bool labels = false, random_weights = false, per_point = false;
  std::string palette;
  bool list_kernels = false;
  std::string trace;
  ViewOptions view;
  // report
  std::string results, title;
  // bench, tune run
  std::vector<std::string> networks, dtypes, clouds;
  std::string data, commit;     ///< empty means the default folder; empty means no commit
  std::string file_voxel_size;  ///< for the user's cloud files; empty means 0.1
  ColumnOptions file_columns;   ///< for the user's cloud files
  int variants = 0;             ///< 0 means 16 on a GPU and 2 on the CPU
  int warm_up = 0;              ///< 0 means 20 on a GPU and 1 on the CPU
  double budget = 0;            ///< seconds; 0 means the library's default
  bool exhaustive = false;
  // precompile
  std::vector<std::string> archs;  ///< empty means sm_90a, or the recorded ones
  std::string requests;
  int jobs = 0;  ///< 0 means that the library decides
  // cache, tune
  std::string tuning;  ///< folder of tuning results; empty means the cache folder's
  std::string bundle;
  std::string key;  ///< prefix of a kernel's key or name, or of a tuning result's bucket
  std::optional<uint64_t> most_bytes;
  bool to_json = false;
};

/// A command of the tool.
struct Command {
  const char* name;
  const char* help;                                  ///< one line
  void (*add)(CLI::App& app, Arguments& arguments);  ///< adds its flags
  llvm::Error (*run)(const Arguments& arguments);
};

/// Fills `arguments` from the flags of the named command and returns that command. Returns null if it printed
/// a help or version text instead. A wrong flag or value is an error of one sentence.
llvm::Expected<const Command*> parse_arguments(llvm::ArrayRef<Command> commands, int count,
                                               const char* const* values, Arguments& arguments);

/// Fills the variables of the flags that were added to `app`. Returns false if it printed a help or version
/// text instead.
llvm::Expected<bool> parse_flags(CLI::App& app, int count, const char* const* values);

}  // namespace minuet::tool
