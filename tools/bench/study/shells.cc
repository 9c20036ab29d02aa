#include "tools/bench/study/shells.h"

#include "tools/bench/study/studies.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

struct LayerTimes {
  StudyPlot plot{"One layer", "bar", axis(""), axis("ms", true)};
  llvm::json::Array rows;
};

llvm::Error time_layer(StudyBench& bench, const StudyCloud& cloud, int32_t channels, LayerTimes& times) {
  MINUET_ASSIGN(const NetworkSamples samples,
                bench.time_network({one_layer(channels, channels), bench.dtype()}, cloud));
  const LayerSamples& layer = samples.layers.front();
  const std::string name = llvm::formatv("{0}, {1} > {1}", cloud.name, channels).str();
  times.plot.add("layer alone", name, samples.gmas);
  times.plot.add("map alone", name, samples.sort_map);
  times.plot.add("whole inference", name, samples.wall);
  const double pairs = static_cast<double>(layer.info.pairs) / static_cast<double>(cloud.voxels());
  llvm::json::Array row{cloud.name, cloud.voxels(), pairs, channels};
  for (const std::vector<double>* stage : {&samples.gmas, &samples.sort_map, &samples.wall}) {
    for (const double ms : {median(*stage), quantile(*stage, 0.1), quantile(*stage, 0.9)}) row.push_back(ms);
  }
  row.push_back(layer.kernel.empty() ? dataflow_name(layer.info.dataflow) : layer.kernel);
  times.rows.push_back(std::move(row));
  return llvm::Error::success();
}

}  // namespace

std::vector<ShellLayer> shell_layers(const StudyBench& bench) {
  return bench.by_size(std::vector<ShellLayer>{{12, 8}}, {{64, 64}, {32, 128}},
                       {{1024, 64}, {512, 128}, {256, 256}, {128, 512}, {64, 1024}});
}

llvm::Error study_shells(StudyBench& bench, StudyDocument& document) {
  document.note(
      "The Minuet paper has no measurements on spherical shells, but other engines are measured on them. The "
      "cloud shell_R is a shell in a cube with edges of R voxels: it has the voxels whose centres are R / 2 "
      "- 1.25 to R / 2 voxels from the cube's centre, in random order.");
  document.note(
      "The network is one submanifold layer of kernel size 3 with as many output as input channels, and runs "
      "with the default dataflow and map method. \"Layer alone\" is the profiled time of gather, GEMM and "
      "scatter, or of the fused kernel if that is the default. \"Map alone\" is the profiled time to make "
      "the coordinate set and the map. \"Whole inference\" is the time by the host's clock, which "
      "includes the map and the work of the host. All runs on a shell use the same voxels.");
  using Channels = std::vector<int32_t>;
  const std::vector<ShellLayer> shells = shell_layers(bench);
  const Channels of_scene = bench.by_size(Channels{8}, {64, 128}, {64, 96, 128, 256}),
                 of_random = bench.by_size(Channels{8}, {64}, {64, 256});
  LayerTimes times;
  StudySteps steps(bench, shells.size() + of_scene.size() + of_random.size());
  for (const ShellLayer& layer : shells) {
    MINUET_TRY(time_layer(bench, bench.shell_cloud(layer.resolution), layer.channels, times));
    steps.count();
  }
  MINUET_ASSIGN(const std::vector<const StudyCloud*> scenes, bench.clouds_named({"os1_0.1"}));
  for (const int32_t channels : of_scene) {
    MINUET_TRY(time_layer(bench, *scenes.front(), channels, times));
    steps.count();
  }
  const StudyCloud random = bench.random_cloud(bench.by_size(200, 5000, 1000000), bench.by_size(34, 68, 400));
  for (const int32_t channels : of_random) {
    MINUET_TRY(time_layer(bench, random, channels, times));
    steps.count();
  }
  document.add(std::move(times.plot));
  document.add_table("One layer",
                     {"cloud", "voxels", "pairs per voxel", "channels", "layer alone, ms", "p10", "p90",
                      "map alone, ms", "p10", "p90", "whole inference, ms", "p10", "p90", "kernel"},
                     std::move(times.rows));
  return llvm::Error::success();
}

}  // namespace minuet::tool
