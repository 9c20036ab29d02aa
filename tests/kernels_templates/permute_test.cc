// Row and weight permutations: exact copies, nothing else touched.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
#include "tests/support/shim/memory_access.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include "kernels_templates/gmas/permute_rows.h"
#include "kernels_templates/gmas/permute_weights.h"

namespace minuet {
namespace {

template <DType T, i32 Channels, i32 VectorBytes>
void expect_permuted(i64 rows, int variant, i64 count = -1, u32 padding = 0, bool has_index = true,
                     bool has_gaps = false) {
  constexpr PermuteRowsSpec kSpec{.io = T, .channels = Channels, .vector_bytes = VectorBytes, .threads = 64};
  Random random(500 + static_cast<u64>(rows));
  const i64 input_rows = rows + 5;
  Matrix<T> input(input_rows, Channels, Channels + 16), output(rows + 1, Channels, Channels + 32);
  input.fill(random, input_rows);
  // Past the count no index is there: whoever uses one crashes, and AddressSanitizer finds who reads it.
  const i64 indices = count < 0 ? rows : std::min(count, rows);
  std::vector<i32> index(static_cast<std::size_t>(rows), 1 << 30);
  for (i64 i = 0; i < indices; ++i)
    index[i] = static_cast<i32>(has_index ? random.below(static_cast<u64>(input_rows)) : static_cast<u64>(i));
  for (i64 i = 0; has_gaps && i < indices; i += 3) index[static_cast<std::size_t>(i)] = -1;
  const std::size_t absent = static_cast<std::size_t>(rows - indices) * sizeof(i32);
  forbid_access(index.data() + indices, absent);
  const i32 device_count = static_cast<i32>(count);
  shim::launch(
      &permute_rows<kSpec>,
      PermuteRowsParams{input.elements(), input.ld(), has_index ? index.data() : nullptr, rows,
                        count < 0 ? nullptr : &device_count, output.elements(), output.ld(), padding},
      shim::small_grid(variant, kSpec.threads));
  allow_access(index.data() + indices, absent);
  for (i64 row = 0; row <= rows; ++row) {
    for (i64 c = 0; c < (row < rows ? output.ld() : Channels); ++c) {
      const bool is_padding = (count >= 0 && row >= count) || (has_gaps && row % 3 == 0);
      if (row < rows && c < Channels && is_padding) {
        ASSERT_EQ(output.bits(row, c), dtype_bytes(T) == 2 ? padding & 0xffff : padding)
            << "row " << row << " of " << count;
      } else if (row < rows && c < Channels) {
        ASSERT_EQ(output.bits(row, c), input.bits(index[static_cast<std::size_t>(row)], c));
      } else {
        ASSERT_TRUE(output.is_poison(row, c));
      }
    }
  }
}
TEST(PermuteRows, CopiesRowsByIndex) {
  int variant = 0;
  for (const i64 rows : {0, 1, 2, 31, 1000}) {
    expect_permuted<DType::F32, 1, 4>(rows, variant++);
    expect_permuted<DType::F32, 96, 16>(rows, variant++);
    expect_permuted<DType::TF32, 24, 8>(rows, variant++);
    expect_permuted<DType::F16, 3, 2>(rows, variant++);
    expect_permuted<DType::F16, 256, 16>(rows, variant++);
    expect_permuted<DType::BF16, 48, 4>(rows, variant++);
  }
}

TEST(PermuteRows, CopiesRowsInTheirOrderWithoutAnIndex) {
  int variant = 0;
  for (const i64 count : {-1, 0, 99, 101}) {
    expect_permuted<DType::F32, 4, 16>(100, variant++, count, 0, false);
    expect_permuted<DType::F16, 3, 2>(100, variant++, count, 0, false);
    expect_permuted<DType::BF16, 48, 4>(100, variant++, count, 0, false);
  }
}

TEST(PermuteRows, PaddingFromTheCountOn) {
  int variant = 0;
  for (const i64 count : {0, 1, 31, 99, 100, 101}) {
    expect_permuted<DType::F32, 4, 16>(100, variant++, count);
    expect_permuted<DType::F16, 3, 2>(100, variant++, count);
    expect_permuted<DType::F32, 12, 16>(100, variant++, count, ~0u);
    expect_permuted<DType::F16, 3, 2>(100, variant++, count, ~0u);
  }
}

TEST(PermuteRows, PaddingWhereTheIndexIsNegative) {
  int variant = 0;
  for (const i64 count : {-1, 0, 50, 100}) {
    expect_permuted<DType::F32, 4, 16>(100, variant++, count, 0, true, true);
    expect_permuted<DType::F16, 3, 2>(100, variant++, count, ~0u, true, true);
  }
}

template <i32 VectorBytes>
void expect_weights_permuted(i64 vectors, i32 volume, int variant) {
  constexpr PermuteWeightsSpec kSpec{.vector_bytes = VectorBytes, .threads = 64};
  Random random(510);
  const i64 slice = vectors * VectorBytes;
  const std::size_t words = static_cast<std::size_t>(slice * volume / 16 + 2);
  std::vector<Vector<16>> input(words), output = poisoned<Vector<16>>(words);
  for (Vector<16>& v : input) {
    for (u32& word : v.words) word = static_cast<u32>(random.next());
  }
  std::vector<i32> order;
  for (i32 k = 0; k < volume; ++k) order.push_back((k * 7 + 3) % volume);
  shim::launch(&permute_weights<kSpec>,
               PermuteWeightsParams{input.data(), output.data(), order.data(), slice, volume},
               shim::small_grid(variant, kSpec.threads));
  const char* from = reinterpret_cast<const char*>(input.data());
  const char* to = reinterpret_cast<const char*>(output.data());
  for (i32 slot = 0; slot < volume; ++slot) {
    EXPECT_EQ(std::memcmp(to + slot * slice, from + order[slot] * slice, static_cast<std::size_t>(slice)), 0);
  }
  EXPECT_EQ(static_cast<unsigned char>(to[slice * volume]), kPoison);
}
TEST(PermuteWeights, CopiesSlicesByOrder) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_weights_permuted<16>(64, 27, variant);
    expect_weights_permuted<8>(5, 8, variant);
    expect_weights_permuted<2>(9, 27, variant);
    expect_weights_permuted<4>(1, 1, variant);
  }
}

}  // namespace
}  // namespace minuet
