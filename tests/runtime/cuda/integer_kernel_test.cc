// The fused kernel with 8-bit tensors, on a GPU: the bytes that exact integers and the fixed steps in fp32
// give, for all roads of the weights, units, and ways to share the work.
#include "tests/kernels_templates/integer_problem.h"
#include "tests/runtime/cuda/launch_fixture.h"
#include "tests/support/integer_layer.h"

namespace minuet {
namespace {

class IntegerKernelTest : public LaunchTest {
 protected:
  /// Runs a kernel and compares its outputs with the expected ones. Integers may differ by `steps`.
  void expect_exact(FusedSpec spec, const FusedShapeOfMap& shape, u64 seed,
                    Magnitudes magnitudes = Magnitudes::Usual, float steps = 0);
};

void IntegerKernelTest::expect_exact(FusedSpec spec, const FusedShapeOfMap& shape, u64 seed,
                                     Magnitudes magnitudes, float steps) {
  spec = with_accesses(spec);
  if (!missing_arch(emit(spec), device().info().arch).empty()) return;
  SCOPED_TRACE(display_name(spec));
  constexpr i64 kPadding = 70;
  IntegerProblem problem(spec, shape, seed, magnitudes);
  const auto kernel = load(MINUET_SOURCE_DIR, spec);
  const i32 count = static_cast<i32>(shape.queries);
  StoredRows first(fused_output_type(spec), count + kPadding + 2, spec.out_channels, spec.out_channels);
  StoredRows next(fused_second_type(spec), count + kPadding + 2, spec.out_channels, spec.out_channels);
  const TestBuffer input(device(), problem.input.bytes), residual(device(), problem.residual.bytes),
      image(device(), problem.image), rows(device(), problem.map.rows), masks(device(), problem.map.masks),
      order(device(), problem.map.order), scale(device(), problem.scale), shift(device(), problem.shift),
      residual_factor(device(), problem.residual_factor), second_scale(device(), problem.second_scale),
      second_shift(device(), problem.second_shift), words(device(), std::vector<i32>{count, 0, 0, 0});
  StoredRows other(fused_shortcut_type(spec), count + kPadding + 2, spec.out_channels, spec.out_channels);
  const TestBuffer shortcut_image(device(), spec.shortcut ? problem.shortcut_image : std::vector<char>(16)),
      shortcut_scale(device(), problem.shortcut_scale), shortcut_shift(device(), problem.shortcut_shift);
  const i64 capacity = count + kPadding + 1000;
  FusedParams p{};
  p.input = input.as<>();
  p.input_ld = static_cast<i32>(problem.input.ld);
  p.rows = rows.as<const i32>();
  p.masks = masks.as<const u32>();
  p.row_stride = static_cast<i32>(problem.map.row_stride);
  p.order = shape.ordered ? order.as<const i32>() : nullptr;
  p.ordered_views = shape.ordered_views;
  p.query_count = words.as<const i32>();
  p.padded_rows = count + kPadding;
  p.weights = image.as<>();
  p.scale = scale.as<const float>();
  p.shift = shift.as<const float>();
  p.residual_factor = residual_factor.as<const float>();
  p.residual = residual.as<>();
  p.residual_ld = static_cast<i32>(problem.residual.ld);
  p.output_ld = spec.out_channels;
  p.overflow = words.as<u32>() + 1;
  p.overflow_mark = 1;
  p.slope = kSlope;
  p.output_factor = problem.output_factor;
  p.second_factor = problem.second_factor;
  const std::vector<char> poison = first.bytes, second_poison = next.bytes, shortcut_poison = other.bytes;
  for (int again = 0; again < (on_software_device() ? 1 : 5); ++again) {
    const TestBuffer output(device(), poison), second(device(), second_poison),
        shortcut(device(), shortcut_poison);
    p.shortcut = {static_cast<u32>(fused_blocks(spec, capacity)),
                  shortcut_image.as<>(),
                  shortcut_scale.as<const float>(),
                  shortcut_shift.as<const float>(),
                  shortcut.as<>(),
                  spec.out_channels,
                  words.as<u32>() + 3};
    p.output = output.as<>();
    p.second = {second_scale.as<const float>(),
                second_shift.as<const float>(),
                second.as<>(),
                spec.out_channels,
                words.as<u32>() + 2,
                kSecondSlope};
    // Few persistent blocks have several tiles each.
    take(launcher().launch(kernel, spec.persistent ? 5 : fused_grid(spec, capacity), p));
    take(launcher().wait());
    first.bytes = output.read<char>();
    next.bytes = second.read<char>();
    other.bytes = shortcut.read<char>();
    if (spec.shortcut) {
      ASSERT_EQ(difference_of(other, problem.shortcut, count, kPadding), "") << "shortcut";
    } else {
      ASSERT_EQ(other.bytes, shortcut_poison);
    }
    ASSERT_EQ(difference_of(first, problem.expected, count, kPadding, steps), "") << "launch " << again;
    if (spec.second_output) {
      ASSERT_EQ(difference_of(next, problem.second, count, kPadding, steps), "") << "second output";
    } else {
      ASSERT_EQ(next.bytes, second_poison);
    }
  }
  EXPECT_EQ(words.read<i32>(), (std::vector<i32>{count, 0, 0, 0}));
}

/// Every road of the weights by warps, with channels that fill steps and that do not.
TEST_F(IntegerKernelTest, RoadsOfWarps) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  u64 seed = 300;
  for (const DType io : {DType::U8, DType::S8}) {
    for (const WeightRoad road :
         {WeightRoad::Cached, WeightRoad::AsyncCopy, WeightRoad::BulkCopy, WeightRoad::BulkRefill}) {
      FusedSpec spec{.io = io, .weights = road};
      spec.step = 64;
      expect_exact(spec, shape, ++seed);
      spec.in_channels = 48, spec.out_channels = 96, spec.columns = 96, spec.step = 96;
      spec.row_tiles = 1, spec.split = 2, spec.residual = true, spec.prefetch = 3;
      spec.output_type = FusedType::F16, spec.residual_type = FusedType::S8;
      expect_exact(spec, shape, ++seed);
      if (few && io == DType::S8) continue;
      spec.in_channels = 33, spec.out_channels = 17, spec.columns = 32, spec.step = 64;
      spec.output_type = FusedType::S8, spec.residual_type = FusedType::U8,
      spec.activation = Activation::LeakyReLU;
      expect_exact(spec, {.queries = 500, .sources = 400, .ordered_views = false}, ++seed);
      if (few) continue;
      spec.in_channels = 128, spec.out_channels = 128, spec.columns = 64, spec.warps = 2, spec.volume = 125;
      spec.row_tiles = 4, spec.prefetch = 2;
      expect_exact(spec, {.queries = 700, .sources = 900, .density = 0.1}, ++seed);
    }
    for (const i32 channels : {1, 3, 4, 8, 16}) {
      FusedSpec folds{.io = io, .in_channels = channels, .out_channels = 32, .step = 128, .columns = 32};
      folds.weights = channels == 8 ? WeightRoad::AsyncCopy : WeightRoad::Cached;
      expect_exact(folds, shape, ++seed);
    }
  }
}

TEST_F(IntegerKernelTest, Warpgroups) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  u64 seed = 400;
  for (const DType io : {DType::U8, DType::S8}) {
    FusedSpec group{.io = io, .step = 64, .warps = 4, .stages = 3, .weights = WeightRoad::BulkRefill};
    group.unit = MmaUnit::Warpgroup, group.programmatic = true;
    expect_exact(group, shape, ++seed);
    group.weights = WeightRoad::BulkCopy, group.in_channels = group.out_channels = group.columns = 96;
    group.step = 128, group.blocks = 3, group.residual = true, group.early_loads = true, group.prefetch = 1;
    expect_exact(group, shape, ++seed);
    group.in_channels = 128, group.out_channels = 128, group.columns = 128;
    group.warps = few ? 4 : 12, group.cluster = few ? 2 : 4, group.blocks = 1;
    group.activation = Activation::LeakyReLU, group.output_type = FusedType::S8;
    expect_exact(group, {.queries = few ? 70 : 3001, .sources = 80}, ++seed);
    group.second_output = true, group.second_activation = Activation::ReLU,
    group.second_type = FusedType::F16;
    expect_exact(group, {.queries = few ? 70 : 3001, .sources = 80}, ++seed);
    group.weights = WeightRoad::BulkRefill, group.in_channels = 256, group.step = 256, group.stages = 2;
    expect_exact(group, {.queries = few ? 70 : 3001, .sources = 80}, ++seed, Magnitudes::Extreme);
    // Steps that end with a half piece of 32 bytes.
    FusedSpec half{.io = io, .in_channels = 96, .out_channels = 96, .step = 96, .columns = 96, .warps = 4};
    half.unit = MmaUnit::Warpgroup, half.weights = WeightRoad::BulkCopy, half.early_loads = true,
    half.blocks = 3;
    expect_exact(half, shape, ++seed);
    half.step = 32, half.weights = WeightRoad::BulkRefill, half.stages = 6;
    expect_exact(half, shape, ++seed);
    half.in_channels = half.step = 160, half.out_channels = half.columns = 48;
    expect_exact(half, shape, ++seed);
    for (const i32 columns : {16, 32, 48, 64, 80, 112}) {
      if (few && columns != 48) continue;
      FusedSpec narrow{.io = io, .in_channels = 40, .out_channels = columns, .step = 64, .columns = columns};
      narrow.unit = MmaUnit::Warpgroup, narrow.weights = WeightRoad::BulkCopy, narrow.volume = 8;
      expect_exact(narrow, {.queries = 200, .sources = 150}, ++seed);
    }
  }
}

