#include "tools/bench/study/tiles.h"

#include <algorithm>
#include <set>

#include "codegen/choose/tuned_config.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// If a tuning result for this number of rows is the only one for a kind of layer, it applies to layers with
/// any number of rows.
constexpr int64_t kAnyRowsOf = int64_t{1} << 30;

int fastest(const std::map<int, double>& times) {
  return std::min_element(times.begin(), times.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

TuningBucket tile_bucket(const LayerSamples& layer, minuet_dtype dtype, bool is_gather) {
  const auto type = static_cast<DType>(dtype);
  return is_gather ? gather_bucket(type, layer.info.in_channels, layer.volume(), kAnyRowsOf)
                   : scatter_bucket(type, layer.info.out_channels, layer.volume(), kAnyRowsOf);
}

/// Returns all tiles (numbers of channels per thread) up to `widest` that divide the input or output channels
/// of some layer.
std::set<int> tiles_of(const NetworkSamples& shapes, int widest) {
  std::set<int> tiles;
  for (const LayerSamples& layer : shapes.layers) {
    for (const int channels : {layer.info.in_channels, layer.info.out_channels}) {
      for (int tile = 1; tile <= std::min(channels, widest); ++tile) {
        if (channels % tile == 0) tiles.insert(tile);
      }
    }
  }
  return tiles;
}

/// Returns a text that lists the tiles that are the fastest in some layer, for gather and for scatter.
std::string spread_text(const std::set<int>& gather, const std::set<int>& scatter) {
  std::string text = "the best tiles of gather: ";
  for (const int tile : gather) text += std::to_string(tile) + " ";
  text += "; of scatter: ";
  for (const int tile : scatter) text += std::to_string(tile) + " ";
  return text;
}

llvm::Expected<std::vector<TileTimes>> tiles_of_cloud(StudyBench& bench, StudyDocument& document,
                                                      const StudyCloud& cloud) {
  MINUET_ASSIGN(std::vector<TileTimes> times, time_tiles(bench, "minkunet42", cloud));
  StudyPlot plot("Best tile, " + cloud.name, "bar", axis(""), axis("channels per thread"));
  llvm::json::Array rows;
  std::set<int> gather, scatter;
  std::vector<double> over_fixed;
  for (const TileTimes& layer : times) {
    const int in = fastest(layer.gather), out = fastest(layer.scatter);
    gather.insert(in);
    scatter.insert(out);
    plot.add_value("gather", layer.layer, in);
    plot.add_value("scatter", layer.layer, out);
    llvm::json::Array row{layer.layer, in, layer.gather.at(in), out, layer.scatter.at(out)};
    const auto four_in = layer.gather.find(4), four_out = layer.scatter.find(4);
    const bool has_four = four_in != layer.gather.end() && four_out != layer.scatter.end();
    row.push_back(has_four ? llvm::json::Value(four_in->second + four_out->second) : nullptr);
    const double best = layer.gather.at(in) + layer.scatter.at(out);
    if (has_four && best > 0) over_fixed.push_back((four_in->second + four_out->second) / best);
    rows.push_back(std::move(row));
  }
  document.add(std::move(plot));
  document.add_table("Best tile of each layer, " + cloud.name,
                     {"layer", "gather's best tile", "gather, ms", "scatter's best tile", "scatter, ms",
                      "gather and scatter with tile 4, ms"},
                     std::move(rows));
  document.claim(
      "the best tile (channels per thread) differs from layer to layer, so each layer needs its own tile; "
      "tile 4 in all layers is slow",
      cloud.name + ": " + spread_text(gather, scatter) +
          "; speedup of gather and scatter over tile 4 in all layers: " + speedups_text(over_fixed),
      verdict(gather.size() > 1 && scatter.size() > 1),
      gather.size() > 1 && scatter.size() > 1
          ? ""
          : "gather or scatter has the same best tile in all layers here");
  return times;
}

/// Records in how many layers the last scene takes longer with the first scene's best tile than with its own
/// best tile, by more than the noise.
void claim_scenes_differ(const std::vector<std::vector<TileTimes>>& scenes, StudyDocument& document) {
  constexpr double kNoise = 1.05;
  const std::vector<TileTimes>&first = scenes.front(), &second = scenes.back();
  size_t differing = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const auto costs = [](const std::map<int, double>& own, const std::map<int, double>& others) {
      return own.at(fastest(others)) > kNoise * own.at(fastest(own));
    };
    const bool differs =
        costs(second[i].gather, first[i].gather) || costs(second[i].scatter, first[i].scatter);
    differing += differs ? 1 : 0;
  }
  document.claim("the best tile differs from dataset to dataset",
                 llvm::formatv("in {0} of {1} layers, gather or scatter of the last scene takes more than 5 "
                               "% longer with the first scene's best tile than with its own best tile",
                               differing, first.size())
                     .str(),
                 verdict(differing > 0), differing > 0 ? "" : "the same tiles are the best for both scenes");
}

}  // namespace

