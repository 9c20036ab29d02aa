// Runs the fused kernel whole in the shim, and compares with fp64.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/fused/fused_convolution.h"
#include "tests/kernels_templates/fused_problem.h"

namespace minuet {

template <FusedSpec S>
void run_kernel(const FusedParams& p) {
  fused_convolution<S>(p);
}

using FusedKernel = void (*)(const FusedParams&);

/// Memory aligned as a device's is.
inline std::vector<Vector<16>> aligned(const std::vector<char>& bytes) {
  std::vector<Vector<16>> memory(bytes.size() / 16 + 1);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(memory.data()));
  return memory;
}

struct FusedRun {
  StoredRows output, shortcut, second;
  u32 overflow, shortcut_overflow, second_overflow;
};

/// Rows `ld` elements apart, of which only what is touched takes memory.
class FarRows {
 public:
  FarRows(DType type, i64 rows, i64 ld)
      : pitch_(ld * dtype_bytes(type)),
        bytes_(static_cast<size_t>(rows * pitch_)),
        memory_(static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (memory_ == MAP_FAILED) throw std::runtime_error("no address space for rows far apart");
  }
  FarRows(const FarRows&) = delete;
  ~FarRows() { munmap(memory_, bytes_); }
  char* row(i64 number) { return memory_ + number * pitch_; }

 private:
  i64 pitch_;
  size_t bytes_;
  char* memory_;
};

/// Returns the number of blocks with which a test runs a kernel for up to `capacity` queries. Persistent
/// blocks are few, so that each has several tiles, or so many that most have none.
inline i64 blocks_of_run(const FusedSpec& spec, i64 capacity, int variant) {
  constexpr i64 kFew[] = {1, 2, 5};
  const i64 tiles = fused_grid(spec, capacity);
  return !spec.persistent ? tiles : variant % 4 == 3 ? tiles + 1 : kFew[variant % 4];
}

/// Returns an order of the row blocks of up to `capacity` queries. A persistent kernel needs those with rows
/// in front.
inline std::vector<i32> shuffled_blocks(const FusedSpec& spec, i64 rows, i64 capacity, int variant) {
  std::vector<i32> order(static_cast<size_t>(blocks_of_height(capacity, fused_block_rows(spec))));
  std::iota(order.begin(), order.end(), 0);
  const auto end =
      spec.persistent ? order.begin() + blocks_of_height(rows, fused_block_rows(spec)) : order.end();
  std::shuffle(order.begin(), end, std::mt19937(static_cast<u32>(variant)));
  return order;
}

