// The depthwise kernel in the shim, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels_templates/features.h"
// The kernel comes after features.h, which defines the shim's names that it uses.
#include "kernels_templates/depthwise/depthwise.h"

namespace minuet {
namespace {

enum class View { Alone, Plain, PlainInOrder, Ordered };  // Alone: without rows, for one offset

struct DepthwiseMap {
  i64 count = 0, output_rows = 0;
  View view = View::Plain;
};

/// A map of `count` queries and what the kernel reads of it.
struct DepthwiseTables {
  std::vector<i32> of_query;  // [volume][count], -1 where there is no row
  std::vector<i32> rows, order;
  std::vector<u32> masks;
  i64 stride = 0;

  DepthwiseTables(const DepthwiseMap& map, i32 volume, i64 input_rows, Random& random) {
    const i64 words = (volume + 31) / 32;
    stride = map.output_rows + 3;
    for (i64 i = 0; i < volume * map.count; ++i) {
      const bool present = map.view == View::Alone || random.below(3) != 0;
      const i64 row =
          map.view == View::Alone ? i : static_cast<i64>(random.below(static_cast<u64>(input_rows)));
      of_query.push_back(present ? static_cast<i32>(row) : -1);
    }
    for (i64 q = 0; q < map.count; ++q) order.push_back(static_cast<i32>(q));
    for (i64 q = map.count - 1; q > 0; --q) std::swap(order[q], order[random.below(static_cast<u64>(q + 1))]);
    // What has no bit in the mask must not be read, so it is a row far away.
    rows.assign(static_cast<std::size_t>(volume * stride), 1 << 30);
    masks.assign(static_cast<std::size_t>(words * stride), 0);
    for (i64 i = 0; i < map.count; ++i) {
      const i64 q = map.view == View::Ordered ? order[i] : i;
      for (i32 k = 0; k < volume; ++k) {
        const i32 row = of_query[k * map.count + q];
        if (row < 0) continue;
        rows[k * stride + i] = row;
        masks[k / 32 * stride + i] |= 1u << k % 32;
      }
    }
  }
};

template <DepthwiseSpec S>
void expect_depthwise(const DepthwiseMap& map, int variant) {
  constexpr i64 kIn = S.in_channels, kOut = S.out_channels;
  SCOPED_TRACE(testing::Message() << kIn << " to " << kOut << ", " << map.count << " of " << map.output_rows
                                  << ", view " << static_cast<int>(map.view));
  Random random(700 + static_cast<u64>(map.count) + static_cast<u64>(S.volume));
  const i64 input_rows = map.count + 7;
  Matrix<S.io> input(input_rows, kIn, kIn + 16), residual(map.output_rows, kOut, kOut + 16),
      output(map.output_rows + 1, kOut, kOut + 32), second(map.output_rows + 1, kOut, kOut + 16),
      weights(S.volume, kOut, kOut);
  input.fill(random, input_rows), residual.fill(random, map.output_rows), weights.fill(random, S.volume);
  std::vector<float> scale, shift;
  for (i64 c = 0; c < kOut; ++c) {
    scale.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
    shift.push_back(static_cast<float>(random.uniform(-1, 1)));
  }
  const DepthwiseTables tables(map, S.volume, input_rows, random);
  const i32 device_count = static_cast<i32>(map.count);
  u32 overflow = 0;
  DepthwiseParams params = {};
  params.input = input.elements(), params.input_ld = input.ld();
  if (map.view != View::Alone) params.rows = tables.rows.data(), params.masks = tables.masks.data();
  params.row_stride = tables.stride;
  if (map.view == View::PlainInOrder || map.view == View::Ordered) params.order = tables.order.data();
  params.ordered_views = map.view == View::Ordered ? 1 : 0;
  params.query_count = &device_count;
  params.padded_rows = map.output_rows > map.count ? map.output_rows : 0;
  params.weights = weights.elements();
  params.scale = scale.data(), params.shift = shift.data();
  params.residual = residual.elements(), params.residual_ld = residual.ld();
  params.output = output.elements(), params.output_ld = output.ld();
  params.overflow = &overflow, params.overflow_mark = 5;
  params.second = {scale.data(), shift.data(), second.elements(), second.ld(), &overflow, 0};
  shim::launch(&depthwise<S>, params, shim::small_grid(variant, S.threads));
  EXPECT_EQ(overflow, 0u);
  const double bound = S.io == DType::F32 ? 1e-5 : S.io == DType::BF16 ? 1.6e-2 : 2e-3;
  for (i64 row = 0; row < map.output_rows; ++row) {
    for (i64 c = 0; c < kOut; ++c) {
      double sum = 0, size = 1;
      for (i32 k = 0; k < S.volume && row < map.count; ++k) {
        const i32 source = tables.of_query[k * map.count + row];
        if (source < 0) continue;
        const double product = input.at(source, c / (kOut / kIn)) * weights.at(k, c);
        sum += product, size += std::abs(product);
      }
      double value = 0;
      if (row < map.count) {
        value = S.scale_shift ? sum * scale[c] + shift[c] : sum;
        if (S.residual) value += residual.at(row, c);
        if (S.activation == Activation::ReLU) value = std::max(value, 0.0);
      }
      ASSERT_NEAR(output.at(row, c), value, bound * (size + 2)) << row << " " << c;
      if (!S.second_output) continue;
      const double next = row < map.count ? std::max(output.at(row, c) * scale[c] + shift[c], 0.0) : 0.0;
      ASSERT_NEAR(second.at(row, c), next, bound * (std::abs(next) + 2)) << row << " " << c;
    }
    ASSERT_TRUE(output.is_poison(row, kOut)) << "past the row";
  }
  ASSERT_TRUE(output.is_poison(map.output_rows, 0)) << "past the last row";
  ASSERT_EQ(second.is_poison(0, 0), !S.second_output || map.output_rows == 0);
}

template <DepthwiseSpec S>
void expect_on_maps() {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    for (const View view : {View::Plain, View::PlainInOrder, View::Ordered}) {
      expect_depthwise<S>({70, 70, view}, variant);
      expect_depthwise<S>({33, 90, view}, variant);
      expect_depthwise<S>({1, 1, view}, variant);
      expect_depthwise<S>({0, 5, view}, variant);
    }
    if constexpr (S.volume == 1) expect_depthwise<S>({40, 44, View::Alone}, variant);
  }
}

constexpr DepthwiseSpec spec_of(DType io, i32 in, i32 out, i32 volume, i32 vector_bytes) {
  return {.io = io,
          .in_channels = in,
          .out_channels = out,
          .volume = volume,
          .vector_bytes = vector_bytes,
          .threads = 64,
          .residual = true};
}

TEST(Depthwise, EveryType) {
  expect_on_maps<spec_of(DType::F16, 64, 64, 27, 16)>();
  expect_on_maps<spec_of(DType::BF16, 40, 40, 27, 16)>();
  expect_on_maps<spec_of(DType::F32, 24, 24, 8, 16)>();
  expect_on_maps<spec_of(DType::TF32, 24, 24, 8, 16)>();
}

TEST(Depthwise, OddChannelsAndWideRows) {
  expect_on_maps<spec_of(DType::F16, 5, 5, 27, 2)>();
  expect_on_maps<spec_of(DType::F32, 3, 3, 27, 4)>();
  expect_on_maps<spec_of(DType::F16, 264, 264, 8, 16)>();
  expect_on_maps<spec_of(DType::F16, 12, 12, 27, 8)>();
}

TEST(Depthwise, Multipliers) {
  expect_on_maps<spec_of(DType::F16, 8, 16, 27, 16)>();
  expect_on_maps<spec_of(DType::F16, 8, 32, 8, 16)>();
  expect_on_maps<spec_of(DType::F16, 4, 64, 8, 16)>();
  expect_on_maps<spec_of(DType::F16, 5, 15, 8, 2)>();
  expect_on_maps<spec_of(DType::F32, 2, 8, 8, 16)>();
}

TEST(Depthwise, KernelsOfOneOffsetAndOfManyWords) {
  expect_on_maps<spec_of(DType::F16, 16, 16, 1, 16)>();
  expect_on_maps<spec_of(DType::F16, 16, 16, 125, 16)>();
}

TEST(Depthwise, SecondOutputAndBareSums) {
  constexpr DepthwiseSpec kSecond{.io = DType::F16,
                                  .in_channels = 16,
                                  .out_channels = 16,
                                  .threads = 64,
                                  .activation = Activation::None,
                                  .second_output = true,
                                  .second_activation = Activation::ReLU};
  expect_on_maps<kSecond>();
  constexpr DepthwiseSpec kBare{.io = DType::F32,
                                .in_channels = 16,
                                .out_channels = 16,
                                .rows = 1,
                                .threads = 64,
                                .scale_shift = false,
                                .activation = Activation::None};
  expect_on_maps<kBare>();
}

/// An infinite weight of an offset without a row changes nothing, and an overflow is told.
TEST(Depthwise, Overflow) {
  constexpr DepthwiseSpec kSpec{.io = DType::F16,
                                .in_channels = 8,
                                .out_channels = 8,
                                .volume = 2,
                                .threads = 64,
                                .scale_shift = false,
                                .activation = Activation::ReLU};
  const auto mark_of = [&](float feature, float weight, u32 mask) {
    Matrix<DType::F16> input(1, 8, 8), output(1, 8, 8), weights(2, 8, 8);
    for (i64 c = 0; c < 8; ++c) {
      input.set(0, c, feature), weights.set(0, c, weight);
      weights.set(1, c, std::numeric_limits<float>::infinity());
    }
    const i32 rows[] = {0, 0}, count = 1;
    u32 overflow = 0;
    DepthwiseParams params = {};
    params.input = input.elements(), params.input_ld = 8;
    params.rows = rows, params.masks = &mask, params.row_stride = 1;
    params.query_count = &count;
    params.weights = weights.elements();
    params.output = output.elements(), params.output_ld = 8;
    params.overflow = &overflow, params.overflow_mark = 9;
    shim::launch(&depthwise<kSpec>, params, shim::small_grid(0, kSpec.threads));
    return overflow;
  };
  EXPECT_EQ(mark_of(2, 3, 1), 0u);
  EXPECT_EQ(mark_of(60000, 3, 1), 9u);
  EXPECT_EQ(mark_of(2, 3, 3), 9u);
  EXPECT_EQ(mark_of(-2, 3, 3), 9u) << "a ReLU hides a sum of minus infinity";
}

}  // namespace
}  // namespace minuet
