// The kernels of dense tensors in the shim, against plain loops.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include "kernels_templates/dense/from_dense.h"
#include "kernels_templates/dense/list_cell_rows.h"
#include "kernels_templates/dense/to_dense.h"

namespace minuet {
namespace {

/// A level in a grid of cells, whose axes a dense tensor stores in any order.
template <i32 Ndim>
struct Level {
  CellGrid grid = {};
  std::vector<i32> coordinates;  // batch first
  std::vector<i32> cells;        // by row, of all items, or -1
  i32 rows() const { return static_cast<i32>(cells.size()); }

  /// `order` is the axes as they are stored. Some coordinates lie outside of the grid.
  Level(Random& random, i32 count, std::vector<i32> shape, std::vector<i32> order, i32 batch, i32 stride) {
    grid.batch = batch, grid.cells = 1;
    for (i32 i = Ndim; i-- > 0;) {
      const i32 axis = order[static_cast<std::size_t>(i)];
      grid.shape[axis] = shape[static_cast<std::size_t>(axis)], grid.tensor_stride[axis] = stride;
      grid.step[axis] = grid.cells;
      grid.cells *= grid.shape[axis];
    }
    std::set<i32> taken;
    for (i32 row = 0; row < count; ++row) {
      const bool is_outside = random.below(8) == 0;
      const i32 cell = static_cast<i32>(random.below(static_cast<u64>(grid.cells * batch)));
      if (!is_outside && !taken.insert(cell).second) continue;
      i32 at = cell % grid.cells;
      std::vector<i32> coordinate{cell / grid.cells};
      coordinate.resize(Ndim + 1);
      for (i32 i = 0; i < Ndim; ++i) {
        const i32 axis = order[static_cast<std::size_t>(i)];
        coordinate[static_cast<std::size_t>(axis + 1)] = at / grid.step[axis] * stride;
        at %= grid.step[axis];
      }
      if (is_outside) {
        const i32 field = static_cast<i32>(random.below(Ndim + 1));
        const i32 most = field == 0 ? batch : grid.shape[field - 1] * stride;
        coordinate[static_cast<std::size_t>(field)] = random.below(2) == 0 ? -stride : most;
      }
      coordinates.insert(coordinates.end(), coordinate.begin(), coordinate.end());
      cells.push_back(is_outside ? -1 : cell);
    }
  }
};

TEST(Dense, CellsOfCoordinates) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(1);
    const Level<3> level(random, 300, {7, 5, 6}, {2, 1, 0}, 3, 4);
    std::vector<i32> rows(static_cast<std::size_t>(level.grid.batch * level.grid.cells), -1);
    const i32 count = level.rows();
    constexpr ListCellRowsSpec kSpec{.ndim = 3, .threads = 64};
    const ListCellRowsParams params{level.coordinates.data(), &count, level.grid, rows.data()};
    shim::launch(&list_cell_rows<kSpec>, params, shim::small_grid(variant, kSpec.threads));
    std::vector<i32> expected(rows.size(), -1);
    for (i32 row = 0; row < count; ++row) {
      const i32 cell = level.cells[static_cast<std::size_t>(row)];
      if (cell >= 0) expected[static_cast<std::size_t>(cell)] = row;
    }
    EXPECT_EQ(rows, expected);
  }
}

/// A dense tensor that begins `shift` elements past a multiple of 16 bytes.
template <DType T>
struct DenseTensor {
  using Element = typename Matrix<T>::Element;
  DenseTensor(i64 size, i64 shift)
      : matrix(1, shift + size + 1, shift + size + 1), size(size), shift(shift) {}
  Element* data() { return matrix.elements() + shift; }
  Matrix<T> matrix;
  i64 size, shift;
};

template <i32 Ndim>
i64 element_of(const CellGrid& grid, i64 channels, i32 cell, i64 c, bool channels_last) {
  const i64 b = cell / grid.cells, at = cell % grid.cells;
  return channels_last ? (b * grid.cells + at) * channels + c : (b * channels + c) * grid.cells + at;
}

