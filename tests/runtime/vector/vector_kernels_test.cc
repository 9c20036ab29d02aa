#include "runtime/vector/vector_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels_templates/shared/elements.h"
#include "tests/support/compare.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet {
namespace {

/// Every instruction set that this machine has; the others skip.
class VectorKernelsTest : public testing::TestWithParam<VectorSet> {
 protected:
  void SetUp() override {
    kernels_ = vector_kernels(GetParam());
    if (kernels_ == nullptr) GTEST_SKIP() << "this machine lacks the instruction set";
  }
  const VectorKernels* kernels_ = nullptr;
};

std::string set_name(const testing::TestParamInfo<VectorSet>& info) {
  static const char* const kNames[] = {"best", "baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Sets, VectorKernelsTest,
                         testing::Values(VectorSet::Baseline, VectorSet::Avx2, VectorSet::Avx512), set_name);

bool same(float a, float b) { return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, 4) == 0; }

TEST_P(VectorKernelsTest, WidensEverySixteenBitPattern) {
  std::vector<uint16_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), uint16_t{0});
  for (DType type : {DType::F16, DType::BF16}) {
    for (size_t start : {0, 3}) {  // 3: the vector loop meets each pattern at another place
      std::vector<float> widened(patterns.size() - start);
      kernels_->widen(type, patterns.data() + start, widened.data(), static_cast<i64>(widened.size()));
      for (size_t i = 0; i < widened.size(); ++i) {
        const float expected = decode_16(type, patterns[i + start]);
        ASSERT_TRUE(same(widened[i], expected))
            << "pattern " << i + start << ": " << widened[i] << ", " << expected;
      }
    }
  }
}

std::vector<float> awkward_values(uint64_t seed) {
  Random random(seed);
  std::vector<float> values{0.0f,       -0.0f,   65504.0f,  65519.9f, 65520.0f,  65536.0f,
                            1e30f,      -1e38f,  3.4e38f,   5.96e-8f, 2.98e-8f,  2.9802322e-8f,
                            2.9803e-8f, 6.1e-5f, -6.09e-5f, 1e-45f,   HUGE_VALF, -HUGE_VALF};
  for (int i = 0; i < 200000; ++i) {
    const u32 bits = static_cast<u32>(random.next());
    float value;
    std::memcpy(&value, &bits, 4);  // every exponent
    if (!std::isnan(value)) values.push_back(value);
    // Half-way cases: a short significand with the bit after the last kept place set.
    for (int kept : {7, 10}) {
      const u32 tie = (bits & ~((1u << (23 - kept)) - 1)) | 1u << (22 - kept);
      std::memcpy(&value, &tie, 4);
      if (!std::isnan(value)) values.push_back(value);
    }
    values.push_back(static_cast<float>(random.normal()));
    values.push_back(static_cast<float>(random.normal() * 1e-6));  // subnormal in fp16
  }
  return values;
}

TEST_P(VectorKernelsTest, NarrowsToTheNearest) {
  const std::vector<float> values = awkward_values(11);
  for (DType type : {DType::F16, DType::BF16, DType::F32}) {
    std::vector<char> narrowed(values.size() * dtype_bytes(type));
    kernels_->narrow(type, values.data(), narrowed.data(), static_cast<i64>(values.size()));
    const std::vector<float> got = decode(type, narrowed);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(same(got[i], round_to(type, values[i]))) << values[i] << " became " << got[i];
    }
  }
}

TEST_P(VectorKernelsTest, RoundsToTf32OnTheWay) {
  const std::vector<float> values = awkward_values(12);
  std::vector<float> rounded(values.size());
  kernels_->widen(DType::TF32, values.data(), rounded.data(), static_cast<i64>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::abs(values[i]) < 1e-37f) continue;  // subnormals: the hardware's tf32 has its own way
    ASSERT_TRUE(same(rounded[i], round_to(DType::TF32, values[i]))) << values[i] << " became " << rounded[i];
  }
}

TEST_P(VectorKernelsTest, KeepsNan) {
  const float nans[3] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN(),
                         1};
  for (DType type : kDTypes) {
    char stored[12];
    float back[3];
    kernels_->narrow(type, nans, stored, 3);
    kernels_->widen(type, stored, back, 3);
    kernels_->relu(back, 3);
    kernels_->leaky_relu(0.5f, back, 3);
    EXPECT_TRUE(std::isnan(back[0]) && std::isnan(back[1])) << static_cast<int>(type);
    EXPECT_EQ(back[2], 1.0f);
  }
}

