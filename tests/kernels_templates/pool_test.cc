// Pooling in the shim, against plain loops.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
// The kernel comes after features.h, which defines the shim's names that it uses.
#include "kernels_templates/pool/count_inputs.h"
#include "kernels_templates/pool/pool.h"
#include "kernels_templates/pool/pool_gradient.h"

namespace minuet {
namespace {

template <DType T, i32 Channels, i32 VectorBytes, Reduction R>
void expect_pooled(i64 count, i64 output_rows, i32 volume, int variant) {
  constexpr PoolSpec kSpec{
      .io = T, .channels = Channels, .vector_bytes = VectorBytes, .reduction = R, .threads = 64};
  Random random(900 + static_cast<u64>(count) + static_cast<u64>(volume));
  const i64 input_rows = count + 7;
  Matrix<T> input(input_rows, Channels, Channels + 16), output(output_rows + 1, Channels, Channels + 32);
  input.fill(random, input_rows);
  std::vector<i32> rows(static_cast<std::size_t>(volume * count));
  for (i32& row : rows) {
    row = random.below(3) == 0 ? -1 : static_cast<i32>(random.below(static_cast<u64>(input_rows)));
  }
  for (i32 k = 0; k < volume && count > 1; ++k)
    rows[static_cast<std::size_t>(k * count + 1)] = -1;  // an output alone
  const i32 device_count = static_cast<i32>(count);
  u32 overflow = 0;
  PoolParams params = {};
  params.input = input.elements();
  params.input_ld = input.ld();
  params.rows = rows.data();
  params.output_count = &device_count;
  params.output_rows = output_rows;
  params.volume = volume;
  params.pads_output = output_rows > count ? 1 : 0;
  params.output = output.elements();
  params.output_ld = output.ld();
  params.overflow = &overflow;
  params.overflow_mark = 5;
  shim::launch(&pool<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(overflow, 0u);
  for (i64 row = 0; row < output_rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      double expected = 0;
      i64 found = 0;
      for (i32 k = 0; k < volume && row < count; ++k) {
        const i32 source = rows[static_cast<std::size_t>(k * count + row)];
        if (source < 0) continue;
        const double value = input.at(source, c);
        expected = found++ == 0 ? value : R == Reduction::Max ? std::max(expected, value) : expected + value;
      }
      if (R == Reduction::Average && found > 0) expected /= static_cast<double>(found);
      ASSERT_NEAR(output.at(row, c), expected, 4e-3 * std::max(1.0, std::abs(expected) + found))
          << row << " " << c;
    }
    ASSERT_TRUE(output.is_poison(row, Channels)) << "past the row";
  }
  ASSERT_TRUE(output.is_poison(output_rows, 0)) << "past the last row";
}

template <Reduction R>
void expect_all(int variant) {
  expect_pooled<DType::F32, 4, 16, R>(100, 100, 27, variant);
  expect_pooled<DType::F32, 3, 4, R>(50, 64, 8, variant);
  expect_pooled<DType::F16, 16, 16, R>(33, 33, 1, variant);
  expect_pooled<DType::F16, 5, 2, R>(1, 9, 125, variant);
  expect_pooled<DType::F16, 8, 8, R>(0, 4, 8, variant);
}

TEST(Pool, EveryReduction) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_all<Reduction::Max>(variant);
    expect_all<Reduction::Average>(variant);
    expect_all<Reduction::Sum>(variant);
  }
}

