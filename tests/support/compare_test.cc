// The bounds themselves: wide enough for a dataflow that sums in fp32 and stores in 16 bits, and tight enough
// that one wrong channel of 256 is found where norms over rows and tensors see nothing.
#include "tests/support/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/cases/convolution_cases.h"
#include "tests/support/rounding.h"

namespace minuet {
namespace {

/// A layer of 256 output channels, in fp64 and as a GPU computes it.
class Compare : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    test_ = small_case(GetParam(), ConvolutionKind::Submanifold, 32, 256, 400);
    test_.activation = Activation::None;  // so that each channel has a value
    data_ = make_data(test_);
    expected_ = expected_output(test_, data_, &magnitudes_);
  }

  /// Sums and epilogue in fp32, stored in the dtype.
  std::vector<float> computed() const {
    const DType storage = storage_type(GetParam());
    const int64_t in = test_.in_channels, out = test_.out_channels;
    const std::vector<float> features = round_to(GetParam(), data_.features);
    std::vector<float> sums(expected_.size(), 0.0f);
    for (const oracle::Pair& pair :
         oracle::find_pairs(data_.geometry, data_.in_coordinates, data_.out_coordinates)) {
      for (int64_t d = 0; d < out; ++d) {
        float partial = 0;
        for (int64_t c = 0; c < in; ++c)
          partial += features[pair.in * in + c] * data_.weight[(pair.k * in + c) * out + d];
        sums[pair.out * out + d] += partial;
      }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] = sums[i] * data_.scale[i % out] + data_.shift[i % out] + data_.residual[i];
    }
    return round_to(storage, sums);
  }
  bool is_close_by_norm(const std::vector<float>& values) const {
    return static_cast<bool>(is_close(values, expected_, test_.out_channels, error_bound(GetParam())));
  }
  bool is_close_each(const std::vector<float>& values) const {
    return static_cast<bool>(is_close(values, expected_, magnitudes_, test_.out_channels, GetParam()));
  }

  ConvolutionCase test_;
  ConvolutionData data_;
  std::vector<double> expected_, magnitudes_;
};

TEST_P(Compare, TheDataflowOfTodayIsWithinTheBound) {
  EXPECT_TRUE(is_close(computed(), expected_, magnitudes_, test_.out_channels, GetParam()));
}

TEST_P(Compare, OneWrongChannelOf256IsFound) {
  const std::vector<float> right = computed();
  double typical = 0;
  for (double value : expected_) typical += std::abs(value) / static_cast<double>(expected_.size());
  // By as much as a norm lets pass in the worst row of all, or nearly.
  const float visible = static_cast<float>(std::min(5 * error_bound(GetParam()) * 16, 0.25) * typical);
  for (const size_t at : {size_t{0}, size_t{255}, 100 * size_t{256} + 17, right.size() - 1}) {
    std::vector<float> wrong = right;
    wrong[at] += visible;
    EXPECT_TRUE(is_close_by_norm(wrong)) << "else a norm were enough";
    EXPECT_FALSE(is_close_each(wrong)) << at;
  }
}

TEST_P(Compare, WhatIsNoNumberOrMissingIsNeverClose) {
  std::vector<float> values(expected_.begin(), expected_.end());
  EXPECT_TRUE(is_close_each(values));
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> wrong = values;
    wrong[77] = bad;
    EXPECT_FALSE(is_close_each(wrong));
  }
  values.pop_back();
  EXPECT_FALSE(is_close_each(values));
}

/// Where nothing is added up, nothing may come out.
TEST_P(Compare, AZeroIsExact) {
  const std::vector<double> nothing(4, 0.0);
  EXPECT_TRUE(is_close({0, 0, -0.0f, 0}, nothing, nothing, 2, GetParam()));
  EXPECT_FALSE(is_close({0, 0, 1e-6f, 0}, nothing, nothing, 2, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Compare, testing::ValuesIn(all_dtypes()),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

}  // namespace
}  // namespace minuet
