#include "codegen/tuning/load_tuning.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "codegen/tuning/tuned_kernels.h"

namespace minuet {
namespace {

llvm::Expected<TuningFolder> load_user(const TuningEnvironment& environment, TuningStore& user) {
  if (!environment.toolkit.empty()) return user.load(environment_hash(environment));
  TuningFolder all;
  MINUET_ASSIGN(const std::vector<std::string> environments, user.environments());
  for (const std::string& hash : environments) {
    MINUET_ASSIGN(TuningFolder folder, user.load(hash));
    std::move(folder.entries.begin(), folder.entries.end(), std::back_inserter(all.entries));
    std::move(folder.skipped.begin(), folder.skipped.end(), std::back_inserter(all.skipped));
  }
  return all;
}

TuningLayer layer_of(const char* name, std::vector<TuningEntry> entries) {
  std::erase_if(entries, [](const TuningEntry& entry) { return !is_of_this_build(entry); });
  return {name, std::move(entries)};
}

}  // namespace

[[gnu::cold]] std::shared_ptr<const TuningSnapshot> load_tuning(
    const TuningEnvironment& environment, TuningStore* user, const std::vector<std::string>& bundles,
    const std::function<void(const std::string&)>& warn) {
  std::vector<TuningLayer> layers;
  if (user != nullptr) {
    llvm::Expected<TuningFolder> folder = load_user(environment, *user);
    if (folder) {
      warn_of_skipped(*folder, warn);
      layers.push_back(layer_of("user", std::move(folder->entries)));
    } else {
      warn("no tuning results are read: " + take_status(folder.takeError()).message());
    }
  }
  for (const std::string& bytes : bundles) {
    std::vector<std::string> skipped;
    llvm::Expected<std::vector<TuningEntry>> entries = read_tuning(bytes, &skipped);
    if (entries) {
      for (const std::string& trouble : skipped) warn("a tuning result of a bundle is not used: " + trouble);
      layers.push_back(layer_of("bundle", std::move(*entries)));
    } else {
      warn("the tuning results of a bundle are not used: " + take_status(entries.takeError()).message());
    }
  }
  return std::make_shared<const TuningSnapshot>(environment, layers);
}

}  // namespace minuet
