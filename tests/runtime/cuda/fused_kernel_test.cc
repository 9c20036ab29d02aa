// The fused kernel that the shim runs whole (tests/kernels_templates/fused_test.cc), on a GPU: all types,
// roads of the weights, and ways to share the work.
#include "tests/kernels_templates/fused_problem.h"
#include "tests/runtime/cuda/launch_fixture.h"

namespace minuet {
namespace {

class FusedKernelTest : public LaunchTest, public testing::WithParamInterface<DType> {
 protected:
  void expect_right(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed);
};

void FusedKernelTest::expect_right(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed) {
  if (!missing_arch(emit(spec), device().info().arch).empty()) return;
  SCOPED_TRACE(display_name(spec));
  constexpr i64 kPadding = 70;
  FusedProblem problem(spec, shape, seed);
  const auto kernel = load(MINUET_SOURCE_DIR, spec);
  const i32 count = static_cast<i32>(shape.queries);
  StoredRows stored(spec.io, count + kPadding + 1, spec.out_channels, spec.out_channels);
  const TestBuffer input(device(), problem.input.bytes), residual(device(), problem.residual.bytes),
      image(device(), problem.image), rows(device(), problem.rows), masks(device(), problem.masks),
      order(device(), problem.order), scale(device(), problem.scale), shift(device(), problem.shift),
      words(device(), std::vector<i32>{count, 0, 0, 0});
  FusedParams p{};
  p.input = input.as<>();
  p.input_ld = problem.input.ld;
  p.rows = rows.as<const i32>();
  p.masks = masks.as<const u32>();
  p.row_stride = problem.row_stride;
  p.order = shape.ordered ? order.as<const i32>() : nullptr;
  p.ordered_views = shape.ordered_views;
  p.query_count = words.as<const i32>();
  p.padded_rows = count + kPadding;
  p.weights = image.as<>();
  p.scale = scale.as<const float>();
  p.shift = shift.as<const float>();
  p.residual = residual.as<>();
  p.residual_ld = problem.residual.ld;
  p.output_ld = spec.out_channels;
  p.overflow = words.as<u32>() + 1;
  p.overflow_mark = 1;
  p.slope = kSlope;
  const i64 capacity = count + kPadding + 1000;
  const TestBuffer shortcut_image(device(), spec.shortcut ? problem.shortcut_image : std::vector<char>(16)),
      shortcut_scale(device(), problem.shortcut_scale), shortcut_shift(device(), problem.shortcut_shift),
      second_scale(device(), problem.second_scale), second_shift(device(), problem.second_shift);
  std::vector<char> first, shortcut_bytes, second_bytes;
  const std::vector<char> poison = stored.bytes;
  for (int again = 0; again < (on_software_device() ? 1 : 5); ++again) {
    const TestBuffer output(device(), stored.bytes);
    const TestBuffer shortcut(device(), poison), second(device(), poison);
    p.output = output.as<>();
    p.reads_early = again % 2;  // the launch before writes no maps
    p.shortcut = {static_cast<u32>(fused_blocks(spec, capacity)),
                  shortcut_image.as<>(),
                  shortcut_scale.as<const float>(),
                  shortcut_shift.as<const float>(),
                  shortcut.as<>(),
                  spec.out_channels,
                  words.as<u32>() + 2};
    p.second = {second_scale.as<const float>(),
                second_shift.as<const float>(),
                second.as<>(),
                spec.out_channels,
                words.as<u32>() + 3,
                kSecondSlope};
    // Few persistent blocks have several tiles each.
    take(launcher().launch(kernel, spec.persistent ? 5 : fused_grid(spec, capacity), p));
    take(launcher().wait());
    stored.bytes = output.read<char>();
    shortcut_bytes = shortcut.read<char>();
    second_bytes = second.read<char>();
    std::vector<char> all = stored.bytes;
    all.insert(all.end(), shortcut_bytes.begin(), shortcut_bytes.end());
    all.insert(all.end(), second_bytes.begin(), second_bytes.end());
    if (again == 0) first = all;
    ASSERT_EQ(all, first) << "launch " << again;
  }
  const auto check = [&](const std::vector<char>& bytes, const std::vector<double>& expected,
                         const std::vector<double>& magnitudes) {
    std::vector<float> values = decode(spec.io, bytes);
    const auto padding = values.begin() + i64{count} * spec.out_channels,
               end = padding + kPadding * spec.out_channels;
    EXPECT_TRUE(std::all_of(padding, end, [](float value) { return value == 0; }));
    EXPECT_TRUE(std::all_of(end, values.end(), [](float value) { return std::isnan(value); }));
    values.resize(static_cast<size_t>(i64{count} * spec.out_channels));
    EXPECT_TRUE(is_close(values, expected, magnitudes, spec.out_channels, spec.io));
    return values;
  };
  const std::vector<float> values = check(stored.bytes, problem.expected, problem.magnitudes);
  if (spec.second_output) {
    std::vector<double> sizes;
    const std::vector<double> expected = problem.expect_second(values, sizes);
    check(second_bytes, expected, sizes);
  } else {
    EXPECT_EQ(second_bytes, poison);
  }
  if (spec.shortcut) {
    check(shortcut_bytes, problem.expected_shortcut, problem.shortcut_magnitudes);
  } else {
    EXPECT_EQ(shortcut_bytes, poison);
  }
  EXPECT_THAT(words.read<i32>(), testing::ElementsAre(count, 0, 0, 0));
}

TEST_P(FusedKernelTest, EveryRoad) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  const DType io = GetParam();
  u64 seed = 70 + 100 * static_cast<u64>(io);
  for (const WeightRoad road :
       {WeightRoad::Cached, WeightRoad::AsyncCopy, WeightRoad::BulkCopy, WeightRoad::BulkRefill}) {
    FusedSpec spec{.io = io, .weights = road};
    spec.step = 4 * fused_granule(io);
    expect_right(spec, shape, ++seed);
    spec.in_channels = 48, spec.out_channels = 96, spec.columns = 96, spec.step = 3 * fused_granule(io);
    spec.row_tiles = 1, spec.split = 2, spec.residual = true, spec.prefetch = 3;
    expect_right(spec, shape, ++seed);
    spec.staged_rows = true;
    for (const i64 over : {0, 3}) {
      if (few && over != 0) continue;
      FusedShapeOfMap staged = shape;
      staged.stride_padding = ordered_row_stride(shape.queries) - shape.queries + over;
      expect_right(spec, staged, ++seed);
    }
    spec.staged_rows = false;
    if (few) continue;
    spec.in_channels = 128, spec.out_channels = 128, spec.columns = 64, spec.warps = 2, spec.volume = 125;
    spec.row_tiles = 4, spec.step = 2 * fused_granule(io), spec.prefetch = 2;
    expect_right(spec, {.queries = 700, .sources = 900, .density = 0.1}, ++seed);
  }
  FusedShapeOfMap with_middle = shape;
  with_middle.empty_every = 5;
  FusedSpec first{.io = io, .out_channels = 96, .columns = 96, .weights = WeightRoad::BulkRefill};
  first.step = 2 * fused_granule(io), first.shortcut = true;
  first.activation = Activation::LeakyReLU;
  expect_right(first, with_middle, ++seed);
  first.columns = 48, first.warps = 2, first.split = 2, first.cluster = 2, first.stages = 8;
  expect_right(first, with_middle, ++seed);
  if (io != DType::F32) {
    FusedSpec group{.io = io, .warps = 4, .stages = 3, .weights = WeightRoad::BulkRefill};
    group.unit = MmaUnit::Warpgroup, group.step = 4 * fused_granule(io), group.programmatic = true;
    expect_right(group, shape, ++seed);
    group.activation = Activation::LeakyReLU;
    group.in_channels = 96, group.out_channels = 128, group.columns = 128, group.step = 2 * fused_granule(io);
    group.warps = few ? 4 : 12, group.cluster = 4, group.early_loads = group.residual = true;
    group.prefetch = 1, group.weights = WeightRoad::BulkCopy, group.staged_rows = true;
    expect_right(group, {.queries = few ? 70 : 3001, .sources = 80}, ++seed);
    group.second_output = true, group.second_activation = Activation::ReLU;
    expect_right(group, {.queries = few ? 70 : 3001, .sources = 80}, ++seed);
    group.second_output = false;
    group.residual = false, group.shortcut = true;
    expect_right(group, {.queries = few ? 70 : 3001, .sources = 80, .empty_every = 5}, ++seed);
  }
  FusedSpec clustered{.io = io, .warps = 2, .split = 2, .cluster = 2, .weights = WeightRoad::BulkRefill};
  clustered.step = 2 * fused_granule(io), clustered.stages = 6, clustered.residual = true;
  expect_right(clustered, shape, ++seed);
  clustered.second_output = true, clustered.second_activation = Activation::LeakyReLU;
  for (i32 activation = few ? 6 : 0; activation < kActivations; ++activation) {
    clustered.activation = static_cast<Activation>(activation);
    expect_right(clustered, shape, ++seed);
  }
  FusedSpec stem{
      .io = io, .in_channels = 4, .out_channels = 32, .columns = 32, .weights = WeightRoad::Cached};
  stem.step = 8 * fused_granule(io), stem.input_bytes = 4 * dtype_bytes(io);
  expect_right(stem, shape, ++seed);
  FusedSpec odd{.io = io, .in_channels = 3, .out_channels = 5, .columns = 16, .activation = Activation::None};
  odd.step = 4 * fused_granule(io), odd.input_bytes = odd.output_bytes = dtype_bytes(io);
  expect_right(odd, {.queries = 500, .sources = 400, .ordered_views = false}, ++seed);
  odd.in_channels = 33, odd.out_channels = 17, odd.columns = 32, odd.scale_shift = false;
  expect_right(odd, {.queries = 500, .sources = 400, .ordered = false}, ++seed);
}

/// Five persistent blocks, which have several tiles each.
TEST_P(FusedKernelTest, PersistentBlocks) {
  const bool few = on_software_device();
  const DType io = GetParam();
  if (io == DType::F32) GTEST_SKIP() << "wgmma multiplies no f32";
  const FusedShapeOfMap shape{.queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  FusedShapeOfMap with_middle = shape;
  with_middle.empty_every = 5;
  FusedSpec spec{.io = io, .in_channels = 32, .out_channels = 48, .columns = 48, .warps = 4};
  spec.weights = WeightRoad::BulkRefill, spec.unit = MmaUnit::Warpgroup, spec.prefetch = 2;
  spec.step = 2 * fused_granule(io), spec.early_loads = spec.programmatic = true;
  spec.staged_rows = spec.persistent = true;
  u64 seed = 60 + 100 * static_cast<u64>(io);
  expect_right(spec, shape, ++seed);
  spec.shortcut = true;
  expect_right(spec, with_middle, ++seed);
  spec.shortcut = false, spec.weights = WeightRoad::Resident, spec.stages = 1, spec.warps = 8;
  expect_right(spec, shape, ++seed);
}

// The software device takes one type, because the shim's own tests have all four.
INSTANTIATE_TEST_SUITE_P(Types, FusedKernelTest,
                         testing::ValuesIn(on_software_device()
                                               ? std::vector<DType>{DType::F16}
                                               : std::vector<DType>(std::begin(kDTypes), std::end(kDTypes))),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

}  // namespace
}  // namespace minuet
