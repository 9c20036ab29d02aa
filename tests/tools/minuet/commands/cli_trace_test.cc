// What `minuet run --trace` writes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

TEST(CliTrace, HasTheLayersOfEachInference) {
  const Folder folder;
  const std::string trace = folder.path("trace.json"), report = folder.path("report.json");
  const Finished finished = minuet({"run", "--device", "cpu", "--network", "sparseresnet21d", "--channels",
                                    "4,6,8,7", "--synthetic", "room", "--points", "2000", "--voxel-size",
                                    "0.2", "--repeat", "2", "--trace", trace, "--json", report});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const llvm::json::Object shapes = json_in(report);
  std::vector<std::string> expected;
  for (int inference = 0; inference < 3; ++inference) {  // the first one and two warm ones
    for (const llvm::json::Value& layer : *shapes.getArray("layers"))
      expected.push_back(layer.getAsObject()->getString("name")->str());
  }
  const llvm::json::Object spans = json_in(trace);
  std::map<int64_t, int64_t> runs;  // start, end
  std::vector<std::pair<int64_t, std::string>> layers;
  for (const llvm::json::Value& entry : *spans.getArray("traceEvents")) {
    const llvm::json::Object& event = *entry.getAsObject();
    const int64_t start = *event.getInteger("ts");
    if (event.getString("cat") == llvm::StringRef("layer"))
      layers.emplace_back(start, event.getString("name")->str());
    if (event.getString("name") == llvm::StringRef("run")) runs[start] = start + *event.getInteger("dur");
  }
  EXPECT_EQ(runs.size(), 3u);
  ASSERT_EQ(layers.size(), expected.size());
  std::multiset<std::string> names;
  for (const auto& [start, name] : layers) {
    const auto run = runs.upper_bound(start);
    ASSERT_NE(run, runs.begin());
    EXPECT_LE(start, std::prev(run)->second + 1);  // whole microseconds
    names.insert(name);
  }
  EXPECT_EQ(names, std::multiset<std::string>(expected.begin(), expected.end()));
}

}  // namespace
}  // namespace minuet::tool