/// Maxima of integers, in vectors of every width. Rows past the count become 0.
template <DType T, i32 Channels, i32 VectorBytes>
void expect_integers(i64 count, i64 output_rows, i32 volume, int variant) {
  constexpr PoolSpec kSpec{.io = T, .channels = Channels, .vector_bytes = VectorBytes, .threads = 64};
  Random random(700 + static_cast<u64>(count) + static_cast<u64>(volume));
  const i64 input_rows = count + 7, ld = Channels + 16;
  const auto bytes = static_cast<std::size_t>((std::max(input_rows, output_rows) + 1) * ld);
  std::vector<unsigned char> input_memory(bytes + 16), output_memory(bytes + 16, 0xa5);
  const auto aligned = [](std::vector<unsigned char>& memory) {
    return memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16) % 16;
  };
  // Integers of S8 are -127 to 127.
  for (unsigned char& byte : input_memory)
    byte = static_cast<unsigned char>(random.below(255) - (T == DType::S8 ? 127 : 0));
  unsigned char *const input = aligned(input_memory), *const output = aligned(output_memory);
  std::vector<i32> rows(static_cast<std::size_t>(volume * count));
  for (i32& row : rows)
    row = random.below(3) == 0 ? -1 : static_cast<i32>(random.below(static_cast<u64>(input_rows)));
  const i32 device_count = static_cast<i32>(count);
  u32 overflow = 0;
  PoolParams params = {};
  params.input = input, params.input_ld = ld;
  params.rows = rows.data(), params.output_count = &device_count, params.output_rows = output_rows;
  params.volume = volume, params.pads_output = 1;
  params.output = output, params.output_ld = ld;
  params.overflow = &overflow, params.overflow_mark = 5;
  shim::launch(&pool<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(overflow, 0u);
  const auto value = [](unsigned char byte) {
    return T == DType::U8 ? static_cast<int>(byte) : static_cast<int>(static_cast<signed char>(byte));
  };
  for (i64 row = 0; row <= output_rows; ++row) {
    for (i64 c = 0; c < ld; ++c) {
      int expected = 0;
      bool is_first = true;
      for (i32 k = 0; k < volume && row < count; ++k) {
        const i32 source = rows[static_cast<std::size_t>(k * count + row)];
        if (source < 0) continue;
        const int given = value(input[source * ld + c]);
        expected = is_first ? given : std::max(expected, given);
        is_first = false;
      }
      if (c >= Channels || row == output_rows) expected = value(0xa5);
      ASSERT_EQ(value(output[row * ld + c]), expected) << row << " " << c;
    }
  }
}

TEST(Pool, MaximaOfIntegers) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_integers<DType::U8, 16, 16>(100, 100, 27, variant);
    expect_integers<DType::S8, 48, 16>(33, 40, 8, variant);
    expect_integers<DType::S8, 24, 8>(50, 64, 1, variant);
    expect_integers<DType::U8, 12, 4>(1, 9, 125, variant);
    expect_integers<DType::S8, 6, 2>(20, 21, 3, variant);
    expect_integers<DType::U8, 5, 1>(17, 17, 9, variant);
    expect_integers<DType::S8, 5, 1>(0, 3, 9, variant);
  }
}

void take_if_better(float value, i32 source, float& best, i32& winner) {
  const bool is_better = value > best || (std::isnan(value) && !std::isnan(best));
  if (winner < 0 || is_better) best = value, winner = source;
}