TEST_F(IntegerKernelTest, ClustersOfWarps) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 61 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  for (const DType io : {DType::U8, DType::S8}) {
    FusedSpec spec{
        .io = io, .out_channels = 128, .step = 32, .columns = 128, .row_tiles = 1, .warps = 2, .split = 2};
    spec.cluster = 2, spec.stages = 6, spec.weights = WeightRoad::BulkRefill, spec.residual = true;
    expect_exact(spec, shape, 500);
    spec.weights = WeightRoad::AsyncCopy, spec.programmatic = true, spec.output_type = FusedType::F32;
    expect_exact(spec, shape, 501);
  }
}

TEST_F(IntegerKernelTest, Shortcuts) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{
      .queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25, .empty_every = 5};
  u64 seed = 700;
  for (const DType io : {DType::U8, DType::S8}) {
    FusedSpec spec{
        .io = io, .output_type = FusedType::U8, .shortcut_type = FusedType::S8, .step = 64, .shortcut = true};
    expect_exact(spec, shape, ++seed);
    spec.activation = Activation::LeakyReLU, spec.shortcut_type = FusedType::U8,
    spec.output_type = FusedType::S8;
    spec.weights = WeightRoad::BulkRefill, spec.warps = 2, spec.split = 2, spec.cluster = 2, spec.stages = 8;
    expect_exact(spec, shape, ++seed);
    FusedSpec group{
        .io = io, .output_type = FusedType::U8, .shortcut_type = FusedType::S8, .in_channels = 128};
    group.out_channels = group.columns = 96, group.step = 128, group.unit = MmaUnit::Warpgroup,
    group.shortcut = true;
    group.weights = WeightRoad::BulkCopy, group.early_loads = true, group.blocks = 3;
    expect_exact(group, shape, ++seed);
    FusedSpec tiles = group;
    tiles.weights = WeightRoad::BulkRefill, tiles.staged_rows = tiles.persistent = true;
    expect_exact(tiles, shape, ++seed);
    tiles.weights = WeightRoad::Resident, tiles.shortcut = false, tiles.stages = 1;
    tiles.in_channels = 32, tiles.step = 64, tiles.warps = few ? 4 : 16, tiles.blocks = 1;
    expect_exact(tiles, shape, ++seed);
  }
}

