// The fused kernel with 8-bit tensors, whole, in the shim: every bit as exact integers and the fixed steps in
// fp32 give it, for all roads of the weights, units, and ways to share the work.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/fused/fused_convolution.h"
#include "tests/kernels_templates/integer_problem.h"

namespace minuet {
namespace {

std::vector<Vector<16>> aligned_copy(const std::vector<char>& bytes) {
  std::vector<Vector<16>> memory(bytes.size() / 16 + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(memory.data()));
  return memory;
}

template <FusedSpec S>
void run_kernel_of(const FusedParams& p) {
  fused_convolution<S>(p);
}

void expect_exact(const FusedSpec& spec, void (*kernel)(const FusedParams&), const FusedShapeOfMap& shape,
                  int variant, Magnitudes magnitudes) {
  SCOPED_TRACE(testing::Message() << kDTypeNames[static_cast<int>(spec.io)] << " to "
                                  << kDTypeNames[static_cast<int>(fused_output_type(spec))] << ", "
                                  << spec.in_channels << " to " << spec.out_channels << ", volume "
                                  << spec.volume << ", step " << spec.step << ", columns " << spec.columns
                                  << ", road " << static_cast<int>(spec.weights) << ", split " << spec.split
                                  << ", cluster " << spec.cluster << ", " << shape.queries
                                  << " queries, variant " << variant);
  IntegerProblem problem(spec, shape, 900 + static_cast<u64>(variant), magnitudes);
  const i64 count = shape.queries, padded = variant % 2 == 0 ? 0 : 50;
  const auto rows_of = [&](DType type, i32 gap) {
    return StoredRows(type, count + padded + 2, spec.out_channels,
                      spec.out_channels + gap * fused_access(spec));
  };
  StoredRows first = rows_of(fused_output_type(spec), 2), next = rows_of(fused_second_type(spec), 6);
  const std::vector<Vector<16>> input = aligned_copy(problem.input.bytes),
                                residual = aligned_copy(problem.residual.bytes),
                                image = aligned_copy(problem.image);
  std::vector<Vector<16>> output = aligned_copy(first.bytes), second = aligned_copy(next.bytes);
  const i32 query_count = static_cast<i32>(count);
  u32 overflow = 0, second_overflow = 0;
  FusedParams p{};
  p.input = input.data();
  p.input_ld = static_cast<i32>(problem.input.ld);
  p.rows = problem.map.rows.data();
  p.masks = problem.map.masks.data();
  p.row_stride = static_cast<i32>(problem.map.row_stride);
  p.order = shape.ordered ? problem.map.order.data() : nullptr;
  p.ordered_views = shape.ordered_views;
  p.query_count = &query_count;
  p.padded_rows = count + padded;
  p.weights = image.data();
  p.scale = problem.scale.data();
  p.shift = problem.shift.data();
  p.residual_factor = problem.residual_factor.data();
  p.residual = residual.data();
  p.residual_ld = static_cast<i32>(problem.residual.ld);
  p.output = output.data();
  p.output_ld = static_cast<i32>(first.ld);
  p.overflow = &overflow;
  p.overflow_mark = 1;
  p.slope = kSlope;
  p.output_factor = problem.output_factor;
  p.second_factor = problem.second_factor;
  p.second = {problem.second_scale.data(),
              problem.second_shift.data(),
              second.data(),
              next.ld,
              &second_overflow,
              kSecondSlope};
  const i64 capacity = count + padded + 40;
  shim::Grid grid{static_cast<int>(fused_grid(spec, capacity)), fused_threads(spec),
                  static_cast<shim::Order>(variant % 3), spec.cluster};
  grid.shared_bytes = fused_shared_bytes(spec);
  grid.seed = static_cast<u64>(variant);
  shim::launch(kernel, p, grid);
  std::memcpy(first.bytes.data(), output.data(), first.bytes.size());
  std::memcpy(next.bytes.data(), second.data(), next.bytes.size());
  EXPECT_EQ(difference_of(first, problem.expected, count, padded), "");
  if (spec.second_output) {
    EXPECT_EQ(difference_of(next, problem.second, count, padded), "") << "second output";
  }
  EXPECT_EQ(overflow, 0u);
  EXPECT_EQ(second_overflow, 0u);
}

template <FusedSpec S>
void expect_integers(const FusedShapeOfMap& shape, int variant, Magnitudes magnitudes = Magnitudes::Usual) {
  expect_exact(S, &run_kernel_of<S>, shape, variant, magnitudes);
}

constexpr FusedType kOutputs[] = {FusedType::OfInput, FusedType::U8,   FusedType::F16,
                                  FusedType::S8,      FusedType::BF16, FusedType::F32};

/// A Spec for these channels; the rest takes turns.
constexpr FusedSpec spec_of(DType io, i32 in, i32 out, i32 volume, i32 turn) {
  const i32 granule = fused_granule(io);
  FusedSpec spec;
  spec.io = io;
  spec.output_type = kOutputs[turn % 6];
  spec.residual_type = turn % 3 == 0 ? FusedType::S8 : turn % 3 == 1 ? FusedType::U8 : FusedType::OfInput;
  spec.in_channels = in;
  spec.out_channels = out;
  spec.volume = volume;
  spec.step = folds_offsets(io, in) ? 4 * granule : turn % 2 == 0 ? 3 * granule : 2 * granule;
  spec.columns = out <= 16 ? 16 : out % 96 == 0 ? 96 : turn % 3 == 0 ? 32 : 64;
  spec.row_tiles = 1 << turn % 4;
  spec.warps = 1 + turn / 2 % 2;
  spec.split = 1 + turn / 3 % 2;
  spec.prefetch = 1 + turn % 2;
  spec.stages = 4;
  spec.weights = static_cast<WeightRoad>(turn % 4);
  spec.residual = turn % 4 == 1 || turn % 4 == 2;
  spec.activation = static_cast<Activation>(turn % 5 % 3);
  return with_accesses(spec);
}

template <DType Io, i32 Turn>
void expect_all_channels() {
  expect_integers<spec_of(Io, 1, 16, 27, Turn)>({.queries = 100}, 0);
  expect_integers<spec_of(Io, 3, 5, 27, Turn + 1)>({.queries = 61, .ordered = false}, 1);
  expect_integers<spec_of(Io, 4, 32, 27, Turn + 2)>({.queries = 100}, 2);
  expect_integers<spec_of(Io, 5, 3, 8, Turn + 3)>({.queries = 70, .ordered_views = false}, 3);
  expect_integers<spec_of(Io, 8, 24, 27, Turn + 4)>({.queries = 100}, 4);
  expect_integers<spec_of(Io, 16, 48, 27, Turn + 5)>({.queries = 90}, 5);
  expect_integers<spec_of(Io, 24, 8, 27, Turn + 6)>({.queries = 90, .ordered = false}, 6);
  expect_integers<spec_of(Io, 32, 64, 8, Turn + 7)>({.queries = 80}, 7);
  expect_integers<spec_of(Io, 48, 96, 8, Turn + 8)>({.queries = 80}, 8);
  expect_integers<spec_of(Io, 64, 1, 27, Turn + 9)>({.queries = 80, .ordered_views = false}, 9);
  expect_integers<spec_of(Io, 96, 160, 8, Turn + 10)>({.queries = 60}, 10);
  expect_integers<spec_of(Io, 128, 4, 27, Turn + 11)>({.queries = 60}, 11);
  expect_integers<spec_of(Io, 160, 128, 8, Turn + 12)>({.queries = 60}, 12);
  expect_integers<spec_of(Io, 33, 17, 8, Turn + 13)>({.queries = 60}, 13);
  expect_integers<spec_of(Io, 32, 64, 125, Turn + 14)>({.queries = 60, .density = 0.1}, 14);
}
TEST(FusedIntegers, U8) {
  expect_all_channels<DType::U8, 0>();
  expect_all_channels<DType::U8, 2>();
}
TEST(FusedIntegers, S8) {
  expect_all_channels<DType::S8, 1>();
  expect_all_channels<DType::S8, 3>();
}

}  // namespace
}  // namespace minuet
