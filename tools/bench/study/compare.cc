#include "tools/bench/study/compare.h"

#include <algorithm>

#include "codegen/choose/tuned_config.h"
#include "tools/bench/study/studies.h"
#include "tools/bench/study/tiles.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// According to the Minuet paper, a thread of earlier engines gathers or scatters this many channels.
constexpr int kFixedTile = 4;
constexpr int64_t kLargestKernel = 27;
constexpr const char* kSortedQueries = "+ sorted queries (SS)";

/// Returns the reasons why gains on this device may be smaller than those in the paper.
std::string smaller_gain(const StudyBench& bench) {
  return bench.facts().is_cpu() ? "a CPU has no tiles to tune and no launches to save, so grouping GEMMs "
                                  "only adds padding, and the hash table stays in the CPU's caches"
                                : "the baseline has none of the overheads of the engines that the paper "
                                  "compares with, and this is another GPU than the paper's: " +
                                      bench.cache_text();
}

void claim_speedup(const StudyBench& bench, StudyDocument& document, const std::string& paper,
                   const std::vector<double>& speedups, bool holds) {
  document.claim(paper, "the speedup over the hash-table baseline is " + speedups_text(speedups),
                 verdict(holds), holds ? "" : smaller_gain(bench));
}

}  // namespace

TuningConfigs ungrouped(minuet_dtype dtype) {
  GroupingChoice grouping;
  grouping.padding_threshold = 0;
  return {
      {grouping_bucket(static_cast<DType>(dtype), kLargestKernel, int64_t{1} << 30), config_of(grouping)}};
}

TuningConfigs baseline_configs(const NetworkSamples& shapes, minuet_dtype dtype) {
  TuningConfigs configs = fixed_tile(shapes, dtype, kFixedTile);
  configs.merge(ungrouped(dtype));
  return configs;
}

llvm::Expected<Comparison> compare_with_baseline(StudyBench& bench, const Baseline& baseline,
                                                 const std::string& network, const StudyCloud& cloud) {
  Comparison both;
  const NetworkCase wanted = paper_case(network, bench.dtype());
  MINUET_TRY(bench.force({}));
  MINUET_ASSIGN(both.paper, bench.time_network(wanted, cloud));
  MINUET_TRY(bench.force(baseline_configs(both.paper, bench.dtype())));
  MINUET_ASSIGN(both.baseline, bench.time_network(wanted, cloud));
  MINUET_TRY(bench.force({}));
  MINUET_ASSIGN(const LevelSets levels, make_levels(bench, cloud, both.paper));
  MINUET_ASSIGN(both.maps, time_map_step(bench, baseline, cloud, levels));
  return both;
}

std::string baseline_note(const StudyBench& bench) {
  return std::string(
             "The baseline uses an open-addressing hash table for each level of coordinates (64-bit keys, at "
             "most half full, linear probing) and GEMMs that are not grouped (only offsets with the same "
             "number of pairs share a GEMM)") +
         (bench.facts().is_cpu()
              ? ""
              : ", and it gathers and scatters four channels per thread (tile 4) in all layers") +
         ". The compared time is that of the Map step, " + clock_text(bench) +
         ", plus that of gather, GEMM and scatter in profiled runs. It does not include filling the tables "
         "of gather and scatter or the work on input and output rows, which take equally long with both "
         "methods. The baseline's time does not include the computation of the coordinates of coarser "
         "levels. "
         "The paper's method uses the default tiles unless a study says otherwise. " +
         library_maps_text(bench);
}

// The following studies compare the paper's method with the baseline on whole networks.

llvm::Error study_end_to_end(StudyBench& bench, StudyDocument& document) {
  document.note(baseline_note(bench));
  MINUET_ASSIGN(const std::unique_ptr<Baseline> baseline, Baseline::create(bench));
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  StudyPlot whole("Whole inferences", "bar", axis(""), axis("ms"));
  StudyPlot gain("Speedup of the paper's method over the baseline", "bar", axis(""), axis("times"));
  std::vector<double> speedups;
  StudySteps steps(bench, 2 * scenes->size());
  for (const char* network : {"minkunet42", "sparseresnet21d"}) {
    for (const StudyCloud& cloud : *scenes) {
      const std::string name = network + (", " + cloud.name);
      MINUET_ASSIGN(const Comparison both, compare_with_baseline(bench, *baseline, network, cloud));
      MINUET_ASSIGN(const NetworkSamples usual, bench.time_network({network, bench.dtype()}, cloud));
      whole.add("default settings", name, usual.wall);
      whole.add("the paper's method", name, both.paper.wall);
      gain.add_value("paper's method", name, both.speedup());
      gain.add_value("default settings, whole inference", name, both.baseline_ms() / median(usual.wall));
      speedups.push_back(both.speedup());
      steps.count();
    }
  }
  document.add(std::move(whole));
  document.add(std::move(gain));
  claim_speedup(bench, document,
                "the speedup over MinkowskiEngine and TorchSparse is 1.74 x on average (1.33 x to 2.22 x), "
                "and 1.72 x on an A100",
                speedups, geometric_mean(speedups) > 1);
  return llvm::Error::success();
}

