// Compares the fused dataflow with gather-GEMM-scatter, layer by layer.
#include <algorithm>

#include "codegen/base/number_text.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

double layer_ms(const LayerSamples& layer) {
  return median(layer.gather) + median(layer.gemm) + median(layer.scatter);
}

/// Merges a layer and the shortcut convolution that follows it into one layer in all elements of `all`, if
/// one kernel computed both of them in all.front().
void merge_shortcuts(llvm::ArrayRef<NetworkSamples*> all) {
  std::vector<LayerSamples>& layers = all.front()->layers;
  for (size_t i = layers.size(); i-- > 1;) {
    if (layers[i].kernel.empty() || layers[i].kernel != layers[i - 1].kernel || layer_ms(layers[i]) > 0)
      continue;
    for (NetworkSamples* const samples : all) {
      LayerSamples &layer = samples->layers[i - 1], &shortcut = samples->layers[i];
      for (auto part : {&LayerSamples::gather, &LayerSamples::gemm, &LayerSamples::scatter}) {
        for (size_t run = 0; run < (layer.*part).size(); ++run) (layer.*part)[run] += (shortcut.*part)[run];
      }
      samples->layers.erase(samples->layers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

llvm::Error compare_dataflows(StudyBench& bench, StudyDocument& document, const std::string& network,
                              const StudyCloud& cloud) {
  NetworkCase wanted{network, bench.dtype(), MINUET_DATAFLOW_FUSED};
  MINUET_ASSIGN(NetworkSamples fused, bench.time_network(wanted, cloud));
  wanted.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  MINUET_ASSIGN(NetworkSamples gmas, bench.time_network(wanted, cloud));
  wanted.dataflow = MINUET_DATAFLOW_AUTO;
  MINUET_ASSIGN(NetworkSamples chosen, bench.time_network(wanted, cloud));
  merge_shortcuts({&fused, &gmas, &chosen});
  StudyPlot plot(network + ", " + cloud.name, "bar", axis(""), axis("one layer, ms"));
  llvm::json::Array rows;
  int64_t right = 0;
  for (size_t i = 0; i < fused.layers.size(); ++i) {
    const LayerSamples &one = fused.layers[i], &other = gmas.layers[i];
    plot.add("fused", one.name, one.gemm);
    plot.add_value("gather-GEMM-scatter", other.name, layer_ms(other));
    const bool is_fused = chosen.layers[i].info.dataflow == MINUET_DATAFLOW_FUSED;
    right += is_fused == (layer_ms(one) < layer_ms(other)) ? 1 : 0;
    llvm::json::Value quotient = nullptr;
    if (layer_ms(one) > 0) quotient = layer_ms(other) / layer_ms(one);
    rows.push_back(llvm::json::Array{one.name, one.info.in_channels, one.info.out_channels, one.info.pairs,
                                     layer_ms(one), layer_ms(other), std::move(quotient),
                                     dataflow_name(chosen.layers[i].info.dataflow)});
  }
  document.add(std::move(plot));
  document.add_table(
      network + ", " + cloud.name,
      {"layer", "in", "out", "pairs", "fused, ms", "gather-GEMM-scatter, ms", "quotient", "default dataflow"},
      std::move(rows));
  document.note(llvm::formatv("{0}, {1}: a whole inference takes {2:f3} ms with the fused dataflow, {3:f3} "
                              "ms with gather-GEMM-scatter and {4:f3} ms with the default dataflow of each "
                              "layer. The default dataflow is the faster one in {5} of {6} layers.",
                              network, cloud.name, real(median(fused.wall)), real(median(gmas.wall)),
                              real(median(chosen.wall)), right, fused.layers.size())
                    .str());
  return llvm::Error::success();
}

}  // namespace

llvm::Error study_dataflow(StudyBench& bench, StudyDocument& document) {
  document.note("The paper has only gather-GEMM-scatter, so it has no figures to compare with.");
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  const size_t most = bench.by_size<size_t>(1, 1, 2);
  StudySteps steps(bench, 2 * std::min(most, scenes->size()));
  for (const char* network : {"minkunet42", "sparseresnet21d"}) {
    for (size_t i = 0; i < std::min(most, scenes->size()); ++i) {
      MINUET_TRY(compare_dataflows(bench, document, network, (*scenes)[i]));
      steps.count();
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