/// `padded`: how many rows past the count must become zeros. The grid is made for some rows more.
inline FusedRun run_fused(FusedProblem& problem, FusedKernel kernel, i64 padded, int variant) {
  const FusedSpec& spec = problem.spec;
  const i64 count = problem.shape.queries;
  const auto rows_of = [&](i32 gap) {
    return StoredRows(spec.io, count + padded + 2, spec.out_channels,
                      spec.out_channels + gap * spec.output_bytes / dtype_bytes(spec.io));
  };
  FusedRun run{rows_of(2), rows_of(4), rows_of(6), 0, 0, 0};
  const std::vector<Vector<16>> input = aligned(problem.input.bytes),
                                residual = aligned(problem.residual.bytes);
  const std::vector<Vector<16>> image = aligned(problem.image);
  std::vector<Vector<16>> output = aligned(run.output.bytes), shortcut = aligned(run.shortcut.bytes),
                          second = aligned(run.second.bytes), shortcut_image;
  const i32 query_count = static_cast<i32>(count);
  FusedParams p{};
  p.input = input.data();
  p.input_ld = problem.input.ld;
  p.rows = problem.rows.empty() ? nullptr : problem.rows.data();
  p.masks = problem.masks.empty() ? nullptr : problem.masks.data();
  p.row_stride = problem.row_stride;
  p.order = problem.shape.ordered ? problem.order.data() : nullptr;
  p.ordered_views = problem.shape.ordered_views;
  const i64 capacity = count + padded + 40;
  const std::vector<i32> block_order = shuffled_blocks(spec, count + padded, capacity, variant);
  if (variant % 2 == 1) p.block_order = block_order.data();
  p.query_count = &query_count;
  p.reads_early = variant % 2;
  p.padded_rows = count + padded;
  p.weights = image.data();
  p.scale = problem.scale.data();
  p.shift = problem.shift.data();
  p.residual = residual.data();
  p.residual_ld = problem.residual.ld;
  p.output = output.data();
  p.output_ld = run.output.ld;
  p.overflow = &run.overflow;
  p.overflow_mark = 1;
  p.slope = kSlope;
  if (spec.shortcut) {
    shortcut_image = aligned(problem.shortcut_image);
    p.shortcut = {static_cast<u32>(fused_blocks(spec, capacity)),
                  shortcut_image.data(),
                  problem.shortcut_scale.data(),
                  problem.shortcut_shift.data(),
                  shortcut.data(),
                  static_cast<i32>(run.shortcut.ld),
                  &run.shortcut_overflow};
  }
  if (spec.second_output) {
    p.second = {problem.second_scale.data(),
                problem.second_shift.data(),
                second.data(),
                run.second.ld,
                &run.second_overflow,
                kSecondSlope};
  }
  shim::Grid grid{static_cast<int>(blocks_of_run(spec, capacity, variant)), fused_threads(spec),
                  static_cast<shim::Order>(variant % 3), spec.cluster};
  grid.shared_bytes = fused_shared_bytes(spec);
  grid.seed = static_cast<u64>(variant);
  shim::launch(kernel, p, grid);
  std::memcpy(run.output.bytes.data(), output.data(), run.output.bytes.size());
  std::memcpy(run.shortcut.bytes.data(), shortcut.data(), run.shortcut.bytes.size());
  std::memcpy(run.second.bytes.data(), second.data(), run.second.bytes.size());
  return run;
}

/// Nothing but the rows' columns is written; `rows` become zeros from `count` on. What is written up to it.
inline std::vector<float> written_rows(const FusedSpec& spec, StoredRows& output, i64 count, i64 padded) {
  std::vector<float> values;
  for (i64 row = 0; row < count + padded + 2; ++row) {
    const std::vector<float> line = output.row(row);
    if (row < count) values.insert(values.end(), line.begin(), line.end());
    for (i64 c = 0; c < output.ld; ++c) {
      if (row < count && c < spec.out_channels) continue;
      if (row < count + padded && c < spec.out_channels) {
        EXPECT_EQ(line[static_cast<size_t>(c)], 0.0f) << "row " << row << " of padding";
      } else {
        EXPECT_TRUE(output.is_untouched(row, c)) << "row " << row << ", channel " << c;
      }
      if (testing::Test::HasFailure()) return values;
    }
  }
  return values;
}

inline void check_output(FusedProblem& problem, FusedRun& run, i64 padded) {
  const FusedSpec& spec = problem.spec;
  const i64 count = problem.shape.queries;
  const std::vector<float> output = written_rows(spec, run.output, count, padded);
  EXPECT_TRUE(is_close(output, problem.expected, problem.magnitudes, spec.out_channels, spec.io));
  EXPECT_EQ(run.overflow, 0u);
  EXPECT_EQ(run.shortcut_overflow, 0u);
  EXPECT_EQ(run.second_overflow, 0u);
  if (spec.second_output) {
    std::vector<double> sizes;
    const std::vector<double> expected = problem.expect_second(output, sizes);
    EXPECT_TRUE(
        is_close(written_rows(spec, run.second, count, padded), expected, sizes, spec.out_channels, spec.io))
        << "of the second output";
  }
  if (!spec.shortcut) return;
  EXPECT_TRUE(is_close(written_rows(spec, run.shortcut, count, padded), problem.expected_shortcut,
                       problem.shortcut_magnitudes, spec.out_channels, spec.io))
      << "of the shortcut";
}

