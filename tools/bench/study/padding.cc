// Measures the padding and the number of GEMMs of the networks' layers (sections 5.2.2 and 6.5 of the paper).
#include <algorithm>
#include <iterator>

#include "codegen/base/number_text.h"
#include "codegen/choose/tuned_config.h"
#include "tools/bench/study/grouped_gemms.h"
#include "tools/bench/study/maps.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {

namespace {

constexpr double kThresholds[] = {0, 0.05, 0.1, 0.15, 0.25, 0.5, 1};
constexpr double kDefaultThreshold = 0.25;  // The library groups GEMMs with this threshold by default.

/// Sums, over many layers, the number of GEMMs and the padding, which is in percent of the useful rows.
struct PaddingSums {
  double percent = 0, gemms = 0;
  int64_t layers = 0;
  void add(const GroupedGemms& layer, bool has_direct) {
    percent +=
        layer.useful > 0 ? 100 * static_cast<double>(layer.padding) / static_cast<double>(layer.useful) : 0;
    gemms += static_cast<double>(layer.gemms + (has_direct ? 1 : 0));
    ++layers;
  }
  double mean_percent() const { return percent / static_cast<double>(layers); }
  double mean_gemms() const { return gemms / static_cast<double>(layers); }
  std::string text() const {
    return fixed_text(mean_percent(), 1) + " % padding and " + fixed_text(mean_gemms(), 2) +
           " GEMMs per layer";
  }
};

/// Holds the sums for each of kThresholds, with the offsets sorted by their numbers of pairs (`by_size`) and
/// in the order of the map (`in_order`). `rounded` and `rounded_in_order` use the library's default threshold
/// and round the GEMMs' heights up as the library does.
struct PaddingStudy {
  PaddingSums by_size[std::size(kThresholds)], in_order[std::size(kThresholds)], rounded, rounded_in_order;
  llvm::json::Array rows;
};

llvm::Error check_library(const LayerSamples& layer, const GroupedGemms& sorted, bool has_direct) {
  const int64_t gemms = sorted.gemms + (has_direct ? 1 : 0);
  if (sorted.padding == layer.info.padded_rows && gemms == layer.info.gemm_groups)
    return llvm::Error::success();
  return broken(llvm::formatv("{0}: the library reports {1} padding rows in {2} GEMMs, but the study "
                              "computes {3} padding rows in {4} GEMMs",
                              layer.name, layer.info.padded_rows, layer.info.gemm_groups, sorted.padding,
                              gemms)
                    .str());
}

llvm::Error add_network(StudyBench& bench, const std::string& network, const StudyCloud& cloud,
                        PaddingStudy& study) {
  MINUET_ASSIGN(const NetworkSamples shapes, bench.time_network(paper_case(network, bench.dtype()), cloud));
  MINUET_ASSIGN(const LevelSets levels, make_levels(bench, cloud, shapes));
  PaddingSums by_size, in_order;
  for (size_t i = 0; i < shapes.layers.size(); ++i) {
    const int map = levels.map_of_layer[i];
    if (map < 0) continue;
    const MapShape& shape = levels.maps[static_cast<size_t>(map)];
    MINUET_ASSIGN(std::vector<int64_t> pairs, pairs_by_offset(levels, shape));
    // If the centre offset of a submanifold layer is a separate GEMM that reads the features in place, the
    // offset is left out of the grouping.
    const bool has_direct =
        reads_center_in_place(/*onto_itself=*/shape.fine == shape.coarse, static_cast<DType>(bench.dtype()));
    if (has_direct) pairs[pairs.size() / 2] = 0;
    const GroupedGemms rounded = group_offsets(pairs, /*by_size=*/true, {});
    MINUET_TRY(check_library(shapes.layers[i], rounded, has_direct));
    study.rounded.add(rounded, has_direct);
    study.rounded_in_order.add(group_offsets(pairs, /*by_size=*/false, {}), has_direct);
    for (size_t t = 0; t < std::size(kThresholds); ++t) {
      const GroupingChoice choice{kThresholds[t], /*height_step=*/1};
      const GroupedGemms sorted = group_offsets(pairs, /*by_size=*/true, choice),
                         plain = group_offsets(pairs, /*by_size=*/false, choice);
      study.by_size[t].add(sorted, has_direct);
      study.in_order[t].add(plain, has_direct);
      if (kThresholds[t] != kDefaultThreshold) continue;
      by_size.add(sorted, has_direct);
      in_order.add(plain, has_direct);
    }
  }
  study.rows.push_back(llvm::json::Array{network, cloud.name, by_size.layers, by_size.mean_percent(),
                                         in_order.mean_percent(), by_size.mean_gemms(),
                                         in_order.mean_gemms()});
  return llvm::Error::success();
}

/// Records the paper's claim that grouping in order of size is better than grouping in map order. The claim
/// holds if, at some threshold, order of size gives fewer GEMMs and no more padding than map order gives at
/// the default threshold.
void claim_padding(const PaddingStudy& study, StudyDocument& document) {
  StudyPlot plot("Padding and GEMMs by padding threshold, without rounding of the GEMM heights", "line",
                 axis("GEMMs per layer"), axis("padding, % of the useful rows"));
  size_t usual = 0;
  for (size_t t = 0; t < std::size(kThresholds); ++t) {
    if (kThresholds[t] == kDefaultThreshold) usual = t;
    plot.add_value("grouped by size", study.by_size[t].mean_gemms(), study.by_size[t].mean_percent());
    plot.add_value("grouped in map order", study.in_order[t].mean_gemms(), study.in_order[t].mean_percent());
  }
  document.add(std::move(plot));
  const PaddingSums& plain = study.in_order[usual];
  std::string here =
      "grouping in map order gives " + plain.text() + " at the threshold of 25 %; grouping by size gives";
  bool holds = false;
  for (size_t t = std::size(kThresholds); t-- > 0 && !holds;) {
    const PaddingSums& sorted = study.by_size[t];
    holds = sorted.mean_percent() <= plain.mean_percent() && sorted.mean_gemms() < plain.mean_gemms();
    if (holds) here += " " + sorted.text() + " at " + fixed_text(100 * kThresholds[t], 0) + " %";
  }
  if (!holds) here += " " + study.by_size[usual].text() + " at the same threshold";
  here +=
      "; with the heights of the GEMMs rounded up to 64 rows, as in the library, grouping by size gives " +
      study.rounded.text() + ", and grouping in map order gives " + study.rounded_in_order.text();
  document.claim(
      "grouped in order of size, the GEMMs have 8.2 % padding and there are 7.76 per layer; grouped in map "
      "order, as in TorchSparse, they have 11 % padding and there are 11.1 per layer",
      here, verdict(holds),
      holds ? ""
            : "on these clouds, grouping by size at no measured threshold gives fewer GEMMs than map order "
              "without more padding");
}

/// Measures the time of gather, GEMM and scatter at several padding thresholds.
llvm::Error sweep_threshold(StudyBench& bench, StudyDocument& document, const StudyCloud& cloud) {
  StudyPlot plot("Gather, GEMM and scatter of MinkUNet42 by padding threshold, " + cloud.name, "line",
                 axis("largest padding of a group, % of its useful rows"), axis("ms"));
  for (const int percent : {0, 10, 25, 50, 100}) {
    GroupingChoice grouping;
    grouping.padding_threshold = percent / 100.0;
    TuningConfigs configs;
    configs[grouping_bucket(static_cast<DType>(bench.dtype()), 27, int64_t{1} << 30)] = config_of(grouping);
    MINUET_TRY(bench.force(configs));
    MINUET_ASSIGN(const NetworkSamples samples,
                  bench.time_network(paper_case("minkunet42", bench.dtype()), cloud));
    plot.add("offsets grouped by size", percent, samples.gmas);
  }
  document.add(std::move(plot));
  return bench.force({});
}

}  // namespace

llvm::Error study_padding(StudyBench& bench, StudyDocument& document) {
  document.note(
      "Where no other threshold is given, kernel offsets are grouped while a group's padding is at most a "
      "quarter of its useful rows. Grouping by size first sorts the offsets by their numbers of pairs, and "
      "grouping in map order does not. Layers with one offset are left out.");
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  PaddingStudy study;
  StudySteps steps(bench, 2 * scenes->size());
  for (const char* network : {"minkunet42", "sparseresnet21d"}) {
    for (const StudyCloud& cloud : *scenes) {
      MINUET_TRY(add_network(bench, network, cloud, study));
      steps.count();
    }
  }
  MINUET_TRY(sweep_threshold(bench, document, scenes->front()));
  document.add_table(
      "Average per layer",
      {"network", "cloud", "layers", "padding, grouped by size, %", "padding, grouped in map order, %",
       "GEMMs, grouped by size", "GEMMs, grouped in map order"},
      std::move(study.rows));
  claim_padding(study, document);
  return llvm::Error::success();
}

}  // namespace minuet::tool
