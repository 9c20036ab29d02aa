#include "codegen/base/trace.h"

#include <gtest/gtest.h>

#include <thread>

#include "codegen/base/json_text.h"
#include "llvm/Support/JSON.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

llvm::json::Array spans_of(const std::string& text) {
  llvm::json::Value value = llvm::cantFail(parse_json(text));
  return std::move(*value.getAsObject()->getArray("traceEvents"));
}

TEST(Trace, R32_SpansComeWithThreadAndTime) {
  Trace trace;
  {
    const Trace::Span outer(&trace, "cache", "outer");
    std::thread([&] {
      const Trace::Span inner(&trace, "compile",
                              "in\xff"
                              "ner");
    }).join();
  }
  const llvm::json::Array spans = spans_of(trace.json());
  ASSERT_EQ(spans.size(), 2u);
  const llvm::json::Object& inner = *spans[0].getAsObject();
  const llvm::json::Object& outer = *spans[1].getAsObject();
  EXPECT_EQ(*outer.getString("name"), "outer");
  EXPECT_EQ(*outer.getString("cat"), "cache");
  EXPECT_EQ(*inner.getString("ph"), "X");
  EXPECT_NE(*inner.getInteger("tid"), *outer.getInteger("tid"));
  EXPECT_LE(*outer.getInteger("ts"), *inner.getInteger("ts"));
  EXPECT_GE(*outer.getInteger("ts") + *outer.getInteger("dur"),
            *inner.getInteger("ts") + *inner.getInteger("dur"));
}

TEST(Trace, R32_IsAFileOrAReason) {
  const TemporaryFolder folder;
  Trace trace;
  { const Trace::Span span(&trace, "run", "prepare"); }
  EXPECT_FALSE(llvm::errorToBool(trace.write(folder / "trace.json")));
  EXPECT_EQ(spans_of(contents(folder / "trace.json")).size(), 1u);
  const StatusError status = take_status(trace.write(folder / "missing/trace.json"));
  EXPECT_NE(status.message().find("missing/trace.json"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace minuet
