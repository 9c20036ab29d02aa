// Tuning entries of a file or a bundle: an array, of which those of others are left out. What is read has a
// default and is ranked, and is written and read again as the same.
#include <algorithm>

#include "codegen/choose/tuned_config.h"
#include "codegen/choose/tuning_entry.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

void check_entry(const TuningEntry& entry) {
  const std::vector<TuningMeasurement>& all = entry.measurements;
  require(std::any_of(all.begin(), all.end(), [](const TuningMeasurement& one) { return one.is_default; }));
  for (std::size_t i = 0; i < all.size(); ++i) {
    require(all[i].median_ns > 0);
    if (i > 0) require(all[i - 1].config != all[i].config && all[i - 1].median_ns <= all[i].median_ns);
    llvm::consumeError(validate_config(entry.bucket, all[i].config));  // any answer will do
  }
  require(merge_entries(entry, entry) == entry);
  TuningEnvironment elsewhere = entry.environment;
  elsewhere.toolkit += "1";
  require(environment_hash(elsewhere) != environment_hash(entry.environment));
}

}  // namespace

bool fuzz_tuning(llvm::StringRef input) {
  llvm::Expected<std::vector<TuningEntry>> entries = read_tuning(input);
  if (!entries) {
    llvm::consumeError(entries.takeError());
    return false;
  }
  for (const TuningEntry& entry : *entries) {
    check_entry(entry);
    require(llvm::cantFail(read_tuning(write_tuning({entry}))).front() == entry);
  }
  const std::string written = write_tuning(*entries);
  std::vector<TuningEntry> again = llvm::cantFail(read_tuning(written));
  require(again.size() <= entries->size() && again.empty() == entries->empty());
  require(write_tuning(again) == written);
  std::reverse(again.begin(), again.end());
  require(write_tuning(again) == written);
  return !entries->empty();
}

}  // namespace minuet
