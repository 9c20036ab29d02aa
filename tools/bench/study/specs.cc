// Compares the fused kernel's default Specs (its compile-time parameters) with the best that the tuner finds.
#include <algorithm>

#include "tools/bench/study/shells.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/commands/tune_run.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// The summary counts the decisions of the tuner in which the default Spec takes longer than the best one by
/// more than this percentage.
constexpr double kMuch = 10;

/// Holds the tuner's result for one kind of layer, in one range of numbers of rows and of pairs per row.
struct FoundSpec {
  std::string layer, density, chosen, otherwise;
  int64_t least_rows, most_rows, chosen_ns, default_ns;
  int64_t more = 0;  ///< Counts the further layers with this result.
  /// Returns by how many percent the default Spec takes longer than the chosen one.
  double lost() const { return 100 * (static_cast<double>(default_ns) / static_cast<double>(chosen_ns) - 1); }
  std::string layers() const { return more == 0 ? layer : layer + " and " + counted(more, "further layer"); }
  /// Returns true if `other` has the same result. It may be the result of another layer.
  bool is_of(const FoundSpec& other) const {
    return least_rows == other.least_rows && density == other.density && chosen == other.chosen &&
           otherwise == other.otherwise && chosen_ns == other.chosen_ns && default_ns == other.default_ns;
  }
};

void on_choice(const minuet_tuned_choice* choice, void* user) {
  if (choice->operation != llvm::StringRef("fused")) return;
  auto& found = *static_cast<std::vector<FoundSpec>*>(user);
  FoundSpec spec{choice->layer,      density_text(*choice), choice->chosen,    choice->otherwise,
                 choice->least_rows, choice->most_rows,     choice->chosen_ns, choice->default_ns};
  const auto same =
      std::find_if(found.begin(), found.end(), [&](const auto& other) { return spec.is_of(other); });
  if (same == found.end()) {
    found.push_back(std::move(spec));
  } else {
    ++same->more;
  }
}

struct TunedCase {
  minuet_tuning_result result = {};
  std::vector<FoundSpec> specs;
};

/// Tunes one network, stores the results in a temporary folder, and reads them from there. Later measurements
/// do not use these results.
llvm::Expected<TunedCase> tune_case(StudyBench& bench, const std::string& network,
                                    const std::vector<const StudyCloud*>& clouds, double budget) {
  const NetworkCase wanted{network, bench.dtype(), MINUET_DATAFLOW_FUSED};
  MINUET_ASSIGN(const StudyFolder folder, StudyFolder::create());
  TuneClouds uploaded;
  for (const StudyCloud* cloud : clouds) MINUET_TRY(uploaded.add(cloud->variants.front(), bench.device()));
  minuet_tuning_options options = MINUET_TUNING_OPTIONS_INIT;
  options.clouds = uploaded.clouds.data();
  options.cloud_count = static_cast<int32_t>(uploaded.clouds.size());
  options.repeats = bench.by_size(3, 0, 0);
  options.budget_seconds = budget;
  options.directory = folder.path().c_str();
  TunedCase tuned;
  tuned.result.struct_size = sizeof(tuned.result);
  MINUET_ASSIGN(const PlanHandle plan, bench.create_plan(wanted));
  // The kernels of the default configuration are compiled before minuet_tune(), which would count this time
  // against the budget.
  MINUET_TRY(check(minuet_plan_compile(plan.get(), bench.facts().arch.c_str(), nullptr, nullptr)));
  MINUET_TRY(check(minuet_tune(bench.context(), plan.get(), bench.device(), &options, &tuned.result)));
  MINUET_TRY(
      check(minuet_context_load_tuning(bench.context(), bench.device(), folder.path().c_str(), nullptr)));
  MINUET_ASSIGN(const PlanHandle by_results, bench.create_plan(wanted));
  MINUET_TRY(check(minuet_plan_visit_tuning(by_results.get(), on_choice, &tuned.specs)));
  MINUET_TRY(bench.force({}));
  return tuned;
}

llvm::json::Value text_or_null(const std::string& text) {
  return text.empty() ? llvm::json::Value(nullptr) : llvm::json::Value(text);
}

class SpecsStudy {
 public:
  SpecsStudy(StudyBench& bench, StudyDocument& document, size_t cases)
      : bench_(bench), document_(document), steps_(bench, cases) {}

