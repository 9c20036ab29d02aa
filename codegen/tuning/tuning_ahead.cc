#include "codegen/tuning/tuning_ahead.h"

#include "codegen/arch.h"
#include "codegen/tuning/tuning_store.h"
#include "llvm/Support/FileSystem.h"

namespace minuet {
namespace {

/// 90 of "9.0", 120 of "12.0".
int number_of(llvm::StringRef compute_capability) {
  const auto [major, minor] = compute_capability.split('.');
  return sm_number(("sm_" + major + minor).str());
}

}  // namespace

llvm::Expected<ArchTuning> read_tuning_for(const std::string& directory,
                                           const std::vector<std::string>& archs, const std::string& toolkit,
                                           const std::function<void(const std::string&)>& warn) {
  llvm::SmallString<256> path(directory);
  llvm::sys::fs::make_absolute(path);
  if (!llvm::sys::fs::is_directory(path)) {
    return make_error(StatusCode::InvalidArgument, "'{0}' is no folder of tuning results", directory);
  }
  TuningStore store(path.str().str(), "", process_policy(process_environment()), real_file_system());
  ArchTuning tuning;
  MINUET_ASSIGN(const std::vector<std::string> environments, store.environments());
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(const TuningFolder folder, store.load(environment));
    for (const std::string& trouble : folder.skipped) warn("a tuning result is not used: " + trouble);
    for (const TuningEntry& entry : folder.entries) {
      TuningEnvironment ours = as_of_this_build(entry.environment);
      ours.toolkit = toolkit;
      if (entry.environment != ours) continue;
      const int number = number_of(ours.compute_capability);
      for (const std::string& arch : archs) {
        if (number != 0 && sm_number(arch) == number) tuning[arch].push_back(entry);
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
