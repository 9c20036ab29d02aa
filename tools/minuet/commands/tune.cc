// `minuet tune`: lists tuning results in files. commands/tune_run.cc makes them.
#include <CLI/CLI.hpp>

#include "codegen/choose/tuned_config.h"
#include "codegen/tuning/tuning_store.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/commands/tune_run.h"
#include "tools/minuet/error.h"
#include "tools/minuet/library.h"

namespace minuet::tool {
namespace {

constexpr const char* kFooter = R"(
Results lie in DIR/<environment>/<bucket>.json: one file for each kind of kernel and size of problem, in
one folder for each GPU, set of kernels to choose among and toolkit. The best of a file is the fastest
configuration that beats the default and that the library still has.

Examples:
  minuet tune run os1_0.1 office_0.01 --network minkunet42
  minuet tune show --network minkunet42
  minuet tune list
  minuet tune inspect 3fa9 --directory ./tuning)";

constexpr std::size_t kShownDigits = 12;

/// Errors of files are the user's to mend.
llvm::Error explain(llvm::Error error) {
  return error ? bad_input("{0}", take_status(std::move(error)).message()) : llvm::Error::success();
}

template <class T>
llvm::Expected<T> explain(llvm::Expected<T> value) {
  if (!value) return explain(value.takeError());
  return value;
}

TuningStore store_at(std::string directory, std::string below = "") {
  return {std::move(directory), std::move(below), process_policy(process_environment()), real_file_system()};
}

/// A folder that the user named, which must be there already.
llvm::Expected<TuningStore> named_store(llvm::StringRef directory) {
  llvm::SmallString<256> path = directory;
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  if (!llvm::sys::fs::is_directory(path)) return bad_input("'{0}' is no folder", directory);
  return store_at(path.str().str());
}

llvm::Expected<TuningStore> open_store(const TuneOptions& options) {
  if (!options.directory.empty()) return named_store(options.directory);
  MINUET_ASSIGN(const std::string named, absolute_cache_folder(options.cache));
  MINUET_ASSIGN(std::string cache, explain(choose_cache_directory(named, process_environment())));
  return store_at(std::move(cache), tuning_folder_of_cache());
}

struct Found {
  std::string environment;  // its hash
  TuningFolder folder;
};

llvm::Expected<std::vector<Found>> read_all(TuningStore& store) {
  std::vector<Found> all;
  MINUET_ASSIGN(const std::vector<std::string> environments, explain(store.environments()));
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(TuningFolder folder, explain(store.load(environment)));
    all.push_back({environment, std::move(folder)});
  }
  return all;
}

template <class Fields>
std::string line_of(const Fields& fields) {
  std::string line;
  Fields::visit(fields, [&](const char* name, const auto& value) {
    std::string text = tuning_text(value);
    if (llvm::StringRef(name) == "kernels") text.resize(std::min(text.size(), kShownDigits));
    line += (line.empty() ? "" : ", ") + std::string(name) + " " + text;
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
  for (const std::string& reason : folder.skipped) llvm::errs() << "minuet: not used: " << reason << "\n";
}

llvm::Error list(TuningStore& store, bool json) {
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
      llvm::outs() << llvm::formatv("  {0}  {1,-8}  {2}: {3}, {4} ns, of {5}\n",
                                    bucket_hash(entry.bucket).substr(0, kShownDigits),
                                    operation_name(entry.bucket.operation), line_of(entry.bucket),
                                    config_text(best), best.median_ns, entry.measurements.size());
    }
  }
  if (json) llvm::outs() << write_tuning(entries);
  if (!json && entries.empty()) llvm::outs() << "no tuning results\n";
  return llvm::Error::success();
}

llvm::Error inspect(TuningStore& store, llvm::StringRef prefix) {
  MINUET_ASSIGN(const std::vector<Found> all, read_all(store));
  int matches = 0;
  for (const Found& found : all) {
    for (const TuningEntry& entry : found.folder.entries) {
      if (llvm::StringRef(bucket_hash(entry.bucket)).take_front(prefix.size()) != prefix) continue;
      llvm::outs() << write_tuning({entry});
      ++matches;
    }
  }
  if (matches > 0) return llvm::Error::success();
  return bad_input("no result's bucket starts with '{0}' (minuet tune list shows them)", prefix);
}

}  // namespace

void add_tune(CLI::App& tune, TuneOptions& options) {
  tune.footer(kFooter);
  tune.require_subcommand(1);
  add_tune_run(tune, options);
  auto add_action = [&](const char* name, const char* help) {
    CLI::App* const action = tune.add_subcommand(name, help);
    action->callback([&options, name] { options.action = name; });
    return action;
  };
  auto add_directory = [&](CLI::App* action) {
    action->add_option("--directory", options.directory, "folder of results; default: the cache's")
        ->type_name("DIR");
    action
        ->add_option("--cache", options.cache,
                     "kernel cache folder that has them, where there is no --directory")
        ->type_name("DIR");
  };
  CLI::App* const list = add_action("list", "List environments and their entries, best configuration first");
  list->add_flag("--json", options.json, "the entries as one JSON array, as a bundle holds them");
  add_directory(list);
  CLI::App* const inspect = add_action("inspect", "Print the entry of a bucket");
  inspect->add_option("ENTRY", options.entry, "first digits of the bucket's hash")->required();
  add_directory(inspect);
}

llvm::Error tune_command(const Arguments& arguments) {
  const TuneOptions& options = arguments.tune;
  if (options.action == "run") return tune_run(options);
  if (options.action == "show") return tune_show(options);
  MINUET_ASSIGN(TuningStore store, open_store(options));
  if (options.action == "inspect") return inspect(store, options.entry);
  return list(store, options.json);
}

}  // namespace minuet::tool
