#include "codegen/tuning/tuning_ahead.h"

#include <algorithm>
#include <utility>

#include "codegen/arch.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

/// 90 of "9.0", 120 of "12.0"; 0 of the CPU's, which is no architecture's.
int number_of(llvm::StringRef compute_capability) {
  const auto [major, minor] = compute_capability.split('.');
  return major.empty() ? 0 : capability(("sm_" + major + minor).str());
}

}  // namespace

llvm::Expected<ArchTuning> read_tuning_for(TuningStore& store, const std::vector<std::string>& archs,
                                           const std::string& toolkit,
                                           const std::function<void(const std::string&)>& warn) {
  ArchTuning tuning;
  MINUET_ASSIGN(const std::vector<std::string> environments, store.environments());
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(const TuningFolder folder, store.load(environment));
    for (const std::string& trouble : folder.skipped) warn("a tuning result is not used: " + trouble);
    for (const TuningEntry& entry : folder.entries) {
      TuningEnvironment ours = as_of_this_build(entry.environment);
      ours.toolkit = toolkit;
      if (entry.environment != ours) continue;
      for (const std::string& arch : archs) {
        if (capability(arch) == number_of(ours.compute_capability)) tuning[arch].push_back(entry);
      }
    }
  }
  std::vector<std::string> without;
  for (const std::string& arch : archs) {
    if (tuning.count(arch) == 0) without.push_back(arch);
  }
  const std::string nothing = "no tuning results of this version and of toolkit " + toolkit + " are for " +
                              llvm::join(without, ", ") +
                              ": `minuet tune run` measures, `minuet tune migrate` brings another version's";
  if (tuning.empty()) return make_error(StatusCode::NotFound, "{0}", nothing);
  if (!without.empty()) warn(nothing);
  return tuning;
}

std::vector<TuningEnvironment> environments_of(const std::vector<TuningEntry>& entries) {
  std::vector<TuningEnvironment> environments;
  for (const TuningEntry& entry : entries) {
    const bool known =
        std::find(environments.begin(), environments.end(), entry.environment) != environments.end();
    if (!known) environments.push_back(entry.environment);
  }
  return environments;
}

std::string join_tuning(llvm::StringRef section, const std::vector<TuningEntry>& entries) {
  std::vector<TuningEntry> all = entries;
  llvm::Expected<std::vector<TuningEntry>> there = read_tuning(section);
  if (!there) {
    llvm::consumeError(there.takeError());  // there was none, or none that anyone could use
    return write_tuning(all);
  }
  for (TuningEntry& old : *there) {
    const bool is_replaced = std::any_of(entries.begin(), entries.end(), [&](const TuningEntry& entry) {
      return entry.environment == old.environment && entry.bucket == old.bucket;
    });
    if (!is_replaced) all.push_back(std::move(old));
  }
  return write_tuning(all);
}

}  // namespace minuet