llvm::Error study_density(StudyBench& bench, StudyDocument& document) {
  document.note(baseline_note(bench));
  MINUET_ASSIGN(const std::unique_ptr<Baseline> baseline, Baseline::create(bench));
  const std::vector<int64_t> counts = bench.by_size(std::vector<int64_t>{200, 600}, {500, 1500, 5000},
                                                    {10000, 30000, 100000, 300000, 1000000});
  // The cube that holds the voxels has edges of this length, so that the largest cloud here is as dense as
  // the densest one in the paper.
  const int32_t edge = bench.by_size(34, 68, 400);
  StudyPlot time("MinkUNet42: time of Map, gather, GEMM and scatter", "line", axis("voxels", true),
                 axis("ms", true));
  StudyPlot gain("Speedup", "line", axis("voxels", true), axis("times"));
  std::vector<double> speedups;
  StudySteps steps(bench, counts.size());
  for (const int64_t count : counts) {
    const StudyCloud cloud = bench.random_cloud(count, edge);
    MINUET_ASSIGN(const Comparison both, compare_with_baseline(bench, *baseline, "minkunet42", cloud));
    time.add_value("baseline", count, both.baseline_ms());
    time.add_value("the paper's method", count, both.paper_ms());
    gain.add_value("the paper's method", count, both.speedup());
    speedups.push_back(both.speedup());
    steps.count();
  }
  document.note(
      llvm::formatv("The voxels are random and uniformly distributed in a cube with edges of {0} voxels.",
                    edge)
          .str());
  document.add(std::move(time));
  document.add(std::move(gain));
  claim_speedup(bench, document,
                "the speedup is 1.68 x on average (up to 1.90 x), and above 1 at every density from 1e4 to "
                "1e6 points in 400^3 voxels",
                speedups, *std::min_element(speedups.begin(), speedups.end()) > 1);
  return llvm::Error::success();
}

// The following study switches on the paper's four ideas one after another: tuned tiles, grouping of GEMMs by
// size, sorted queries, and the double-traversed search.

namespace {

struct Idea {
  std::string name;
  double map_ms, gmas_ms;
  double whole() const { return map_ms + gmas_ms; }
};

/// Returns the times with the baseline, with each further idea of the paper, and last with the library's
/// index instead of the sorted queries and the search.
llvm::Expected<std::vector<Idea>> switch_on(StudyBench& bench, const Baseline& baseline,
                                            const StudyCloud& cloud) {
  MINUET_ASSIGN(const Comparison both, compare_with_baseline(bench, baseline, "minkunet42", cloud));
  const NetworkCase wanted = paper_case("minkunet42", bench.dtype());
  const double hash = both.maps.hash_ms();
  std::vector<Idea> ideas{
      {bench.facts().is_cpu() ? "hash table, GEMMs not grouped" : "hash table, tile 4, GEMMs not grouped",
       hash, median(both.baseline.gmas)}};
  TuningConfigs configs;
  if (!bench.facts().is_cpu()) {
    MINUET_ASSIGN(const std::vector<TileTimes> tiles, time_tiles(bench, "minkunet42", cloud));
    configs = best_tiles(both.paper, bench.dtype(), tiles);
    TuningConfigs plain = ungrouped(bench.dtype());
    plain.insert(configs.begin(), configs.end());
    MINUET_TRY(bench.force(plain));
    MINUET_ASSIGN(const NetworkSamples tuned, bench.time_network(wanted, cloud));
    ideas.push_back({"+ tuned tiles (AT)", hash, median(tuned.gmas)});
  }
  MINUET_TRY(bench.force(configs));
  MINUET_ASSIGN(const NetworkSamples grouped, bench.time_network(wanted, cloud));
  MINUET_TRY(bench.force({}));
  const double gmas = median(grouped.gmas);
  ideas.push_back({"+ grouping by size (PG)", hash, gmas});
  ideas.push_back({kSortedQueries, both.maps.binary_ms(), gmas});
  ideas.push_back({"+ double-traversed search (DTBS)", both.maps.sorted_ms(), gmas});
  ideas.push_back({"index instead of sort and search", both.maps.indexed_ms(), gmas});
  return ideas;
}

}  // namespace

