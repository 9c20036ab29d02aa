#include "codegen/base/json_text.h"

#include <gtest/gtest.h>
#include <locale.h>

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
    EXPECT_EQ(error_of(json),
              std::string("the key ") + key + " occurs twice in one object: remove one of the two")
        << json;
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

/// As codegen_test.comma the same in a process whose locale has a decimal comma.
TEST(JsonText, NumbersHaveAPointInEveryLocale) {
  const std::string text = R"({"a":[0.001,-1234567.875,1e+100,12345678901]})";
  const llvm::json::Value value = llvm::cantFail(parse_json(text));
  const llvm::json::Array& numbers = *value.getAsObject()->getArray("a");
  EXPECT_EQ(numbers[0].getAsNumber(), 0.001);
  EXPECT_EQ(numbers[1].getAsNumber(), -1234567.875);
  EXPECT_EQ(numbers[2].getAsNumber(), 1e100);
  EXPECT_EQ(numbers[3].getAsInteger(), 12345678901);
  const llvm::json::Value printed = llvm::json::Array{0.5, -1234567.875, std::int64_t{12345678901}};
  EXPECT_EQ(print_json(printed), "[0.5,-1234567.875,12345678901]");
  EXPECT_EQ(print_json(printed, 2), "[\n  0.5,\n  -1234567.875,\n  12345678901\n]");
}

/// What the host formats on the same thread afterwards is as its locale says.
TEST(JsonText, TheThreadKeepsItsLocale) {
  ::uselocale(LC_GLOBAL_LOCALE);  // as a host's thread has it, whatever an earlier test left
  llvm::cantFail(parse_json("[0.5]"));
  EXPECT_EQ(::uselocale(locale_t{}), LC_GLOBAL_LOCALE);
  EXPECT_NE(error_of("[0.5"), "");
  EXPECT_EQ(::uselocale(locale_t{}), LC_GLOBAL_LOCALE) << "after an error too";
  print_json(0.5);
  EXPECT_EQ(::uselocale(locale_t{}), LC_GLOBAL_LOCALE);
}

/// llvm::json takes this real number for an int64_t, which cannot hold it.
TEST(JsonText, TheFirstNumberPastEveryIntegerIsRefused) {
  const std::string refused = "its number 9223372036854775808 is larger than the largest supported integer";
  for (const char* json : {"[9223372036854775808.0]", R"({"a":{"b":[1,9223372036854775808e0]}})"}) {
    EXPECT_EQ(error_of(json), refused) << json;
  }
  for (const char* json :
       {"[9223372036854775807]", "[9223372036854774784.0]", "[-9223372036854775808.0]", "[1e19]"}) {
    EXPECT_EQ(error_of(json), "") << json;
  }
}

}  // namespace
}  // namespace minuet