TuningConfigs fixed_tile(const NetworkSamples& shapes, minuet_dtype dtype, int tile) {
  TuningConfigs configs;
  for (const LayerSamples& layer : shapes.layers) {
    if (layer.info.in_channels % tile == 0) configs[tile_bucket(layer, dtype, true)] = tile_config(tile);
    if (layer.info.out_channels % tile == 0) configs[tile_bucket(layer, dtype, false)] = tile_config(tile);
  }
  return configs;
}

llvm::Expected<std::vector<TileTimes>> time_tiles(StudyBench& bench, const std::string& network,
                                                  const StudyCloud& cloud) {
  MINUET_TRY(bench.force({}));
  const NetworkCase wanted = paper_case(network, bench.dtype());
  MINUET_ASSIGN(const NetworkSamples shapes, bench.time_network(wanted, cloud));
  std::vector<TileTimes> times(shapes.layers.size());
  const std::set<int> tiles = tiles_of(shapes, bench.by_size(8, 32, 128));
  StudySteps steps(bench, tiles.size());
  for (const int tile : tiles) {
    MINUET_TRY(bench.force(fixed_tile(shapes, bench.dtype(), tile)));
    MINUET_ASSIGN(const NetworkSamples samples, bench.time_network(wanted, cloud));
    for (size_t i = 0; i < times.size(); ++i) {
      const LayerSamples& layer = samples.layers[i];
      times[i].layer = layer.name;
      if (layer.info.in_channels % tile == 0) times[i].gather[tile] = median(layer.gather);
      if (layer.info.out_channels % tile == 0) times[i].scatter[tile] = median(layer.scatter);
    }
    steps.count();
  }
  MINUET_TRY(bench.force({}));
  return times;
}

TuningConfigs best_tiles(const NetworkSamples& shapes, minuet_dtype dtype,
                         const std::vector<TileTimes>& times) {
  std::map<TuningBucket, std::map<int, double>> sums;
  for (size_t i = 0; i < times.size(); ++i) {
    for (const auto& [tile, ms] : times[i].gather)
      sums[tile_bucket(shapes.layers[i], dtype, true)][tile] += ms;
    for (const auto& [tile, ms] : times[i].scatter)
      sums[tile_bucket(shapes.layers[i], dtype, false)][tile] += ms;
  }
  TuningConfigs configs;
  for (const auto& [bucket, by_tile] : sums) configs[bucket] = tile_config(fastest(by_tile));
  return configs;
}

llvm::Error study_tiles(StudyBench& bench, StudyDocument& document) {
  document.note(
      "The network is MinkUNet42. A tile is the number of channels that one thread moves (paper, Algorithm "
      "1). The best tile is the one with the lowest median time, so part of its gain may be noise.");
  if (bench.facts().is_cpu()) {
    document.note("The CPU device moves whole rows by vector instructions and has no tiles.");
    document.claim("the best tile of gather and scatter differs from layer to layer",
                   "the CPU device has no tiles to compare", Verdict::NotMeasured,
                   "the CPU's gather and scatter move whole rows");
    return llvm::Error::success();
  }
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  const size_t most = std::min(bench.by_size<size_t>(1, 1, 2), scenes->size());
  std::vector<std::vector<TileTimes>> all;
  for (size_t i = 0; i < most; ++i) {
    // The first and the last scene are of different kinds: a LiDAR sweep and an object.
    const StudyCloud& cloud = i == 0 ? scenes->front() : scenes->back();
    MINUET_ASSIGN(std::vector<TileTimes> times, tiles_of_cloud(bench, document, cloud));
    all.push_back(std::move(times));
  }
  if (all.size() > 1) claim_scenes_differ(all, document);
  return llvm::Error::success();
}

}  // namespace minuet::tool
