// Ranges from magnitudes, against ranges from all numbers, and differences of two lists of numbers.
#include "tools/minuet/library/magnitudes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/random.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

std::vector<float> drawn(int seed, size_t count, bool is_signed) {
  Random random(static_cast<uint64_t>(seed));
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) {
    // Heavy tails, as those of features.
    const double value = std::pow(random.uniform(-1, 1), 5) * 40;
    values.push_back(static_cast<float>(is_signed ? value : std::max(value, 0.0)));
  }
  return values;
}

Magnitudes counted_in_parts(const std::vector<float>& values, size_t parts) {
  Magnitudes magnitudes;
  for (size_t i = 0; i < parts; ++i) {
    const size_t first = values.size() * i / parts, end = values.size() * (i + 1) / parts;
    EXPECT_TRUE(magnitudes.add(llvm::ArrayRef(values).slice(first, end - first)));
  }
  return magnitudes;
}

double stored_error(const std::vector<float>& values, double range, double levels) {
  const double scale = range / levels;
  double sum = 0;
  for (const float value : values) {
    const double stored = std::clamp(std::nearbyint(value / scale), -levels, levels) * scale;
    sum += (value - stored) * (value - stored);
  }
  return sum;
}

TEST(Magnitudes, RangesAreThoseOfAllNumbers) {
  for (const bool is_signed : {false, true}) {
    const std::vector<float> values = drawn(3 + is_signed, 20000, is_signed);
    const Magnitudes magnitudes = counted_in_parts(values, 7);
    std::vector<double> sorted;
    for (const float value : values) sorted.push_back(std::abs(static_cast<double>(value)));
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(magnitudes.range(RangeMethod::Maximum, 0), sorted.back());
    for (const double percentile : {60.0, 99.0, 99.99}) {
      const double range = magnitudes.range(RangeMethod::Percentile, percentile);
      const auto within = std::upper_bound(sorted.begin(), sorted.end(), range) - sorted.begin();
      const auto less =
          std::upper_bound(sorted.begin(), sorted.end(), range - sorted.back() / 1024) - sorted.begin();
      EXPECT_GE(static_cast<double>(within), 200 * percentile);
      EXPECT_LE(static_cast<double>(less), 200 * percentile) << "a smaller range suffices";
    }
    EXPECT_EQ(magnitudes.range(RangeMethod::Percentile, 100), sorted.back());
    const double best = magnitudes.range(RangeMethod::SquaredError, 0), levels = is_signed ? 127 : 255;
    const double error = stored_error(values, best, levels);
    for (int i = 1; i <= 64; ++i)
      EXPECT_LE(error, 1.05 * stored_error(values, sorted.back() * i / 64, levels)) << i;
  }
}

TEST(Magnitudes, LargerNumbersWidenTheBins) {
  Magnitudes magnitudes;
  EXPECT_TRUE(magnitudes.add({0.0f, 0.0f}));
  EXPECT_EQ(magnitudes.range(RangeMethod::SquaredError, 0), 0);
  EXPECT_TRUE(magnitudes.add({1e-6f}));
  EXPECT_TRUE(magnitudes.add({-1000.0f}));
  EXPECT_EQ(magnitudes.range(RangeMethod::Maximum, 0), 1000);
  EXPECT_EQ(magnitudes.range(RangeMethod::SquaredError, 0), 1000);
  // Three of four numbers are 0 or almost 0.
  EXPECT_LE(magnitudes.range(RangeMethod::Percentile, 75), 1);
  EXPECT_GT(magnitudes.range(RangeMethod::Percentile, 50), 0) << "a range of 0 is none";
}

/// The refused numbers would change each of the ranges: by their size, number and sign.
TEST(Magnitudes, NumbersThatAreNotFiniteAreNotAdded) {
  const std::vector<float> values = drawn(5, 20000, false);
  Magnitudes magnitudes = counted_in_parts(values, 2);
  const Magnitudes expected = magnitudes;
  std::vector<float> refused(20000, -1000.0f);
  refused.push_back(std::numeric_limits<float>::infinity());
  EXPECT_FALSE(magnitudes.add(refused));
  refused.assign(20000, -1e-3f);
  refused.push_back(std::nanf(""));
  EXPECT_FALSE(magnitudes.add(refused));
  for (const RangeMethod method : {RangeMethod::Maximum, RangeMethod::Percentile, RangeMethod::SquaredError})
    EXPECT_EQ(magnitudes.range(method, 99), expected.range(method, 99));
}

TEST(Magnitudes, MethodsHaveNames) {
  EXPECT_EQ(llvm::cantFail(parse_range_method("max")), RangeMethod::Maximum);
  EXPECT_EQ(llvm::cantFail(parse_range_method("percentile")), RangeMethod::Percentile);
  EXPECT_EQ(llvm::cantFail(parse_range_method("mse")), RangeMethod::SquaredError);
  EXPECT_EQ(error_of(parse_range_method("entropy")),
            "--calibration 'entropy' is not one of max, percentile, mse");
}

TEST(Difference, ErrorsAndCosines) {
  Difference difference;
  EXPECT_EQ(difference.relative(), 0);
  EXPECT_EQ(difference.cosine(), 1);
  difference.add({3, 0}, {3, 1});
  difference.add({4}, {4});
  EXPECT_DOUBLE_EQ(difference.relative(), 0.2);
  EXPECT_DOUBLE_EQ(difference.cosine(), 25 / std::sqrt(25.0 * 26.0));
  Difference from_zero;
  from_zero.add({0}, {2});
  EXPECT_TRUE(std::isinf(from_zero.relative()));
}

TEST(Difference, OtherSizesHaveNoError) {
  const std::vector<float> three{1, 2, 3}, two{1, 2};
  for (const bool is_shorter : {true, false}) {
    Difference difference;
    difference.add(two, two);
    EXPECT_EQ(difference.relative(), 0);
    if (is_shorter) {
      difference.add(three, two);
    } else {
      difference.add(two, three);
    }
    EXPECT_FALSE(difference.has_same_size);
    EXPECT_EQ(difference.relative(), std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(difference.cosine()));
    difference.add(three, three);
    EXPECT_TRUE(std::isinf(difference.relative())) << "numbers that fit do not make up for it";
  }
}

}  // namespace
}  // namespace minuet::tool