/// Ties, NaN, outputs alone, rows past the count, with and without numbers that stand for the input's rows.
template <DType T, i32 Channels, i32 VectorBytes>
void expect_winners(i64 count, i64 output_rows, i32 volume, int variant, bool has_numbers) {
  constexpr PoolSpec kSpec{
      .io = T, .channels = Channels, .vector_bytes = VectorBytes, .threads = 64, .winners = true};
  Random random(300 + static_cast<u64>(count) + static_cast<u64>(volume));
  const i64 input_rows = count + 7, winners_ld = Channels + 4;
  Matrix<T> input(input_rows, Channels, Channels + 16), output(output_rows, Channels, Channels + 32);
  for (i64 row = 0; row < input_rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      const float value = static_cast<float>(random.below(5)) - 2;
      input.set(row, c, random.below(13) == 0 ? std::nanf("") : value);
    }
  }
  std::vector<i32> rows(static_cast<std::size_t>(volume * count)),
      numbers(static_cast<std::size_t>(input_rows));
  for (i32& row : rows) {
    row = random.below(2) == 0 ? -1 : static_cast<i32>(random.below(static_cast<u64>(input_rows)));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1000 - static_cast<i32>(i);
  constexpr i32 kPoison = 77777;
  const auto winner_words = static_cast<std::size_t>((output_rows + 1) * winners_ld);
  // Rows of winners begin on multiples of 16 bytes where the kernel writes 16 bytes at once.
  std::vector<i32> memory(winner_words + 4, kPoison);
  i32* const winners = memory.data() + (16 - reinterpret_cast<std::uintptr_t>(memory.data()) % 16) % 16 / 4;
  const i32 device_count = static_cast<i32>(count);
  u32 overflow = 0;
  PoolParams params = {};
  params.input = input.elements(), params.input_ld = input.ld();
  params.rows = rows.data();
  params.output_count = &device_count;
  params.output_rows = output_rows;
  params.volume = volume;
  params.pads_output = output_rows > count ? 1 : 0;
  params.output = output.elements(), params.output_ld = output.ld();
  params.overflow = &overflow, params.overflow_mark = 5;
  params.winners = winners, params.winners_ld = winners_ld;
  params.input_numbers = has_numbers ? numbers.data() : nullptr;
  shim::launch(&pool<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  for (i64 row = 0; row < output_rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      i32 winner = -1;
      float best = 0;
      for (i32 k = 0; k < volume && row < count; ++k) {
        const i32 source = rows[static_cast<std::size_t>(k * count + row)];
        if (source >= 0) take_if_better(input.at(source, c), source, best, winner);
      }
      if (std::isnan(best)) {
        ASSERT_TRUE(std::isnan(output.at(row, c))) << row << " " << c;
      } else {
        ASSERT_EQ(output.at(row, c), best) << row << " " << c;
      }
      const i32 expected = winner >= 0 && has_numbers ? numbers[static_cast<std::size_t>(winner)] : winner;
      ASSERT_EQ(winners[row * winners_ld + c], expected) << row << " " << c;
    }
    for (i64 c = Channels; c < winners_ld; ++c) ASSERT_EQ(winners[row * winners_ld + c], kPoison);
  }
  for (i64 c = 0; c < winners_ld; ++c) ASSERT_EQ(winners[output_rows * winners_ld + c], kPoison);
}

TEST(Pool, WinnersOfAMaximum) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    for (const bool has_numbers : {false, true}) {
      expect_winners<DType::F32, 4, 16>(100, 100, 27, variant, has_numbers);
      expect_winners<DType::F32, 3, 4>(50, 64, 8, variant, has_numbers);
      expect_winners<DType::F16, 16, 16>(33, 33, 9, variant, has_numbers);
      expect_winners<DType::BF16, 12, 8>(20, 23, 8, variant, has_numbers);
      expect_winners<DType::F16, 5, 2>(1, 9, 125, variant, has_numbers);
      expect_winners<DType::F16, 6, 4>(0, 4, 8, variant, has_numbers);
    }
  }
}

/// fp16 holds no 70,000, and NaN passes through a maximum from any offset.
TEST(Pool, WhatIsNotFiniteIsMarked) {
  constexpr PoolSpec kSum{
      .io = DType::F16, .channels = 1, .vector_bytes = 2, .reduction = Reduction::Sum, .threads = 64};
  constexpr PoolSpec kMax{
      .io = DType::F16, .channels = 1, .vector_bytes = 2, .reduction = Reduction::Max, .threads = 64};
  for (const i32 nan_at : {-1, 0, 1}) {
    Matrix<DType::F16> input(2, 1, 8), output(1, 1, 8);
    for (i32 i = 0; i < 2; ++i) input.set(i, 0, i == nan_at ? std::nanf("") : 40000.0f);
    const i32 rows[] = {0, 1}, count = 1;
    u32 overflow = 0;
    PoolParams params = {input.elements(),  input.ld(),  rows,      &count, 1,       2, 0,
                         output.elements(), output.ld(), &overflow, 7,      nullptr, 0, nullptr};
    shim::launch(nan_at < 0 ? &pool<kSum> : &pool<kMax>, params, shim::small_grid(0, 64));
    EXPECT_EQ(overflow, 7u) << nan_at;
    EXPECT_EQ(std::isnan(output.at(0, 0)), nan_at >= 0);
  }
}

