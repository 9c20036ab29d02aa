#include "codegen/tuning/tuning_ahead.h"

#include <algorithm>

#include "codegen/arch.h"
#include "codegen/tuning/tuning_store.h"
#include "llvm/Support/FileSystem.h"

namespace minuet {
namespace {

/// Whether GPUs of "9.0" run code of `arch`.
bool runs(llvm::StringRef compute_capability, const std::string& arch) {
  const auto [major, minor] = compute_capability.split('.');
  const std::vector<std::string> archs = runnable_archs(("sm_" + major + minor + "a").str());
  return std::find(archs.begin(), archs.end(), arch) != archs.end();
}

}  // namespace

llvm::Expected<ArchTuning> read_tuning_for(const std::string& directory,
                                           const std::vector<std::string>& archs, const std::string& toolkit,
                                           const TrustPolicy& policy,
                                           const std::function<void(const std::string&)>& warn) {
  llvm::SmallString<256> path(directory);
  llvm::sys::fs::make_absolute(path);
  if (!llvm::sys::fs::is_directory(path)) {
    return make_error(StatusCode::InvalidArgument, "'{0}' is no folder of tuning results", directory);
  }
  TuningStore store(path.str().str(), "", policy, real_file_system());
  ArchTuning tuning;
  MINUET_ASSIGN(const std::vector<std::string> environments, store.environments());
  if (environments.empty()) {
    return make_error(
        StatusCode::InvalidArgument,
        "'{0}' has no tuning results in it: name what `minuet tune merge` wrote, or \"tune\" in a "
        "cache folder",
        directory);
  }
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(const TuningFolder folder, store.load(environment));
    for (const std::string& trouble : folder.skipped) warn("a tuning result is not used: " + trouble);
    for (const TuningEntry& entry : folder.entries) {
      TuningEnvironment ours = as_of_this_build(entry.environment);
      ours.toolkit = toolkit;
      if (entry.environment != ours) continue;
      for (const std::string& arch : archs) {
        if (runs(ours.compute_capability, arch)) tuning[arch].push_back(entry);
      }
    }
  }
  for (const std::string& arch : archs) {
    if (tuning[arch].empty()) {
      warn("'" + directory + "' has no tuning result of this version and toolkit for " + arch +
           " (minuet tune migrate brings those of another one)");
    }
  }
  return tuning;
}

std::string join_tuning(llvm::StringRef section, std::vector<TuningEntry> entries) {
  if (entries.empty()) return section.str();
  llvm::Expected<std::vector<TuningEntry>> there = read_tuning_section(section);
  if (there) {
    entries.insert(entries.end(), there->begin(), there->end());
  } else {
    llvm::consumeError(there.takeError());  // there was none, or none that anyone could use
  }
  return write_tuning_section(entries);
}

}  // namespace minuet
