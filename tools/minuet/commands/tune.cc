// `minuet tune list` and `minuet tune inspect` print stored tuning results, which commands/tune_run.cc makes.
#include <CLI/CLI.hpp>

#include "codegen/choose/tuned_config.h"
#include "codegen/tuning/tuning_store.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/commands/tune_run.h"
#include "tools/minuet/flags/flags.h"
#include "tools/minuet/flags/rules.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {
namespace {

constexpr const char* kFooter = R"(
Results are stored in DIR/<environment>/<bucket>.json. DIR is the kernel cache's folder of results, unless
--directory names another. There is one folder for each GPU and toolkit, and in it one file, called an entry,
for each kind of kernel and size of problem. Of each entry, the library uses the fastest configuration that it
supports, if this one beats the default. Results of other versions of the kernels are not used.

Examples:
  minuet tune run os1_0.1 office_0.01 --network minkunet42
  minuet tune show --network minkunet42
  minuet tune list
  minuet tune inspect 3fa9 --directory ./tuning)";

constexpr std::size_t kShownDigits = 12;

TuningStore store_at(std::string directory, std::string below = "") {
  return {std::move(directory), std::move(below), process_policy(process_environment()), real_file_system()};
}

/// Opens the folder of tuning results that the user named. It must exist already.
llvm::Expected<TuningStore> named_store(llvm::StringRef directory) {
  llvm::SmallString<256> path = directory;
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  if (!llvm::sys::fs::is_directory(path))
    return bad_input("--directory '{0}' is not a folder: name a folder of tuning results", directory);
  return store_at(path.str().str());
}

llvm::Expected<TuningStore> open_store(const Arguments& arguments) {
  if (!arguments.tuning.empty()) return named_store(arguments.tuning);
  MINUET_ASSIGN(const std::string named, absolute_cache_folder(arguments.cache));
  MINUET_ASSIGN(std::string cache, as_user_error(choose_cache_directory(named, process_environment())));
  return store_at(std::move(cache), tuning_folder_of_cache());
}

struct Found {
  /// Holds the hash of the environment (GPU, toolkit and so on) of the tuning result.
  std::string environment;
  TuningFolder folder;
};

llvm::Expected<std::vector<Found>> read_all(TuningStore& store) {
  std::vector<Found> all;
  MINUET_ASSIGN(const std::vector<std::string> environments, as_user_error(store.environments()));
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(TuningFolder folder, as_user_error(store.load(environment)));
    all.push_back({environment, std::move(folder)});
  }
  return all;
}

template <class Fields>
std::string line_of(const Fields& fields) {
  std::string line;
  Fields::visit(fields, [&](const char* name, const auto& value) {
    line += (line.empty() ? "" : ", ") + std::string(name) + " " + tuning_text(value);
  });
  return line;
}

std::string config_text(const TuningMeasurement& measurement) {
  std::string text;
  for (const auto& [name, value] : measurement.config) {
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  }
  return text + (measurement.is_default ? " (default)" : "");
}

void print_skipped(const TuningFolder& folder) {
  for (const std::string& reason : folder.skipped)
    llvm::errs() << "minuet: tuning result not used: " << reason << "\n";
}

llvm::Error list_results(const Arguments& arguments) {
  const bool json = arguments.to_json;
  MINUET_ASSIGN(TuningStore store, open_store(arguments));
  MINUET_ASSIGN(const std::vector<Found> all, read_all(store));
  std::vector<TuningEntry> entries;
  for (const Found& found : all) {
    print_skipped(found.folder);
    entries.insert(entries.end(), found.folder.entries.begin(), found.folder.entries.end());
    if (json || found.folder.entries.empty()) continue;
    llvm::outs() << found.environment.substr(0, kShownDigits) << "  "
                 << line_of(found.folder.entries.front().environment) << "\n";
    for (const TuningEntry& entry : found.folder.entries) {
      const TuningMeasurement& best = entry.measurements.front();
      llvm::outs() << llvm::formatv("  {0}  {1,-8}  {2}: {3}, {4} ns, best of {5}\n",
                                    bucket_hash(entry.bucket).substr(0, kShownDigits),
                                    operation_name(entry.bucket.operation), line_of(entry.bucket),
                                    config_text(best), best.median_ns, entry.measurements.size());
    }
  }
  if (json) llvm::outs() << write_tuning(entries);
  if (!json && entries.empty()) llvm::outs() << "no tuning results; minuet tune run makes them\n";
  return llvm::Error::success();
}

llvm::Error inspect_result(const Arguments& arguments) {
  const std::string& prefix = arguments.key;
  MINUET_ASSIGN(TuningStore store, open_store(arguments));
  MINUET_ASSIGN(const std::vector<Found> all, read_all(store));
  int matches = 0;
  for (const Found& found : all) {
    for (const TuningEntry& entry : found.folder.entries) {
      if (bucket_hash(entry.bucket).rfind(prefix, 0) != 0) continue;
      llvm::outs() << write_tuning({entry});
      ++matches;
    }
  }
  if (matches > 0) return llvm::Error::success();
  return bad_input("no entry's hash starts with '{0}' (minuet tune list shows the hashes)", prefix);
}

}  // namespace

void add_tune_actions(CLI::App& tune, Arguments& arguments) {
  tune.footer(kFooter);
  tune.require_subcommand(1);
  const auto add = [&](const char* name, const char* help,
                       llvm::Error (*run)(const Arguments& arguments)) -> CLI::App& {
    CLI::App* const action = tune.add_subcommand(name, help);
    action->callback([&arguments, run] { arguments.action = run; });
    return *action;
  };
  const auto add_directory = [&](CLI::App& action) {
    add_value(action, "--directory", arguments.tuning, "DIR",
              "folder of tuning results; default: the one in the kernel cache folder");
    add_cache(action, arguments)
        ->description("kernel cache folder whose results are read if --directory is absent");
  };
  add_tune_run(add("run", "Measure which kernels are fastest for a network on given clouds", tune_run),
               arguments);
  add_tune_network(
      add("show", "Show what was chosen for each layer, and how much less time it takes than the default",
          tune_show),
      arguments);
  CLI::App& list =
      add("list", "List the entries of each GPU and toolkit, with the best configuration of each entry",
          list_results);
  list.add_flag("--json", arguments.to_json, "print the entries as one JSON array, in the format of bundles");
  add_directory(list);
  CLI::App& inspect = add("inspect", "Print an entry as JSON", inspect_result);
  inspect
      .add_option("ENTRY", arguments.key, "first digits of the entry's hash, which `minuet tune list` shows")
      ->required();
  add_directory(inspect);
}

}  // namespace minuet::tool