/// `rows` leads each of `count` inputs of a pooling to its outputs, of which there are `outputs`.
template <DType T, i32 Channels, i32 VectorBytes, Reduction R>
void expect_pool_gradient(i64 count, i64 output_rows, i32 volume, int variant) {
  constexpr PoolGradientSpec kSpec{
      .io = T, .channels = Channels, .vector_bytes = VectorBytes, .reduction = R, .threads = 64};
  Random random(950 + static_cast<u64>(count) + static_cast<u64>(volume));
  const i64 outputs = count + 7, winners_ld = Channels + 4;
  Matrix<T> input(outputs, Channels, Channels + 16), output(output_rows + 1, Channels, Channels + 32);
  input.fill(random, outputs);
  std::vector<i32> rows(static_cast<std::size_t>(volume * count)), numbers(static_cast<std::size_t>(count));
  for (i32& row : rows) {
    row = random.below(3) == 0 ? -1 : static_cast<i32>(random.below(static_cast<u64>(outputs)));
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<i32>(numbers.size() - i);
  // Memory of 16 bytes alignment, as that of the caller.
  std::vector<Vector<16>> memory(static_cast<std::size_t>((outputs * winners_ld + 3) / 4));
  i32* const winners = reinterpret_cast<i32*>(memory.data());
  for (i64 i = 0; i < outputs * winners_ld; ++i) {
    winners[i] = static_cast<i32>(random.below(static_cast<u64>(count) + 2)) - 1;
  }
  std::vector<u32> counts(static_cast<std::size_t>(outputs), 0u);
  const i32 device_count = static_cast<i32>(count);
  u32 overflow = 0;
  PoolGradientParams params = {};
  params.input = input.elements(), params.input_ld = input.ld();
  params.rows = rows.data();
  params.output_count = &device_count;
  params.output_rows = output_rows;
  params.volume = volume;
  params.pads_output = output_rows > count ? 1 : 0;
  params.output = output.elements(), params.output_ld = output.ld();
  params.overflow = &overflow, params.overflow_mark = 5;
  params.counts = counts.data();
  params.winners = winners, params.winners_ld = winners_ld;
  params.output_numbers = numbers.data();
  constexpr CountInputsSpec kCount{.threads = 64};
  if (R == Reduction::Average) {
    shim::launch(&count_inputs<kCount>, params, shim::small_grid(variant, kCount.threads));
  }
  shim::launch(&pool_gradient<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(overflow, 0u);
  // Half a unit in the last place.
  constexpr double kUnit = T == DType::F16 ? 0x1p-11 : T == DType::BF16 ? 0x1p-8 : 0x1p-24;
  for (i64 row = 0; row < output_rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      double expected = 0, sizes = 0;
      for (i32 k = 0; k < volume && row < count; ++k) {
        const i32 from = rows[static_cast<std::size_t>(k * count + row)];
        if (from < 0) continue;
        if (R == Reduction::Max && winners[from * winners_ld + c] != numbers[static_cast<std::size_t>(row)])
          continue;
        const auto readers = static_cast<double>(std::count(rows.begin(), rows.end(), from));
        const double part = input.at(from, c) / (R == Reduction::Average ? readers : 1);
        expected += part, sizes += std::abs(part);
      }
      ASSERT_NEAR(output.at(row, c), expected, kUnit * std::abs(expected) + 1e-6 * sizes + 0x1p-24)
          << row << " " << c;
    }
    ASSERT_TRUE(output.is_poison(row, Channels)) << "past the row";
  }
  ASSERT_TRUE(output.is_poison(output_rows, 0)) << "past the last row";
}

template <Reduction R>
void expect_pool_gradients() {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_pool_gradient<DType::F16, 16, 16, R>(40, 40, 27, variant);
    expect_pool_gradient<DType::BF16, 7, 2, R>(33, 50, 9, variant);
    expect_pool_gradient<DType::F32, 6, 8, R>(1, 3, 5, variant);
    expect_pool_gradient<DType::F32, 4, 16, R>(0, 3, 5, variant);
  }
}

TEST(PoolGradient, EveryReduction) {
  expect_pool_gradients<Reduction::Max>();
  expect_pool_gradients<Reduction::Average>();
  expect_pool_gradients<Reduction::Sum>();
}

}  // namespace
}  // namespace minuet
