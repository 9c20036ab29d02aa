// Measures data types, batch sizes and numbers of voxels, for which the paper has no figures.
#include <algorithm>

#include "tests/support/clouds.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

constexpr const char* kNoFigure = "The Minuet paper has no measurements like those of this study.";
constexpr const char* kMethods =
    "Each network is timed in two ways: with the default dataflow of each layer, and with "
    "gather-GEMM-scatter in all layers. The map method is the default one.";

/// Returns one cloud with a batch of `items` clouds, which are the scene's variants in turn.
StudyCloud batched(const StudyCloud& scene, int32_t items) {
  StudyCloud cloud{llvm::formatv("{0} clouds of {1}", items, scene.name).str(), {}};
  VoxelCloud all;
  all.channels = scene.variants.front().channels;
  for (int32_t item = 0; item < items; ++item) {
    const VoxelCloud& variant = scene.variants[static_cast<size_t>(item) % scene.variants.size()];
    all.features.insert(all.features.end(), variant.features.begin(), variant.features.end());
    for (size_t i = 0; i < variant.coordinates.size(); ++i)
      all.coordinates.push_back(i % 4 == 0 ? item : variant.coordinates[i]);
  }
  cloud.variants.push_back(std::move(all));
  return cloud;
}

const std::vector<std::string> kNetworks = {"minkunet42", "sparseresnet21d"};

/// Times the network with the dataflow that each layer has by default, and with gather-GEMM-scatter in all
/// layers. If the device's memory is too small for one of them, it is left out, with a note in the document.
llvm::Error time_both_dataflows(
    StudyBench& bench, StudyDocument& document, const std::string& network, const StudyCloud& cloud,
    llvm::function_ref<void(const std::string& series, NetworkSamples samples)> add) {
  for (const minuet_dataflow dataflow : {MINUET_DATAFLOW_AUTO, MINUET_DATAFLOW_GATHER_GEMM_SCATTER}) {
    const bool by_default = dataflow == MINUET_DATAFLOW_AUTO;
    const std::string series = by_default ? network : network + ", gather-GEMM-scatter";
    llvm::Expected<NetworkSamples> samples = bench.time_network({network, bench.dtype(), dataflow}, cloud);
    if (!samples && samples.errorIsA<OutOfMemory>()) {
      document.note(series + ", " + cloud.name + " is left out: " + llvm::toString(samples.takeError()) +
                    ".");
      continue;
    }
    if (!samples) return samples.takeError();
    add(series, std::move(*samples));
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Error study_dtype(StudyBench& bench, StudyDocument& document) {
  document.note(kNoFigure);
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  const StudyCloud& cloud = scenes->front();
  const std::vector<minuet_dtype> dtypes = {MINUET_F32, MINUET_TF32, MINUET_F16, MINUET_BF16};
  StudySteps steps(bench, 2 * dtypes.size());
  for (const std::string& network : kNetworks) {
    StudyPlot plot(network + ", " + cloud.name, "bar", axis(""), axis("one inference, ms"));
    for (const minuet_dtype dtype : dtypes) {
      MINUET_ASSIGN(const NetworkSamples usual, bench.time_network({network, dtype}, cloud));
      MINUET_ASSIGN(const NetworkSamples paper, bench.time_network(paper_case(network, dtype), cloud));
      plot.add("default settings", dtype_name(dtype), usual.wall);
      plot.add("gather-GEMM-scatter, sorted maps", dtype_name(dtype), paper.wall);
      steps.count();
    }
    document.add(std::move(plot));
  }
  if (bench.facts().is_cpu()) {
    document.note(
        "The CPU computes in float32 for every type: it converts 16-bit types and has no tensor cores.");
  }
  return llvm::Error::success();
}

llvm::Error study_batch(StudyBench& bench, StudyDocument& document) {
  document.note(kNoFigure);
  document.note(kMethods);
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  const std::vector<int32_t> sizes = bench.by_size(std::vector<int32_t>{1, 2}, {1, 4, 16}, {1, 2, 4, 8, 16});
  StudyPlot plot("Time of one inference per cloud of the batch", "line", axis("clouds in a batch", true),
                 axis("ms per cloud"));
  StudySteps steps(bench, kNetworks.size() * sizes.size());
  for (const std::string& network : kNetworks) {
    for (const int32_t size : sizes) {
      const auto add = [&](const std::string& series, NetworkSamples samples) {
        for (double& ms : samples.wall) ms /= size;
        plot.add(series, size, samples.wall);
      };
      MINUET_TRY(time_both_dataflows(bench, document, network, batched(scenes->front(), size), add));
      steps.count();
    }
  }
  document.add(std::move(plot));
  return llvm::Error::success();
}

llvm::Error study_voxels(StudyBench& bench, StudyDocument& document) {
  document.note(kNoFigure);
  document.note(kMethods);
  document.note(
      "The voxels are uniformly distributed in a cube that grows with their number, so that the 3^3 "
      "neighbourhood of a voxel has about five voxels, as in LiDAR clouds.");
  const std::vector<int64_t> counts =
      bench.by_size(std::vector<int64_t>{300, 1000}, {1000, 3000, 10000},
                    {10000, 30000, 100000, 300000, 1000000, 3000000, 5000000});
  constexpr double kNeighbours = 5;
  StudyPlot plot("One inference", "line", axis("voxels", true), axis("ms", true));
  StudyPlot rate("Voxels per microsecond", "line", axis("voxels", true), axis("voxels / us"));
  StudySteps steps(bench, kNetworks.size() * counts.size());
  for (const int64_t count : counts) {
    const StudyCloud cloud = bench.random_cloud(count, extent_for_neighbours(3, count, kNeighbours));
    for (const std::string& network : kNetworks) {
      const auto add = [&](const std::string& series, const NetworkSamples& samples) {
        plot.add(series, count, samples.wall);
        rate.add_value(series, count, static_cast<double>(count) / (1000 * median(samples.wall)));
      };
      MINUET_TRY(time_both_dataflows(bench, document, network, cloud, add));
      steps.count();
    }
  }
  document.add(std::move(plot));
  document.add(std::move(rate));
  return llvm::Error::success();
}

}  // namespace minuet::tool