llvm::Error study_breakdown(StudyBench& bench, StudyDocument& document) {
  document.note(baseline_note(bench));
  document.note(
      "The network is MinkUNet42. With sorted queries alone (SS), each query searches all sorted sources by "
      "plain binary search; the time includes the library's sort of the coordinates. The last bar is not of "
      "the paper: it has the library's index of voxels in place of sort and search.");
  if (bench.facts().is_cpu())
    document.note("The CPU device has no tiles, so the step with tuned tiles (AT) is left out.");
  MINUET_ASSIGN(const std::unique_ptr<Baseline> baseline, Baseline::create(bench));
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  const size_t count = std::min(scenes->size(), bench.by_size<size_t>(1, 1, 2));
  StudySteps steps(bench, count);
  for (size_t i = 0; i < count; ++i) {
    const StudyCloud& cloud = (*scenes)[i];
    MINUET_ASSIGN(std::vector<Idea> ideas, switch_on(bench, *baseline, cloud));
    StudyPlot plot(cloud.name, "stacked", axis(""), axis("ms"));
    std::string here = cloud.name + ":";
    bool each_helps = true;
    size_t most = 1;
    for (const Idea& idea : ideas) {
      plot.add_value("Map", idea.name, idea.map_ms);
      plot.add_value("gather, GEMM, scatter", idea.name, idea.gmas_ms);
    }
    ideas.pop_back();  // The claim is about the paper's ideas, and not about the index.
    for (size_t idea = 1; idea < ideas.size(); ++idea) {
      const auto factor = [&](size_t at) { return ideas[at - 1].whole() / ideas[at].whole(); };
      here += " " + ideas[idea].name + " " + times_text(factor(idea)) + ";";
      each_helps = each_helps && factor(idea) > 1;
      if (factor(idea) > factor(most)) most = idea;
    }
    here += llvm::formatv(" the speedup of all ideas together is {0}",
                          times_text(ideas.front().whole() / ideas.back().whole()));
    document.add(std::move(plot));
    const bool holds = each_helps && ideas[most].name == kSortedQueries;
    document.claim("each of the paper's four ideas gives a speedup, and sorted queries give the largest one",
                   here, verdict(holds), holds ? "" : smaller_gain(bench));
    steps.count();
  }
  return llvm::Error::success();
}

// The following studies compare the paper's method with the baseline on single layers.

namespace {

using Widths = std::pair<int32_t, int32_t>;

std::vector<Widths> common_widths(const StudyBench& bench) {
  return bench.by_size(
      std::vector<Widths>{{4, 8}, {8, 8}}, {{4, 16}, {16, 16}, {32, 32}, {64, 64}, {128, 128}},
      {{4, 16}, {16, 16}, {16, 32}, {32, 32}, {32, 64}, {64, 64}, {96, 96}, {128, 128}, {256, 256}});
}

/// Compares the paper's method and the fused dataflow with the baseline, on single layers with common numbers
/// of channels, and averages over the scenes.
llvm::Error compare_layers(StudyBench& bench, StudyDocument& document, bool with_map, std::string paper) {
  document.note(baseline_note(bench));
  document.note(
      "The network is one submanifold layer of kernel size 3. Speedups are geometric means over the scenes.");
  if (with_map)
    document.note(
        "The time of the fused dataflow is that of a run with the library's default maps, which an index of "
        "voxels makes; its Map step includes the orders of rows that the fused kernel reads.");
  MINUET_ASSIGN(const std::unique_ptr<Baseline> baseline, Baseline::create(bench));
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  StudyPlot gain("Speedup over the baseline", "bar", axis(""), axis("times"));
  StudyPlot time((*scenes)[0].name, "bar", axis(""), axis("ms"));
  std::vector<double> all;
  const std::vector<Widths> widths = common_widths(bench);
  StudySteps steps(bench, widths.size());
  for (const auto& [in, out] : widths) {
    const std::string name = llvm::formatv("{0} > {1}", in, out).str();
    std::vector<double> speedups, fused_speedups;
    for (const StudyCloud& cloud : *scenes) {
      MINUET_ASSIGN(const Comparison both,
                    compare_with_baseline(bench, *baseline, one_layer(in, out), cloud));
      NetworkCase fused_case{one_layer(in, out), bench.dtype(), MINUET_DATAFLOW_FUSED};
      MINUET_ASSIGN(const NetworkSamples fused, bench.time_network(fused_case, cloud));
      const double ours = with_map ? both.paper_ms() : median(both.paper.gmas),
                   theirs = with_map ? both.baseline_ms() : median(both.baseline.gmas),
                   fused_ms = (with_map ? median(fused.sort_map) : 0) + median(fused.gmas);
      speedups.push_back(theirs / ours);
      fused_speedups.push_back(theirs / fused_ms);
      if (&cloud != &scenes->front()) continue;
      time.add_value("baseline", name, theirs);
      time.add_value("the paper's method", name, ours);
      time.add_value("fused", name, fused_ms);
    }
    gain.add_value("the paper's method", name, geometric_mean(speedups));
    gain.add_value("fused", name, geometric_mean(fused_speedups));
    all.push_back(geometric_mean(speedups));
    steps.count();
  }
  document.add(std::move(gain));
  document.add(std::move(time));
  claim_speedup(bench, document, paper, all, geometric_mean(all) > 1);
  return llvm::Error::success();
}

}  // namespace

llvm::Error study_layers(StudyBench& bench, StudyDocument& document) {
  return compare_layers(bench, document, /*with_map=*/true,
                        "the speedup is 1.64 x on average (up to 2.16 x) over MinkowskiEngine, and 1.67 x "
                        "(up to 2.10 x) over TorchSparse");
}

llvm::Error study_gmas(StudyBench& bench, StudyDocument& document) {
  return compare_layers(bench, document, /*with_map=*/false,
                        "the speedup of gather, GEMM and scatter is 1.40 x on average (0.83 x to 2.38 x) "
                        "over MinkowskiEngine, and 1.37 x (1.22 x to 1.59 x) over TorchSparse");
}

}  // namespace minuet::tool