/// Floating inputs whose outputs have 8 bits, and floating second outputs of 8-bit ones.
TEST_F(IntegerKernelTest, FloatingInputsAndSecondOutputs) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 90 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  u64 seed = 600;
  for (const DType io : {DType::F16, DType::BF16, DType::TF32, DType::F32}) {
    if (few && io != DType::F16) continue;
    FusedSpec first{
        .io = io, .in_channels = 4, .out_channels = 32, .columns = 32, .weights = WeightRoad::Cached};
    first.step = 8 * fused_granule(io), first.output_type = FusedType::U8;
    expect_exact(first, shape, ++seed);
    first.second_output = true, first.second_type = FusedType::F16,
    first.second_activation = Activation::None;
    expect_exact(first, shape, ++seed);
    first.in_channels = 64, first.out_channels = first.columns = 64, first.weights = WeightRoad::AsyncCopy;
    first.step = 2 * fused_granule(io), first.residual = true, first.activation = Activation::LeakyReLU;
    first.output_type = FusedType::S8, first.second_type = FusedType::U8,
    first.second_activation = Activation::ReLU;
    expect_exact(first, shape, ++seed);
  }
}

/// A GPU computes these activations with approximate functions, so that an integer may be the next one.
TEST_F(IntegerKernelTest, OtherActivationsAreWithinOneStep) {
  const bool few = on_software_device();
  const FusedShapeOfMap shape{.queries = few ? 60 : 3001, .sources = few ? 80 : 2500, .density = 0.25};
  u64 seed = 800;
  for (const Activation activation :
       {Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Sigmoid, Activation::Tanh}) {
    for (const DType io : {DType::U8, DType::S8}) {
      FusedSpec spec{.io = io, .output_type = FusedType::S8, .step = 64};
      spec.activation = activation;
      expect_exact(spec, shape, ++seed, Magnitudes::Usual, 1);
      spec.activation = Activation::ReLU, spec.output_type = FusedType::F16;
      spec.second_output = true, spec.second_type = FusedType::U8, spec.second_activation = activation;
      expect_exact(spec, shape, ++seed, Magnitudes::Usual, 1);
      if (few) break;
    }
  }
}

