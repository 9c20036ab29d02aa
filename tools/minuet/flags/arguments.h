// The command line: the commands, and what their flags say.
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

/// The values of the flags of the command that was named; the other commands' keep their defaults.
struct Arguments {
  /// Runs the subcommand that was named, where the command has subcommands.
  llvm::Error (*action)(const Arguments& arguments) = nullptr;
  InputOptions input;
  NetworkChoice network;
  ExecutionChoice execution;
  std::string dtype;  ///< empty: the device's default
  DeviceChoice device;
  std::string cache;   ///< empty: the library's default
  bool tuned = false;  ///< tuning results decide
  std::string output, json;
  // run
  int repeat = 0;  ///< 0: 10 on a GPU, none on the CPU; of `tune run`: the library decides
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
  std::string data, commit;     ///< empty: the default folder; none
  std::string file_voxel_size;  ///< of clouds that are the user's files; empty: 0.1
  ColumnOptions file_columns;   ///< of the same clouds
  int variants = 0;             ///< 0: 16 on a GPU, 2 on the CPU
  int warm_up = 0;              ///< 0: 20 on a GPU, 1 on the CPU
  double budget = 0;            ///< seconds; 0: the library's default
  bool exhaustive = false;
  // precompile
  std::vector<std::string> archs;  ///< empty: sm_90a, or as recorded
  std::string requests;
  int jobs = 0;  ///< 0: the library decides
  // cache, tune
  std::string tuning;  ///< folder of tuning results; empty: the cache's
  std::string bundle;
  std::string key;  ///< the start of a kernel's key or name, or of a tuning result's bucket
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

/// Fills `arguments` by the flags of the command that was named, and returns that command; null where a help
/// or version text was asked for and printed. A wrong flag or value is an error of one sentence.
llvm::Expected<const Command*> parse_arguments(llvm::ArrayRef<Command> commands, int count,
                                               const char* const* values, Arguments& arguments);

/// Fills the variables of the flags that were added to `app`. False where a help or version text was asked
/// for and printed.
llvm::Expected<bool> parse_flags(CLI::App& app, int count, const char* const* values);

}  // namespace minuet::tool