u32 bits_of(float value) {
  u32 bits = 0;
  std::memcpy(&bits, &value, 4);
  return bits;
}
float float_of(u32 bits) {
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// With every NaN's bits, quiet and signalling, of both signs, and numbers around each type's limits.
std::vector<float> all_sorts(uint64_t seed) {
  std::vector<float> values;
  const std::vector<float> awkward = awkward_values(seed);
  for (size_t i = 0; i < awkward.size(); i += 9) values.push_back(awkward[i]);
  Random random(seed + 1);
  for (int i = 0; i < 20000; ++i)
    values.push_back(float_of(0x7f800001u + static_cast<u32>(random.below(0x7fffff))));
  for (int i = 0; i < 20000; ++i)
    values.push_back(float_of(0xff800001u + static_cast<u32>(random.below(0x7fffff))));
  for (const u32 limit :
       {0x477ff000u, 0x7f7f8000u, 0x7f7ff000u, 0x7f800000u, 0x33000000u, 0x38800000u, 0x00800000u}) {
    for (u32 near = limit - 3; near <= limit + 3; ++near) values.push_back(float_of(near));
    for (u32 near = limit - 3; near <= limit + 3; ++near) values.push_back(-float_of(near));
  }
  return values;
}

/// Bit by bit as shared/elements.h has it, in whatever instruction set, NaN included.
TEST_P(VectorKernelsTest, EveryInstructionSetGivesTheSameBits) {
  const std::vector<float> values = all_sorts(14);
  const auto count = static_cast<i64>(values.size());
  for (const DType type : kDTypes) {
    SCOPED_TRACE(kDTypeNames[static_cast<int>(type)]);
    with_dtype(type, [&]<DType T>() {
      using Stored = typename Element<T>::Stored;
      std::vector<Stored> narrowed(values.size());
      std::vector<float> widened(values.size()), rounded(values.size()), in_place = values;
      kernels_->narrow(T, values.data(), narrowed.data(), count);
      kernels_->widen(T, narrowed.data(), widened.data(), count);
      kernels_->round(T, values.data(), rounded.data(), count);
      kernels_->round(T, in_place.data(), in_place.data(), count);
      for (size_t i = 0; i < values.size(); ++i) {
        const Stored stored = Element<T>::store(values[i]);
        const u32 expected = bits_of(Element<T>::operand(stored));
        ASSERT_EQ(std::memcmp(&narrowed[i], &stored, sizeof(stored)), 0) << std::hex << bits_of(values[i]);
        ASSERT_EQ(bits_of(widened[i]), expected) << std::hex << bits_of(values[i]);
        ASSERT_EQ(bits_of(rounded[i]), expected) << std::hex << bits_of(values[i]);
        ASSERT_EQ(bits_of(in_place[i]), expected) << std::hex << bits_of(values[i]);
      }
    });
  }
  for (u32 pattern = 0; pattern < 65536; pattern += 8) {
    u16 stored[8];
    float widened[8];
    for (u32 i = 0; i < 8; ++i) stored[i] = static_cast<u16>(pattern + i);
    kernels_->widen(DType::F16, stored, widened, 8);
    for (u32 i = 0; i < 8; ++i) ASSERT_EQ(bits_of(widened[i]), bits_of(Element<DType::F16>::load(stored[i])));
  }
}

/// round tells whether all are finite once they are rounded, wherever among vectors and their rest one is
/// not.
TEST_P(VectorKernelsTest, TellsWhatATypeCannotHold) {
  const std::vector<float> values = all_sorts(15);
  for (const DType type : kDTypes) {
    SCOPED_TRACE(kDTypeNames[static_cast<int>(type)]);
    for (size_t i = 0; i < values.size(); i += 11) {
      const size_t count = 1 + i % 37, place = i / 37 % count;
      std::vector<float> row(count, 1.5f), rounded(count);
      row[place] = values[i];
      const float expected =
          with_dtype(type, [&]<DType T>() { return Element<T>::operand(Element<T>::store(values[i])); });
      ASSERT_EQ(kernels_->round(type, row.data(), rounded.data(), static_cast<i64>(count)),
                std::isfinite(expected))
          << values[i];
      ASSERT_EQ(kernels_->round(type, row.data(), row.data(), static_cast<i64>(count)),
                std::isfinite(expected));
      ASSERT_EQ(bits_of(rounded[place]), bits_of(expected));
      ASSERT_EQ(std::memcmp(row.data(), rounded.data(), count * 4), 0);
    }
  }
}

TEST_P(VectorKernelsTest, MultipliesAnyShape) {
  Random random(13);
  for (i64 rows : {1, 2, 7, 64, 300}) {
    for (i64 k : {1, 3, 16, 96, 256}) {
      for (i64 n : {1, 4, 24, 130, 256}) {
        const i64 lda = k + static_cast<i64>(random.below(3));
        std::vector<float> a(rows * lda), b(k * n);
        // Sums whose terms have one sign, so that the relative bound holds for a single number too.
        for (float& value : a) value = static_cast<float>(random.uniform(0.1, 1));
        for (i64 i = 0; i < k * n; ++i)
          b[i] = static_cast<float>(random.uniform(0.1, 1) * (i % n % 2 == 0 ? 1 : -1));
        std::vector<float> c(rows * n, std::numeric_limits<float>::quiet_NaN());
        kernels_->gemm(a.data(), lda, b.data(), c.data(), rows, k, n);
        std::vector<double> expected(rows * n, 0.0), magnitudes(n);
        for (i64 r = 0; r < rows; ++r) {
          for (i64 i = 0; i < k; ++i)
            oracle::add_channel(a[r * lda + i], &b[i * n], n, &expected[r * n], magnitudes.data());
        }
        ASSERT_TRUE(is_close(c, expected, n, 1e-6)) << rows << " x " << k << " x " << n;
      }
    }
  }
}

TEST_P(VectorKernelsTest, AddsScalesAndClips) {
  for (i64 count : {1, 5, 16, 33}) {
    std::vector<float> sum(count), scale(count, 2.0f), shift(count);
    for (i64 i = 0; i < count; ++i) sum[i] = static_cast<float>(i) - 8, shift[i] = static_cast<float>(i % 3);
    std::vector<float> expected(count);
    for (i64 i = 0; i < count; ++i) expected[i] = std::max(0.0f, 2 * (sum[i] + shift[i]) + shift[i]);
    kernels_->add(shift.data(), sum.data(), count);
    kernels_->scale_shift(scale.data(), shift.data(), sum.data(), count);
    kernels_->relu(sum.data(), count);
    EXPECT_EQ(sum, expected);
  }
}

TEST_P(VectorKernelsTest, FinishesAndStoresIntegers) {
  Random random(5);
  for (const i64 count : {1, 7, 8, 33, 100}) {
    const auto size = static_cast<size_t>(count);
    std::vector<i32> sums(size);
    std::vector<float> shift(size), factor(size), scale(size), values(size), expected(size);
    std::vector<signed char> residual(size);
    for (const DType type : {DType::U8, DType::S8, DType::F32}) {  // F32 stands for no residual.
      for (size_t i = 0; i < size; ++i) {
        sums[i] = static_cast<i32>(random.between(-2000000, 2000000));
        shift[i] = static_cast<float>(random.uniform(-1e6, 1e6)), scale[i] = 1e-4f;
        factor[i] = static_cast<float>(random.uniform(-1e3, 1e3));
        residual[i] = static_cast<signed char>(random.between(-127, 127));
        const int added = type == DType::U8 ? static_cast<unsigned char>(residual[i]) : residual[i];
        const float start =
            type == DType::F32 ? shift[i] : std::fma(static_cast<float>(added), factor[i], shift[i]);
        expected[i] = static_cast<float>(sums[i] + static_cast<i32>(std::nearbyint(start))) * scale[i];
      }
      const void* const given = type == DType::F32 ? nullptr : residual.data();
      kernels_->finish_integers(sums.data(), {shift.data(), type, given, factor.data()}, scale.data(),
                                values.data(), count);
      EXPECT_EQ(values, expected);
    }
    for (const DType type : {DType::U8, DType::S8}) {
      std::vector<signed char> stored(size, 55);
      kernels_->store_integers(type, values.data(), 1.25f, stored.data(), count);
      for (size_t i = 0; i < size; ++i) {
        const float least = type == DType::U8 ? 0 : -127, most = type == DType::U8 ? 255 : 127;
        const auto wanted = static_cast<int>(std::clamp(std::nearbyint(values[i] * 1.25f), least, most));
        EXPECT_EQ(type == DType::U8 ? static_cast<unsigned char>(stored[i]) : stored[i], wanted);
      }
    }
  }
}

TEST_P(VectorKernelsTest, MultipliesNegativeNumbersByTheSlope) {
  for (const float slope : {0.01f, 0.5f, -1.5f, 0.0f}) {
    for (i64 count : {1, 5, 16, 33}) {
      std::vector<float> values(count), expected(count);
      for (i64 i = 0; i < count; ++i) {
        values[i] = static_cast<float>(i) - static_cast<float>(count / 2);
        expected[i] = values[i] < 0 ? values[i] * slope : values[i];
      }
      kernels_->leaky_relu(slope, values.data(), count);
      EXPECT_EQ(values, expected) << slope;
    }
  }
}

}  // namespace
}  // namespace minuet
