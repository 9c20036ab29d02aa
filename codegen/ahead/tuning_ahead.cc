#include "codegen/ahead/tuning_ahead.h"

#include <algorithm>
#include <utility>

#include "codegen/base/arch.h"
#include "codegen/choose/tuned_config.h"
#include "codegen/source/emit.h"
#include "codegen/tuning/tuned_kernels.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {

[[gnu::cold]] llvm::Expected<ArchTuning> read_tuning_for(
    TuningStore& store, const std::vector<std::string>& archs, const std::string& toolkit,
    bool weight_gradients, const std::function<void(const std::string&)>& warn) {
  ArchTuning tuning;
  MINUET_ASSIGN(const std::vector<std::string> environments, store.environments());
  for (const std::string& environment : environments) {
    MINUET_ASSIGN(const TuningFolder folder, store.load(environment));
    warn_of_skipped(folder, warn);
    for (const TuningEntry& entry : folder.entries) {
      if (entry.environment.toolkit != toolkit || !is_of_this_build(entry)) continue;
      if (entry.bucket.operation == Operation::WeightGradient && !weight_gradients) continue;
      for (const std::string& arch : archs) {
        if (capability(arch) == capability_number(entry.environment.compute_capability)) {
          tuning[arch].push_back(entry);
        }
      }
    }
  }
  std::string without;
  for (const std::string& arch : archs) {
    if (tuning.count(arch) == 0) without += (without.empty() ? "" : ", ") + arch;
  }
  if (without.empty()) return tuning;
  const std::string nothing =
      llvm::formatv(
          "there are no tuning results for {0} with this version's kernels and toolkit {1}: measure them "
          "with `minuet tune run`",
          without, toolkit)
          .str();
  if (tuning.empty()) return make_error(StatusCode::NotFound, "{0}", nothing);
  warn(nothing);
  return tuning;
}

[[gnu::cold]] std::vector<KernelRequest> weight_gradient_requests(const std::vector<TuningEntry>& results,
                                                                  llvm::StringRef arch) {
  SourceList list;
  for (const TuningEnvironment* const gpu : environments_of(results)) {
    for (const TuningLayer& layer : TuningSnapshot(*gpu, {{"", results}}).layers()) {
      for (const TuningEntry& entry : layer.entries) {
        WeightGradientCandidate candidate;
        if (entry.bucket.operation != Operation::WeightGradient) continue;
        llvm::cantFail(read_gradient_config(entry.bucket, entry.measurements.front().config, candidate.spec));
        if (candidate.runs_on(arch)) std::visit([&](const auto& spec) { list.add(spec); }, candidate.spec);
      }
    }
  }
  return requests_of(list.take(), arch);
}

[[gnu::cold]] llvm::Expected<std::string> join_tuning(llvm::StringRef section,
                                                      const std::vector<TuningEntry>& entries) {
  if (entries.empty()) return section.str();
  if (section.empty()) return write_tuning(entries);
  std::vector<std::string> skipped;
  llvm::Expected<std::vector<TuningEntry>> there = read_tuning(section, &skipped);
  if (!there || !skipped.empty()) {
    const std::string why = there ? skipped.front() : take_status(there.takeError()).message();
    return make_error(StatusCode::FailedPrecondition,
                      "the bundle has tuning results that this version cannot read ({0}): write to another "
                      "folder, or remove the bundle",
                      why);
  }
  for (const TuningEntry& entry : entries) {
    const auto old = std::find_if(there->begin(), there->end(), [&](const TuningEntry& other) {
      return other.environment == entry.environment && other.bucket == entry.bucket;
    });
    if (old == there->end()) {
      there->push_back(entry);
    } else {
      *old = entry;
    }
  }
  return write_tuning(*there);
}

}  // namespace minuet
