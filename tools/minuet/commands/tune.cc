// `minuet tune`: tuning results in files: what is there, and how to bring it together. commands/tune_run.cc
// makes them.
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
Results lie in DIR/<environment>/<bucket>.json: one file for each kind of kernel and size of problem, in
one folder for each GPU, library version and toolkit. The best of a file is the fastest
configuration that beats the default and that the library still has.

merge keeps of every configuration one measurement: a fresh one before a migrated one, else the one with
the least median; so the order of merges does not matter. migrate copies the results of another version
of Minuet or of the toolkit to this one's folder, marked as migrated until they are measured again.

Examples:
  minuet tune run os1_0.1 office_0.01 --network minkunet42
  minuet tune show --network minkunet42
  minuet tune list
  minuet tune inspect 3fa9 --directory ./tuning
  minuet tune merge ./from-another-machine ./tuning
  minuet tune migrate --from-env 51c0)";

constexpr std::size_t kShownDigits = 12;

TuningStore store_at(std::string directory, std::string below = "") {
  return {std::move(directory), std::move(below), process_policy(process_environment()), real_file_system()};
}

/// A folder that the user named: made where results go into it, and else there already.
llvm::Expected<TuningStore> named_store(llvm::StringRef directory, bool make) {
  llvm::SmallString<256> path = directory;
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  if (!make && !llvm::sys::fs::is_directory(path)) return bad_input("'{0}' is no folder", directory);
  return store_at(path.str().str());
}

llvm::Expected<TuningStore> open_store(const Arguments& arguments) {
  if (!arguments.tuning.empty()) return named_store(arguments.tuning, /*make=*/false);
  MINUET_ASSIGN(const std::string named, absolute_cache_folder(arguments.cache));
  MINUET_ASSIGN(std::string cache, as_user_error(choose_cache_directory(named, process_environment())));
  return store_at(std::move(cache), tuning_folder_of_cache());
}

struct Found {
  std::string environment;  // its hash
  TuningFolder folder;
};

/// Every environment whose hash starts with `prefix`.
llvm::Expected<std::vector<Found>> read_all(TuningStore& store, llvm::StringRef prefix = {}) {
  std::vector<Found> all;
  MINUET_ASSIGN(const std::vector<std::string> environments, as_user_error(store.environments()));
  for (const std::string& environment : environments) {
    if (llvm::StringRef(environment).take_front(prefix.size()) != prefix) continue;
    MINUET_ASSIGN(TuningFolder folder, as_user_error(store.load(environment)));
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
  return text + (measurement.is_default ? " (default)" : "") + (measurement.migrated ? " (migrated)" : "");
}

void print_skipped(const TuningFolder& folder) {
  for (const std::string& reason : folder.skipped) llvm::errs() << "minuet: not used: " << reason << "\n";
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
  return bad_input("no result's bucket starts with '{0}' (minuet tune list shows them)", prefix);
}

/// Puts these, of one environment, into the store, together with what is there already.
llvm::Error add(TuningStore& store, llvm::ArrayRef<TuningEntry> entries) {
  return as_user_error(store.publish_joined(entries, merge_entries));
}

llvm::Error merge_results(const Arguments& arguments) {
  MINUET_ASSIGN(TuningStore from, named_store(arguments.from, /*make=*/false));
  MINUET_ASSIGN(const std::vector<Found> all, read_all(from));
  std::size_t count = 0;
  for (const Found& found : all) {
    print_skipped(found.folder);
    count += found.folder.entries.size();
  }
  if (count == 0)
    return bad_input("'{0}' has no tuning results{1}", arguments.from,
                     all.empty() ? "" : " that can be read");
  MINUET_ASSIGN(TuningStore into, named_store(arguments.into, /*make=*/true));
  for (const Found& found : all) {
    MINUET_TRY(add(into, found.folder.entries));
  }
  llvm::outs() << llvm::formatv("{0} entries merged into {1}\n", count, arguments.into);
  return llvm::Error::success();
}

llvm::Error migrate_results(const Arguments& arguments) {
  const std::string& prefix = arguments.from_environment;
  MINUET_ASSIGN(TuningStore store, open_store(arguments));
  MINUET_ASSIGN(const std::vector<Found> all, read_all(store, prefix));
  if (all.size() != 1) {
    return bad_input("{0} environments start with '{1}' (minuet tune list shows them)", all.size(), prefix);
  }
  const TuningFolder& folder = all.front().folder;
  print_skipped(folder);
  MINUET_ASSIGN(const minuet_system_info system, query_system());
  std::vector<TuningEntry> all_migrated;
  for (const TuningEntry& entry : folder.entries) {
    TuningEnvironment target = as_of_this_build(entry.environment);
    if (*system.nvrtc) target.toolkit = system.nvrtc;
    if (target == entry.environment) {
      return bad_input("these results are of this version already: there is nothing to migrate");
    }
    std::optional<TuningEntry> migrated = migrate_entry(entry, target);
    if (migrated) all_migrated.push_back(std::move(*migrated));
  }
  MINUET_TRY(add(store, all_migrated));
  llvm::outs() << llvm::formatv("{0} of {1} entries migrated: measure them again\n", all_migrated.size(),
                                folder.entries.size());
  return llvm::Error::success();
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
    add_value(action, "--directory", arguments.tuning, "DIR", "folder of results; default: the cache's");
    add_cache(action, arguments)
        ->description("kernel cache folder that has them, where there is no --directory");
  };
  add_tune_run(add("run", "Measure what is fastest for a network on these clouds", tune_run), arguments);
  add_tune_network(add("show", "Say what was chosen for each layer, and by how much it won", tune_show),
                   arguments);
  CLI::App& list = add("list", "List environments and their entries, best configuration first", list_results);
  list.add_flag("--json", arguments.to_json, "the entries as one JSON array, as a bundle holds them");
  add_directory(list);
  CLI::App& inspect = add("inspect", "Print the entry of a bucket", inspect_result);
  inspect.add_option("ENTRY", arguments.key, "first digits of the bucket's hash")->required();
  add_directory(inspect);
  CLI::App& merge = add("merge", "Add the results of one folder to those of another", merge_results);
  merge.add_option("FROM", arguments.from, "folder that is read")->required();
  merge.add_option("INTO", arguments.into, "folder that is written, made where it is not there")->required();
  CLI::App& migrate = add("migrate", "Copy results of another version to this one's folder", migrate_results);
  add_value(migrate, "--from-env", arguments.from_environment, "HASH",
            "first digits of the environment's hash")
      ->required();
  add_directory(migrate);
}

}  // namespace minuet::tool