inline void check_fused(const FusedParameters& parameters, FusedKernel kernel, const FusedShapeOfMap& shape,
                        int variant) {
  const FusedSpec& spec = parameters.spec;
  SCOPED_TRACE(testing::Message() << kDTypeNames[static_cast<int>(spec.io)] << " " << spec.in_channels
                                  << " to " << spec.out_channels << ", volume " << spec.volume << ", step "
                                  << spec.step << ", columns " << spec.columns << ", road "
                                  << static_cast<int>(spec.weights) << ", split " << spec.split
                                  << ", cluster " << spec.cluster << ", shortcut " << spec.shortcut << ", "
                                  << shape.queries << " queries, variant " << variant);
  FusedProblem problem(parameters, shape, 500 + static_cast<u64>(variant));
  const i64 padded = variant % 2 == 0 ? 0 : 50;
  FusedRun run = run_fused(problem, kernel, padded, variant);
  check_output(problem, run, padded);
}

template <FusedSpec S>
void expect_fused(const FusedShapeOfMap& shape, int variant) {
  static const FusedParameters parameters(S, 400);
  check_fused(parameters, &run_kernel<S>, shape, variant);
}

/// A layer with few, many, odd or even numbers of channels, and the queries of its run.
struct FusedLayer {
  i32 in_channels, out_channels, volume;
  FusedShapeOfMap shape;
};
constexpr FusedLayer kFusedLayers[] = {
    {1, 16, 27, {.queries = 100}},
    {3, 5, 27, {.queries = 61, .ordered = false}},
    {4, 32, 27, {.queries = 100}},
    {5, 3, 8, {.queries = 70, .ordered_views = false}},
    {8, 24, 27, {.queries = 100}},
    {16, 48, 27, {.queries = 90}},
    {24, 8, 27, {.queries = 90, .ordered = false}},
    {32, 64, 8, {.queries = 80}},
    {48, 96, 8, {.queries = 80}},
    {64, 1, 27, {.queries = 80, .ordered_views = false}},
    {96, 160, 8, {.queries = 60}},
    {128, 4, 27, {.queries = 60}},
    {160, 128, 8, {.queries = 60}},
    {33, 17, 8, {.queries = 60}},
};
constexpr i32 kFusedLayerCount = sizeof(kFusedLayers) / sizeof(kFusedLayers[0]);

/// Calls check(i) for the index of each element of kFusedLayers. `i` is a std::integral_constant.
template <class Check>
void for_fused_layers(const Check& check) {
  const auto call = [&]<i32... I>(std::integer_sequence<i32, I...>) {
    (check(std::integral_constant<i32, I>()), ...);
  };
  call(std::make_integer_sequence<i32, kFusedLayerCount>());
}

/// Clouds of few queries, or of no pair, with rows of padding and without; `rows`: whole tiles. Then whoever
/// of the warps and the copies is late, up to `turns`.
template <FusedSpec S>
void expect_edges(i64 rows, const FusedShapeOfMap& late, int turns) {
  int variant = 0;
  for (const FusedShapeOfMap& shape :
       {FusedShapeOfMap{.queries = 0}, FusedShapeOfMap{.queries = 1}, FusedShapeOfMap{.queries = rows},
        FusedShapeOfMap{.queries = rows + 1}, FusedShapeOfMap{.queries = 50, .sources = 0},
        FusedShapeOfMap{.queries = 50, .density = 0},
        FusedShapeOfMap{.queries = 50, .density = 1, .empty_every = 0}}) {
    expect_fused<S>(shape, ++variant % 2);
  }
  for (int turn = 2; turn < turns; ++turn) expect_fused<S>(late, turn);
}

}  // namespace minuet