/// Row numbers that the warps stage in shared memory, with and without a shortcut, for every kind of table.
TEST_F(IntegerKernelTest, StagedRows) {
  const bool few = on_software_device();
  const i64 queries = few ? 90 : 3001;
  u64 seed = 900;
  for (const i64 over : {0, 3}) {
    const i64 padding = ordered_row_stride(queries) - queries + over;
    FusedShapeOfMap shape{.queries = queries, .sources = few ? 80 : 2500, .density = 0.25, .empty_every = 5};
    shape.ordered_views = over == 0, shape.stride_padding = padding;
    for (const bool has_shortcut : {false, true}) {
      FusedSpec spec{.io = DType::U8, .shortcut_type = FusedType::S8, .step = 64};
      spec.weights = WeightRoad::AsyncCopy, spec.staged_rows = true, spec.shortcut = has_shortcut;
      expect_exact(spec, shape, ++seed);
      spec.io = DType::S8, spec.weights = WeightRoad::BulkRefill, spec.warps = 2, spec.split = 2;
      spec.stages = 8, spec.output_type = FusedType::U8;
      expect_exact(spec, shape, ++seed);
      FusedSpec group{.io = DType::U8, .shortcut_type = FusedType::S8, .in_channels = 128, .step = 128};
      group.out_channels = group.columns = 96, group.unit = MmaUnit::Warpgroup, group.staged_rows = true;
      group.weights = WeightRoad::BulkCopy, group.early_loads = true, group.blocks = 3;
      group.shortcut = has_shortcut;
      expect_exact(group, shape, ++seed);
    }
  }
}

/// The layers of the CPU's test, with the kernels that are chosen for few and for many rows.
TEST_F(IntegerKernelTest, LayersHaveTheBitsOfTheCpu) {
  gpu().load_map(3);
  for_integer_layers(
      on_software_device() ? 75 : 1000,
      [&](IntegerProblem& layer, const ConvolutionProblem& problem, const IntegerLayerRun& run) {
        for (const i64 rows : {i64{2000}, i64{60000}}) {
          if (on_software_device() && rows > 2000) continue;
          const FusedChoice choice = choose_fused(problem, device().info().arch, rows);
          SCOPED_TRACE(display_name(choice.fused));
          EXPECT_EQ(choice.fused.shortcut, layer.spec.shortcut);
          gpu().load(sources_of(OpChoice(choice)));
          EngineChoice maps;
          maps.map32 = choose_map(KeyType::U32, 3);
          maps.map64 = choose_map(KeyType::U64, 3);
          const std::unique_ptr<Engine> engine = take(static_cast<Device&>(device()).create_engine(maps));
          expect_integer_layer(device(), *engine, choice, layer, run);
        }
      });
}

}  // namespace
}  // namespace minuet
