#include "tools/minuet/pages/trace_layers.h"

#include <gmock/gmock.h>

#include "codegen/base/json_text.h"
#include "llvm/Support/JSON.h"
#include "tests/tools/minuet/cloud/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

std::vector<std::tuple<std::string, double, double>> device_row(const std::string& text, size_t given) {
  const llvm::json::Value value = llvm::cantFail(parse_json(text));
  const llvm::json::Array& events = *value.getAsObject()->getArray("traceEvents");
  std::vector<std::tuple<std::string, double, double>> spans;
  for (size_t i = given + 1; i < events.size(); ++i) {  // behind the row's name
    const llvm::json::Object& event = *events[i].getAsObject();
    EXPECT_EQ(event.getInteger("pid"), int64_t{7});
    EXPECT_EQ(event.getInteger("tid"), int64_t{0});
    spans.emplace_back(event.getString("name")->str(), *event.getNumber("ts"), *event.getNumber("dur"));
  }
  return spans;
}

TEST(DeviceTimes, LieBehindTheStartsOfTheLastPrepareAndRun) {
  const std::string trace = R"({"displayTimeUnit": "ms", "traceEvents": [
    {"ph": "X", "cat": "run", "name": "run", "pid": 7, "tid": 9, "ts": 100, "dur": 5},
    {"ph": "X", "cat": "run", "name": "prepare", "pid": 7, "tid": 9, "ts": 300, "dur": 5},
    {"ph": "X", "cat": "run", "name": "run", "pid": 7, "tid": 9, "ts": 500, "dur": 5},
    {"ph": "X", "cat": "run", "name": "synchronize", "pid": 7, "tid": 9, "ts": 900, "dur": 5}]})";
  const DeviceTimes times{0.05, 0.1, {{"stem", 0, 0.25, 0}, {"down", 0.5, 1, 0.125}}, 0.5};
  const std::string text = llvm::cantFail(add_device_times(trace, times));
  EXPECT_THAT(device_row(text, 4),
              testing::ElementsAre(std::tuple("sort", 300, 50), std::tuple("map", 350, 100),
                                   std::tuple("stem", 500, 250), std::tuple("gemm", 500, 250),
                                   std::tuple("down", 750, 1625), std::tuple("gather", 750, 500),
                                   std::tuple("gemm", 1250, 1000), std::tuple("scatter", 2250, 125),
                                   std::tuple("rows in and out", 2375, 500)));
  EXPECT_THAT(text, HasSubstr("one inference on the device, profiled"));
}

TEST(DeviceTimes, LayersWaitForTheMap) {
  const std::string trace = R"({"traceEvents": [
    {"ph": "X", "cat": "run", "name": "prepare", "pid": 7, "tid": 9, "ts": 300, "dur": 5},
    {"ph": "X", "cat": "run", "name": "run", "pid": 7, "tid": 9, "ts": 500, "dur": 5}]})";
  const std::string text = llvm::cantFail(add_device_times(trace, {0, 1, {{"stem", 0, 1, 0}}, 0}));
  EXPECT_THAT(device_row(text, 2),
              testing::ElementsAre(std::tuple("map", 300, 1000), std::tuple("stem", 1300, 1000),
                                   std::tuple("gemm", 1300, 1000)));
}

TEST(DeviceTimes, OfATraceWithoutARunAreNone) {
  EXPECT_EQ(llvm::cantFail(add_device_times(R"({"traceEvents":[]})", {1, 1, {{"stem", 0, 1, 0}}, 1})),
            R"({"traceEvents":[]})");
  EXPECT_THAT(error_of(add_device_times("[]", {})), HasSubstr("the trace has no \"traceEvents\""));
  EXPECT_NE(error_of(add_device_times("no JSON", {})), "");
}

}  // namespace
}  // namespace minuet::tool
