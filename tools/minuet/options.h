// The command line: every flag, its default and its help.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "tools/minuet/input.h"
#include "tools/minuet/library.h"
#include "tools/minuet/view_data.h"

namespace CLI {
class App;
}

namespace minuet::tool {

enum class Command { None, Run, View, Report, Info, Bench, Precompile, Cache, Tune, Study, Weights };
enum class CacheAction { List, Inspect, Extract, Verify, Prune, Stats };

/// `minuet tune`: commands/tune.cc and commands/tune_run.cc.
struct TuneOptions {
  std::string action;     ///< list, inspect, run or show
  std::string directory;  ///< empty: the cache's
  std::string cache;      ///< empty: the library's default
  std::string entry;
  bool json = false;
  // run and show
  NetworkChoice network;
  std::string dtype;  ///< empty: the device's default
  DeviceChoice device;
  // run
  std::vector<std::string> clouds;
  std::string data, voxel_size;  ///< empty: the default folder; 0.1
  ColumnOptions columns;
  double budget = 0;  ///< seconds; 0: the library's default
  bool exhaustive = false;
  int repeat = 0;  ///< 0: the library decides
};
void add_tune(CLI::App& tune, TuneOptions& options);

/// `minuet study`: commands/study.cc.
struct StudyOptions {
  std::vector<std::string> names;  ///< "all": every one
  std::string output;              ///< a folder
  std::string size;                ///< tiny, small or full; empty: by the device
  std::string dtype, cache, data, commit;
  DeviceChoice device;
};
void add_study(CLI::App& study, StudyOptions& options);

struct Arguments {
  Command command = Command::None;  ///< None: a help or version text was asked for and printed
  InputOptions input;
  NetworkChoice network;
  ExecutionChoice execution;
  std::string dtype;  ///< empty: the device's default
  DeviceChoice device;
  std::string cache;   ///< empty: the library's default
  bool tuned = false;  ///< tuning results decide
  // run
  int repeat = 0;  ///< 0: 10 on a GPU, none on the CPU
  std::string output, output_coordinates, json;
  bool labels = false, random_weights = false, per_point = false;
  std::string palette;
  bool list_kernels = false;
  std::string trace;
  ViewOptions view;
  // report
  std::string results, title;
  // bench
  std::vector<std::string> networks, dtypes, clouds;
  std::string data, commit;
  std::string file_voxel_size;  ///< of clouds that are the user's files; empty: 0.1
  ColumnOptions file_columns;   ///< of the same clouds
  int variants = 0;             ///< 0: 16 on a GPU, 2 on the CPU
  int warm_up = 0;              ///< 0: 20 on a GPU, 1 on the CPU
  // precompile
  std::string tuning;              ///< folder of tuning results; empty: the cache's
  std::vector<std::string> archs;  ///< empty: sm_90a, or as recorded
  std::string requests;
  int jobs = 0;  ///< 0: the library decides
  // cache
  CacheAction action = CacheAction::List;
  std::string bundle, key;
  std::optional<uint64_t> most_bytes;
  bool to_json = false;
  TuneOptions tune;
  StudyOptions study;
};

/// A wrong flag or value is an error of one sentence.
llvm::Expected<Arguments> parse_arguments(int count, const char* const* values);

}  // namespace minuet::tool
