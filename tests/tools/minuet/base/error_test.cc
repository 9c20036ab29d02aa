#include "tools/minuet/base/error.h"

#include <gtest/gtest.h>

namespace minuet::tool {
namespace {

TEST(Errors, NameTheFileThatTheUserKnows) {
  llvm::Error error =
      about_file("/out/.minuet-1-0.part", "o.json", broken("'/out/.minuet-1-0.part': it is full"));
  EXPECT_TRUE(error.isA<llvm::StringError>());
  EXPECT_EQ(llvm::errorToErrorCode(std::move(error)), std::make_error_code(std::errc::io_error));
  EXPECT_EQ(llvm::toString(about_file("/x", "o", broken("no /y"))), "no /y");
  EXPECT_EQ(llvm::toString(about_file("/x", "o", broken("'/x': full"))), "'o': full");
  EXPECT_FALSE(about_file("/x", "o", llvm::Error::success()));
}

TEST(Errors, ControlCharactersAreEscaped) {
  EXPECT_EQ(escaped("a\n\x1b[1m\x7f \xc3\xa9"), "a\\x0a\\x1b[1m\\x7f \xc3\xa9");
  EXPECT_EQ(escaped(llvm::StringRef("a\0b", 3)), "a\\x00b");
}

}  // namespace
}  // namespace minuet::tool