  llvm::Error add(const std::string& name, const std::string& network,
                  const std::vector<const StudyCloud*>& clouds, double budget) {
    MINUET_ASSIGN(const TunedCase tuned, tune_case(bench_, network, clouds, budget));
    llvm::json::Array rows;
    int64_t much = 0;
    double most = 0;
    for (const FoundSpec& spec : tuned.specs) {
      much += spec.lost() > kMuch ? 1 : 0;
      most = std::max(most, spec.lost());
      rows.push_back(llvm::json::Array{spec.layers(), spec.least_rows, spec.most_rows, spec.density,
                                       static_cast<double>(spec.default_ns) * 1e-6,
                                       static_cast<double>(spec.chosen_ns) * 1e-6, spec.lost(),
                                       text_or_null(differences(spec.otherwise, spec.chosen)),
                                       text_or_null(differences(spec.chosen, spec.otherwise))});
    }
    document_.add_table(name,
                        {"layer", "least rows", "most rows", "pairs per row", "default, ms", "best, ms",
                         "loss, %", "differing fields of the default", "differing fields of the best"},
                        std::move(rows));
    const minuet_tuning_result& result = tuned.result;
    const bool compared = result.tuned_ms > 0;
    cases_.push_back(llvm::json::Array{name, static_cast<int64_t>(tuned.specs.size()), much, most,
                                       compared ? llvm::json::Value(result.untuned_ms) : nullptr,
                                       compared ? llvm::json::Value(result.tuned_ms) : nullptr, result.tried,
                                       result.skipped, result.seconds});
    steps_.count();
    return llvm::Error::success();
  }

  void finish() && {
    document_.add_table("All cases",
                        {"case", "decisions", "decisions with a loss above 10 %", "largest loss, %",
                         "whole network by default, ms", "whole network tuned, ms", "candidates tried",
                         "candidates that do not run", "seconds"},
                        std::move(cases_));
  }

 private:
  StudyBench& bench_;
  StudyDocument& document_;
  StudySteps steps_;
  llvm::json::Array cases_;
};

}  // namespace

llvm::Error study_specs(StudyBench& bench, StudyDocument& document) {
  document.note("The paper has no fused kernel, so it has no figures to compare with.");
  if (bench.facts().is_cpu()) {
    document.note("The fused kernel has nothing to tune on the CPU device, so nothing is measured.");
    return llvm::Error::success();
  }
  document.note(
      "For each case, minuet_tune runs with only the fused dataflow: it tunes the configurations of the "
      "fused kernel, then the search of sorted maps and the order of rows. The whole network is timed on all "
      "clouds of the case, by default and with everything that was tuned.");
  document.note(
      "Each line of a table is a decision of the tuner for one kind of layer, with numbers of rows and of "
      "pairs per row in the given ranges (the upper bound of pairs per row is excluded). Its times are sums "
      "over all such layers of the case, inside runs of the whole network.");
  document.note(
      "The loss is the percentage by which the default configuration takes longer than the best one. It is 0 "
      "if no candidate that was tried within the time limit beat the default, in two measurements, by more "
      "than the spread of their difference. The best is the fastest of many candidates, so part of the loss "
      "may be noise.");
  const std::vector<ShellLayer> shells = shell_layers(bench);
  const std::vector<const char*> networks =
      bench.by_size(std::vector<const char*>{}, {"minkunet42"}, {"minkunet42", "sparseresnet21d"});
  SpecsStudy study(bench, document, networks.size() + shells.size());
  if (!networks.empty()) {
    MINUET_ASSIGN(std::vector<const StudyCloud*> clouds, bench.clouds_named({"os1_0.1", "office_0.01"}));
    std::vector<StudyCloud> random;
    for (const int64_t voxels : bench.by_size(std::vector<int64_t>{}, {}, {100000, 1000000}))
      random.push_back(bench.random_cloud(voxels, 400));
    for (const StudyCloud& cloud : random) clouds.push_back(&cloud);
    std::string names;
    for (const StudyCloud* cloud : clouds) names += ", " + cloud->name;
    for (const char* network : networks)
      MINUET_TRY(study.add(network + names, network, clouds, bench.by_size(1, 5, 120)));
  }
  for (const auto& [resolution, channels] : shells) {
    const StudyCloud cloud = bench.shell_cloud(resolution);
    MINUET_TRY(study.add(llvm::formatv("{0}, {1} > {1}", cloud.name, channels).str(),
                         one_layer(channels, channels), {&cloud}, bench.by_size(2, 3, 45)));
  }
  std::move(study).finish();
  return llvm::Error::success();
}

}  // namespace minuet::tool
