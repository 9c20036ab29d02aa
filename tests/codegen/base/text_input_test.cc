#include "codegen/base/text_input.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codegen/base/json_text.h"

namespace minuet {
namespace {

std::vector<std::string> lines_of(llvm::StringRef text) {
  std::vector<std::string> lines;
  TextCursor cursor(text);
  while (const std::optional<llvm::StringRef> line = cursor.line()) lines.push_back(line->str());
  return lines;
}

using Lines = std::vector<std::string>;

TEST(TextInput, LinesOfEverySystem) {
  EXPECT_EQ(lines_of("a\nb\n\nc"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(lines_of("a\r\nb\r\n\r\nc\r\n"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(lines_of("a\rb\r\rc\r"), (Lines{"a", "b", "", "c"}));
  EXPECT_EQ(lines_of("a\rb\nc"), (Lines{"a", "b", "c"}));
  EXPECT_EQ(lines_of("a\nb\rc\nd"), (Lines{"a", "b\rc", "d"}));  // the first line decides
  EXPECT_EQ(lines_of("a\r\r\nb"), (Lines{"a", "", "", "b"}));
  EXPECT_EQ(lines_of("a\r"), (Lines{"a"}));
  EXPECT_EQ(lines_of("a"), (Lines{"a"}));
  EXPECT_EQ(lines_of(""), (Lines{}));
  EXPECT_EQ(lines_of("\n"), (Lines{""}));
}

TEST(TextInput, AByteOrderMarkIsPassedOverOnce) {
  EXPECT_EQ(lines_of("\xef\xbb\xbf"
                     "a\n\xef\xbb\xbf"
                     "b"),
            (Lines{"a",
                   "\xef\xbb\xbf"
                   "b"}));
  EXPECT_EQ(without_byte_order_mark("\xef\xbb"), "\xef\xbb");
  EXPECT_EQ(without_byte_order_mark("\xef\xbb\xbf"), "");
  EXPECT_EQ(without_byte_order_mark("a\xef\xbb\xbf"), "a\xef\xbb\xbf");
}

/// What stands behind a header's last line is left to the last byte, whatever ends the header's lines.
TEST(TextInput, DataBehindALine) {
  const std::pair<const char*, const char*> texts[] = {
      {"a\nb\n\n\r.", "\n\r."}, {"a\r\nb\r\n\n\r.", "\n\r."}, {"a\rb\r\n\r.", "\n\r."}, {"a\rb\r\r.", "\r."}};
  for (const auto& [text, data] : texts) {
    TextCursor cursor(text);
    EXPECT_EQ(cursor.line(), llvm::StringRef("a"));
    EXPECT_EQ(cursor.line(), llvm::StringRef("b"));
    EXPECT_EQ(cursor.rest(), data);
  }
}

TEST(TextInput, WordsAndRows) {
  TextCursor words(" a\tb\r\n c\v\fd\re ");
  for (const char* word : {"a", "b", "c", "d", "e", "", ""}) EXPECT_EQ(words.token(), word);
  TextCursor rows("\n \t\nfirst row\n\n second\n \n");
  EXPECT_EQ(rows.row(), "first row");
  EXPECT_EQ(rows.row(), " second");
  EXPECT_EQ(rows.row(), "");
  TextCursor ends("a b \t\nc\rd");
  for (const bool is_end : {false, true, true, true}) {
    ends.token();
    EXPECT_EQ(ends.is_at_line_end(), is_end) << ends.rest().str();
  }
}

TEST(TextInput, JsonOfOtherEditors) {
  for (const char* text : {"\xef\xbb\xbf[1]", "\xef\xbb\xbf \r\n[1]\r\n", "\r[\r1]\r", "[1]"}) {
    llvm::Expected<llvm::json::Value> value = parse_json(text);
    ASSERT_TRUE(!!value) << text << llvm::toString(value.takeError());
    EXPECT_EQ(*value, llvm::json::Value(llvm::json::Array{1}));
  }
  for (const char* text : {"\xef\xbb[1]", "\xef\xbb\xbf\xef\xbb\xbf[1]", "[1]\xef\xbb\xbf", "\xef\xbb\xbf"}) {
    EXPECT_TRUE(llvm::errorToBool(parse_json(text).takeError())) << text;
  }
}

}  // namespace
}  // namespace minuet
