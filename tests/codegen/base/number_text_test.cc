#include "codegen/base/number_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>

#include "codegen/base/c_locale.h"
#include "codegen/base/error.h"

namespace minuet {
namespace {

std::string printed(const char* format, int digits, double value) {
  const CLocale c_locale;
  char text[512];
  std::snprintf(text, sizeof text, format, digits, value);
  return text;
}

constexpr double kNumbers[] = {0,
                               -0.0,
                               1,
                               -1.5,
                               0.001,
                               2.675,
                               99.995,
                               1234567.875,
                               1e-7,
                               1e15,
                               1.0e16,
                               1e100,
                               5e-324,
                               0.1,
                               1.0 / 3,
                               -2e-9,
                               123456789012.5,
                               0.0625,
                               std::numeric_limits<double>::max(),
                               std::numeric_limits<double>::infinity()};

/// As codegen_test.comma the same in a process whose locale has a decimal comma.
TEST(NumberText, IsAsPrintfWritesItInTheCLocale) {
  for (const double value : kNumbers) {
    for (const int digits : {0, 1, 2, 3, 9, 15, 17}) {
      EXPECT_EQ(fixed_text(value, digits), printed("%.*f", digits, value));
      EXPECT_EQ(general_text(value, digits), printed("%.*g", digits, value));
    }
  }
}

TEST(NumberText, StylesOfFormatv) {
  EXPECT_EQ(llvm::formatv("{0}|{0:f0}|{0:f3}|{0:g3}|{0,10:f1}|{0,-8:g2}|", real(1234.5678)).str(),
            "1234.57|1235|1234.568|1.23e+03|    1234.6|1.2e+03 |");
}

TEST(NumberText, ErrorsHaveAPointInEveryLocale) {
  EXPECT_EQ(llvm::toString(make_error(StatusCode::OutOfRange, "{0} is above {1:f3}", 2.5, 0.001)),
            "2.50 is above 0.001");
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace minuet