template <DType T, i32 Channels, i32 VectorBytes, i32 StoreBytes, bool Last, i32 Ndim>
void expect_dense(std::vector<i32> shape, std::vector<i32> order, i32 count, i64 shift, int variant) {
  constexpr ToDenseSpec kSpec{.io = T,
                              .channels = Channels,
                              .vector_bytes = VectorBytes,
                              .store_bytes = StoreBytes,
                              .channels_last = Last,
                              .threads = 64};
  Random random(5 + static_cast<u64>(count));
  const Level<Ndim> level(random, count, std::move(shape), std::move(order), 3, 2);
  const CellGrid& grid = level.grid;
  Matrix<T> features(level.rows() + 1, Channels, Channels + 16);
  features.fill(random, level.rows());
  // The kernel reads the table in vectors of 16 bytes.
  std::vector<Vector<16>> table(static_cast<std::size_t>(grid.batch * grid.cells / 4 + 1));
  i32* const rows = reinterpret_cast<i32*>(table.data());
  std::fill_n(rows, grid.batch * grid.cells, -1);
  for (i32 row = 0; row < level.rows(); ++row) {
    if (level.cells[static_cast<std::size_t>(row)] >= 0)
      rows[level.cells[static_cast<std::size_t>(row)]] = row;
  }
  DenseTensor<T> output(i64{grid.batch} * grid.cells * Channels, shift);
  u32 overflow = 0;
  ToDenseParams params = {};
  params.input = features.elements(), params.input_ld = features.ld();
  params.rows = rows;
  params.cells = grid.cells, params.batch = grid.batch;
  params.output = output.data(), params.is_aligned = shift == 0 ? 1 : 0;
  params.overflow = &overflow, params.overflow_mark = 7;
  shim::launch(&to_dense<kSpec>, params, shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(overflow, 0u);
  for (i32 cell = 0; cell < grid.batch * grid.cells; ++cell) {
    for (i64 c = 0; c < Channels; ++c) {
      const i64 element = element_of<Ndim>(grid, Channels, cell, c, Last);
      ASSERT_EQ(output.data()[element], rows[cell] < 0 ? 0 : features.bits(rows[cell], c))
          << cell << " " << c;
    }
  }
  for (i64 i = 0; i < shift; ++i) ASSERT_TRUE(output.matrix.is_poison(0, i)) << "before the begin";
  ASSERT_TRUE(output.matrix.is_poison(0, shift + output.size)) << "past the end";

  // Back onto the same rows, which is the identity where a row has a cell.
  constexpr FromDenseSpec kBack{.io = T,
                                .ndim = Ndim,
                                .channels = Channels,
                                .vector_bytes = VectorBytes,
                                .channels_last = Last,
                                .threads = 64};
  const i64 padded = level.rows() + 5;
  Matrix<T> back(padded + 1, Channels, Channels + 16);
  const i32 device_count = level.rows();
  FromDenseParams from = {};
  from.input = output.data(), from.is_aligned = params.is_aligned;
  from.coordinates = level.coordinates.data();
  from.output_count = &device_count, from.output_rows = padded;
  from.pads_output = variant % 2;
  from.grid = grid;
  from.output = back.elements(), from.output_ld = back.ld();
  from.overflow = &overflow, from.overflow_mark = 7;
  shim::launch(&from_dense<kBack>, from, shim::small_grid(variant, kBack.threads));
  EXPECT_EQ(overflow, 0u);
  for (i64 row = 0; row <= padded; ++row) {
    const bool is_there = row < device_count;
    for (i64 c = 0; c < Channels; ++c) {
      if (!is_there && (row == padded || from.pads_output == 0)) {
        ASSERT_TRUE(back.is_poison(row, c));
      } else {
        const bool has_cell = is_there && level.cells[static_cast<std::size_t>(row)] >= 0;
        ASSERT_EQ(back.bits(row, c), has_cell ? features.bits(row, c) : 0u) << row << " " << c;
      }
    }
    ASSERT_TRUE(back.is_poison(row, Channels)) << "past the row";
  }
}

TEST(Dense, ToDenseAndBack) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    for (const i64 shift : {0, 1}) {
      expect_dense<DType::F16, 16, 16, 16, false, 3>({4, 6, 2}, {0, 1, 2}, 60, shift, variant);
      expect_dense<DType::F16, 16, 16, 16, false, 3>({4, 6, 2}, {2, 1, 0}, 60, shift, variant);
      expect_dense<DType::F16, 8, 16, 4, false, 2>({5, 2}, {1, 0}, 8, shift, variant);
      expect_dense<DType::F16, 5, 2, 2, false, 1>({7}, {0}, 9, shift, variant);
      expect_dense<DType::F16, 6, 4, 8, false, 4>({3, 2, 4, 1}, {3, 0, 2, 1}, 40, shift, variant);
      expect_dense<DType::F32, 8, 16, 16, false, 3>({3, 4, 5}, {1, 2, 0}, 50, shift, variant);
      expect_dense<DType::F32, 3, 4, 4, false, 3>({3, 3, 5}, {0, 1, 2}, 50, shift, variant);
      expect_dense<DType::F16, 16, 16, 16, true, 3>({3, 3, 5}, {0, 1, 2}, 50, shift, variant);
      expect_dense<DType::F32, 3, 4, 4, true, 2>({3, 5}, {0, 1}, 0, shift, variant);
    }
  }
}

TEST(Dense, NumbersThatAreNotFiniteAreMarked) {
  constexpr ToDenseSpec kSpec{
      .io = DType::BF16, .channels = 8, .vector_bytes = 16, .store_bytes = 8, .threads = 32};
  for (const float value : {INFINITY, -INFINITY, NAN, 3e38f}) {
    Matrix<DType::BF16> features(1, 8, 8);
    for (i64 c = 0; c < 8; ++c) features.set(0, c, c == 5 ? value : 1.0f);
    std::vector<Vector<16>> table(1, zero_vector<16>());
    i32* const rows = reinterpret_cast<i32*>(table.data());
    rows[0] = rows[1] = rows[2] = -1;
    DenseTensor<DType::BF16> output(32, 0);
    u32 overflow = 0;
    ToDenseParams params = {};
    params.input = features.elements(), params.input_ld = 8;
    params.rows = rows;
    params.cells = 4, params.batch = 1;
    params.output = output.data(), params.is_aligned = 1;
    params.overflow = &overflow, params.overflow_mark = 7;
    shim::launch(&to_dense<kSpec>, params, shim::small_grid(0, kSpec.threads));
    EXPECT_EQ(overflow, std::isfinite(value) ? 0u : 7u);
    EXPECT_EQ(output.data()[5 * 4 + 3], features.bits(0, 5));
  }
}

}  // namespace
}  // namespace minuet
