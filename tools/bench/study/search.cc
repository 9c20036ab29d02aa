// Measures how the time of the double-traversed binary search depends on its block sizes (section 6.4 of the
// paper). The paper calls the block size of sources B, and that of queries C.
#include <algorithm>

#include "codegen/base/number_text.h"
#include "codegen/choose/tuned_config.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

/// The default block sizes of the search count as the best ones if their time is at most this multiple of the
/// best time.
constexpr double kNearEnough = 1.05;

TuningConfigs search_configs_of(int block, int queries) {
  const SearchChoice search{block, queries, SearchChoice().threads};
  TuningConfigs configs;
  for (const KeyType key : {KeyType::U32, KeyType::U64})
    configs[search_bucket(key, 3, 27, int64_t{1} << 30)] = config_of(search);
  return configs;
}

struct Pair {
  int block, queries;
  double ms;
};

std::string pair_text(const Pair& pair) {
  return llvm::formatv("B = {0}, C = {1} ({2:f4} ms)", pair.block, pair.queries, real(pair.ms)).str();
}

}  // namespace

llvm::Error study_search(StudyBench& bench, StudyDocument& document) {
  const char* const paper =
      "blocks of B = 256 sources and C = 512 queries always perform best; the best sizes hardly depend on "
      "the GPU";
  if (bench.facts().is_cpu()) {
    document.note(
        "The search on the CPU device has no blocks of sources (B) and queries (C): each thread merges a "
        "part of the sorted queries with the sorted sources.");
    document.claim(paper, "the search on the CPU device has no block sizes to compare", Verdict::NotMeasured,
                   "the CPU's search has no blocks");
    return llvm::Error::success();
  }
  std::vector<StudyCloud> clouds;
  MINUET_ASSIGN(const auto* scenes, bench.clouds());
  if (!scenes->empty()) clouds.push_back(scenes->front());
  clouds.push_back(bench.random_cloud(bench.by_size(500, 20000, 1000000), 400));
  const std::vector<int> blocks =
      bench.by_size(std::vector<int>{64, 256}, {32, 128, 256, 512}, {32, 64, 128, 256, 512});
  const std::vector<int> queries =
      bench.by_size(std::vector<int>{128, 512}, {128, 512, 2048}, {128, 256, 512, 1024, 2048});
  StudySteps steps(bench, clouds.size() * blocks.size() * queries.size());
  document.note(
      "The network is one submanifold layer of kernel size 3. The time is that of its stage `map`, which "
      "finds the queries for each block of B sources, searches them in blocks of C queries, counts the pairs "
      "and fills tables. Only the first two steps depend on B and C.");
  for (const StudyCloud& cloud : clouds) {
    StudyPlot plot("Map step, " + cloud.name, "line", axis("C", true), axis("stage map, ms"));
    std::vector<Pair> pairs;
    for (const int block : blocks) {
      for (const int query : queries) {
        MINUET_TRY(bench.force(search_configs_of(block, query)));
        MINUET_ASSIGN(const NetworkSamples samples,
                      bench.time_network(paper_case(one_layer(4, 16), bench.dtype()), cloud));
        plot.add(llvm::formatv("B = {0}", block), query, samples.map);
        pairs.push_back({block, query, median(samples.map)});
        steps.count();
      }
    }
    MINUET_TRY(bench.force({}));
    document.add(std::move(plot));
    const auto faster = [](const Pair& a, const Pair& b) { return a.ms < b.ms; };
    const Pair best = *std::min_element(pairs.begin(), pairs.end(), faster);
    const auto is_default = [](const Pair& pair) { return pair.block == 256 && pair.queries == 512; };
    const Pair usual = *std::find_if(pairs.begin(), pairs.end(), is_default);
    document.claim(paper,
                   llvm::formatv("{0}: the best block sizes are {1}; the default ones are {2}", cloud.name,
                                 pair_text(best), pair_text(usual)),
                   verdict(usual.ms <= kNearEnough * best.ms),
                   usual.ms <= kNearEnough * best.ms
                       ? ""
                       : "the GPU and the width of the keys may differ from the paper's");
  }
  return llvm::Error::success();
}

}  // namespace minuet::tool
