#include "tools/minuet/trace_layers.h"

#include <gmock/gmock.h>

#include "llvm/Support/JSON.h"
#include "tests/tools/bytes.h"

namespace minuet::tool {
namespace {

using testing::HasSubstr;

TEST(DeviceLayers, LieBehindTheStartOfTheLastRun) {
  const std::string trace = R"({"displayTimeUnit": "ms", "traceEvents": [
    {"ph": "X", "cat": "run", "name": "run", "pid": 7, "tid": 9, "ts": 100, "dur": 5},
    {"ph": "X", "cat": "run", "name": "run", "pid": 7, "tid": 9, "ts": 500, "dur": 5},
    {"ph": "X", "cat": "run", "name": "synchronize", "pid": 7, "tid": 9, "ts": 900, "dur": 5}]})";
  const std::string text =
      llvm::cantFail(add_device_layers(trace, {{"stem", 0, 0.25, 0}, {"down", 0.5, 1, 0.125}}));
  const llvm::json::Value value = llvm::cantFail(llvm::json::parse(text));
  const llvm::json::Array& events = *value.getAsObject()->getArray("traceEvents");
  std::vector<std::tuple<std::string, double, double>> spans;
  for (size_t i = 4; i < events.size(); ++i) {  // behind the three, and the row's name
    const llvm::json::Object& event = *events[i].getAsObject();
    EXPECT_EQ(event.getInteger("pid"), int64_t{7});
    EXPECT_EQ(event.getInteger("tid"), int64_t{0});
    spans.emplace_back(event.getString("name")->str(), *event.getNumber("ts"), *event.getNumber("dur"));
  }
  EXPECT_THAT(spans, testing::ElementsAre(std::tuple("stem", 500, 250), std::tuple("gemm", 500, 250),
                                          std::tuple("down", 750, 1625), std::tuple("gather", 750, 500),
                                          std::tuple("gemm", 1250, 1000), std::tuple("scatter", 2250, 125)));
  EXPECT_THAT(text, HasSubstr("layers on the device, profiled"));
}

TEST(DeviceLayers, OfATraceWithoutARunAreNone) {
  EXPECT_EQ(llvm::cantFail(add_device_layers(R"({"traceEvents":[]})", {{"stem", 0, 1, 0}})),
            R"({"traceEvents":[]})");
  EXPECT_THAT(error_of(add_device_layers("[]", {})), HasSubstr("the trace has no \"traceEvents\""));
  EXPECT_NE(error_of(add_device_layers("no JSON", {})), "");
}

}  // namespace
}  // namespace minuet::tool
