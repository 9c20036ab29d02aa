#include "codegen/json_text.h"

#include <gtest/gtest.h>

namespace minuet {
namespace {

std::string error_of(llvm::StringRef json) {
  llvm::Expected<llvm::json::Value> value = parse_json(json);
  return value ? "" : llvm::toString(value.takeError());
}

TEST(JsonText, AKeyIsThereOnce) {
  for (const char* json :
       {R"({"a": 1, "b": 2})", R"({"a": {"a": {"a": []}}, "b": {"a": 1}})", R"([{"a": 1}, {"a": 1}])",
        R"({"a": "a", "b": ["a", "a"], "c": "\"a\": {", "d": "\\"})", R"("a")", "7"}) {
    EXPECT_EQ(error_of(json), "") << json;
  }
  const std::pair<const char*, const char*> twice[] = {
      {R"({"a": 1, "a": 1})", R"("a")"},
      {R"({"a": 1, "b": {"c": "}"}, "a": 2})", R"("a")"},
      {R"([1, {"b": {}, "c": {"d": [], "d" : 2}}])", R"("d")"},
      {R"({"a": 1, "\u0061": 2})", R"("\u0061")"},
      {R"({"\"": 1, "\"": 2})", R"("\"")"},
      {R"({"": 1, "": 2})", R"("")"}};
  for (const auto& [json, key] : twice) {
    EXPECT_EQ(error_of(json), std::string("the key ") + key + " is there twice") << json;
  }
}

/// What is no JSON has no keys to look for: the parser refuses it.
TEST(JsonText, WhatIsNoJsonIsRefusedWhereverItEnds) {
  const std::string whole = R"({"a\\": [1, {"b": "\"", "c": []}], "d": null})";
  EXPECT_EQ(error_of(whole), "");
  for (std::size_t end = 0; end < whole.size(); ++end) EXPECT_NE(error_of(whole.substr(0, end)), "") << end;
  EXPECT_NE(error_of(R"({"a": 1, "a": 2)").find("Expected"), std::string::npos);
  EXPECT_NE(error_of(std::string(1000, '[')).find("nests deeper"), std::string::npos);
}

}  // namespace
}  // namespace minuet
