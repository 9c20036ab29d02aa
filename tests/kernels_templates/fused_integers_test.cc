// The fused kernel with 8-bit tensors, whole, in the shim: every bit as exact integers and the fixed steps in
// fp32 give it, for all roads of the weights, units, and ways to share the work.
#include "tests/kernels_templates/fused_runs.h"
#include "tests/kernels_templates/integer_problem.h"

namespace minuet {
namespace {

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
  const std::vector<Vector<16>> input = aligned(problem.input.bytes),
                                residual = aligned(problem.residual.bytes), image = aligned(problem.image);
  StoredRows other = rows_of(fused_shortcut_type(spec), 4);
  const std::vector<Vector<16>> shortcut_image = aligned(problem.shortcut_image);
  std::vector<Vector<16>> output = aligned(first.bytes), second = aligned(next.bytes),
                          shortcut = aligned(other.bytes);
  const i32 query_count = static_cast<i32>(count);
  u32 overflow = 0, second_overflow = 0, shortcut_overflow = 0;
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
  p.shortcut = {static_cast<u32>(fused_blocks(spec, capacity)),
                shortcut_image.data(),
                problem.shortcut_scale.data(),
                problem.shortcut_shift.data(),
                shortcut.data(),
                static_cast<i32>(other.ld),
                &shortcut_overflow};
  shim::Grid grid{static_cast<int>(blocks_of_run(spec, capacity, variant)), fused_threads(spec),
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
  std::memcpy(other.bytes.data(), shortcut.data(), other.bytes.size());
  if (spec.shortcut) {
    EXPECT_EQ(difference_of(other, problem.shortcut, count, padded), "") << "shortcut";
  }
  EXPECT_EQ(shortcut_overflow, 0u);
  EXPECT_EQ(overflow, 0u);
  EXPECT_EQ(second_overflow, 0u);
}

template <FusedSpec S>
void expect_integers(const FusedShapeOfMap& shape, int variant, Magnitudes magnitudes = Magnitudes::Usual) {
  expect_exact(S, &run_kernel<S>, shape, variant, magnitudes);
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
  for_fused_layers([](auto turn) {
    constexpr FusedLayer kLayer = kFusedLayers[turn];
    constexpr FusedSpec kSpec =
        spec_of(Io, kLayer.in_channels, kLayer.out_channels, kLayer.volume, Turn + turn);
    expect_integers<kSpec>(kLayer.shape, turn);
  });
  expect_integers<spec_of(Io, 32, 64, 125, Turn + kFusedLayerCount)>({.queries = 60, .density = 0.1},
                                                                     kFusedLayerCount);
}
TEST(FusedIntegers, U8) {
  expect_all_channels<DType::U8, 0>();
  expect_all_channels<DType::U8, 2>();
}
TEST(FusedIntegers, S8) {
  expect_all_channels<DType::S8, 1>();
  expect_all_channels<DType::S8, 3>();
}

/// A Spec by warpgroups; the rest takes turns.
constexpr FusedSpec group_spec(DType io, i32 in, i32 out, i32 columns, i32 volume, i32 turn) {
  FusedSpec spec = spec_of(io, in, out, volume, turn);
  const i32 piece = 2 * fused_granule(io);
  spec.step = turn % 2 == 0 && in > piece ? 2 * piece : piece;
  spec.columns = columns;
  spec.row_tiles = 2;
  spec.warps = turn % 3 == 0 ? 8 : 4;
  spec.split = 1;
  spec.cluster = turn % 4 == 3 ? 1 : 1 << turn % 4;
  spec.stages = 2 + turn % 3;
  spec.weights = turn % 2 == 0 ? WeightRoad::BulkRefill : WeightRoad::BulkCopy;
  spec.unit = MmaUnit::Warpgroup;
  spec.early_loads = turn / 2 % 2 == 0;
  spec.programmatic = turn % 3 == 1;
  return spec;
}

constexpr FusedSpec with_step(FusedSpec spec, i32 step) {
  spec.step = step;
  return spec;
}

template <DType Io, i32 Turn>
void expect_all_groups() {
  expect_integers<group_spec(Io, 32, 32, 32, 27, Turn)>({.queries = 150}, 0);
  expect_integers<group_spec(Io, 64, 64, 64, 27, Turn + 1)>({.queries = 130, .ordered = false}, 1);
  expect_integers<group_spec(Io, 96, 96, 96, 8, Turn + 2)>({.queries = 70}, 2);
  expect_integers<with_step(group_spec(Io, 96, 96, 96, 8, Turn + 2), 96)>({.queries = 70}, 9);
  expect_integers<with_step(group_spec(Io, 160, 48, 48, 27, Turn + 3), 160)>({.queries = 70}, 10);
  expect_integers<with_step(group_spec(Io, 32, 64, 64, 27, Turn), 32)>({.queries = 70}, 11);
  expect_integers<group_spec(Io, 128, 128, 128, 8, Turn + 3)>({.queries = 70, .ordered_views = false}, 3);
  expect_integers<group_spec(Io, 64, 20, 32, 27, Turn + 4)>({.queries = 90}, 4);
  expect_integers<group_spec(Io, 40, 80, 80, 8, Turn + 5)>({.queries = 65}, 5);
  expect_integers<group_spec(Io, 33, 112, 112, 8, Turn + 6)>({.queries = 64}, 6);
  expect_integers<group_spec(Io, 64, 48, 48, 125, Turn + 7)>({.queries = 100, .density = 0.05}, 7);
  expect_integers<group_spec(Io, 256, 160, 16, 8, Turn + 8)>({.queries = 60}, 8);
}
TEST(FusedIntegers, WarpgroupsOfU8) { expect_all_groups<DType::U8, 0>(); }
TEST(FusedIntegers, WarpgroupsOfS8) { expect_all_groups<DType::S8, 5>(); }

/// Blocks of a cluster, whose warps also share the work.
constexpr FusedSpec clustered(DType io, WeightRoad road, i32 cluster, i32 turn) {
  FusedSpec spec = spec_of(io, 64, 128, 27, turn);
  spec.step = 32, spec.columns = 128, spec.row_tiles = 1, spec.warps = 2, spec.split = 2, spec.stages = 6;
  spec.cluster = cluster, spec.weights = road, spec.residual = true;
  return spec;
}
TEST(FusedIntegers, Clusters) {
  expect_integers<clustered(DType::U8, WeightRoad::AsyncCopy, 2, 1)>({.queries = 61}, 1);
  expect_integers<clustered(DType::S8, WeightRoad::BulkCopy, 2, 2)>({.queries = 61}, 2);
  expect_integers<clustered(DType::U8, WeightRoad::BulkRefill, 2, 3)>({.queries = 61}, 3);
}

/// All sums as large as they can be: the outputs are at the ends of their range, and no sum overflows.
TEST(FusedIntegers, ExtremeNumbers) {
  expect_integers<spec_of(DType::U8, 64, 32, 27, 1)>({.queries = 70, .density = 1}, 1, Magnitudes::Extreme);
  expect_integers<spec_of(DType::S8, 64, 32, 27, 5)>({.queries = 70, .density = 1}, 2, Magnitudes::Extreme);
  expect_integers<group_spec(DType::U8, 128, 64, 64, 27, 2)>({.queries = 70, .density = 1}, 3,
                                                             Magnitudes::Extreme);
  expect_integers<group_spec(DType::S8, 128, 64, 64, 27, 1)>({.queries = 70, .density = 1}, 4,
                                                             Magnitudes::Extreme);
}

/// Both outputs of every pair of types, with every activation.
template <i32 Number>
constexpr FusedSpec two_outputs() {
  constexpr DType kInputs[] = {DType::U8, DType::F16, DType::S8, DType::BF16, DType::U8, DType::F32};
  FusedSpec spec = spec_of(kInputs[Number % 6], 24, Number % 2 == 0 ? 24 : 40, 8, Number);
  spec.step = 2 * fused_granule(spec.io), spec.columns = 32;
  // A floating tensor that 8-bit layers read too, and the reverse.
  spec.output_type = Number % 2 == 0 ? FusedType::F16 : Number % 3 == 0 ? FusedType::S8 : FusedType::U8;
  spec.second_type = Number % 2 == 1 ? FusedType::BF16 : Number % 3 == 0 ? FusedType::S8 : FusedType::U8;
  if (!is_integer(spec.io)) spec.residual_type = FusedType::OfInput;
  spec.activation = static_cast<Activation>(Number % kActivations);
  spec.second_output = true;
  spec.second_activation = static_cast<Activation>((Number * 3 + 1) % kActivations);
  return with_accesses(spec);
}
template <i32... Numbers>
void expect_two_outputs(std::integer_sequence<i32, Numbers...>) {
  (expect_integers<two_outputs<Numbers>()>({.queries = 40}, Numbers), ...);
}
TEST(FusedIntegers, SecondOutputsAndActivations) {
  expect_two_outputs(std::make_integer_sequence<i32, 2 * kActivations>());
}

/// The first layer of a network, whose input is floating and whose output has 8 bits.
constexpr FusedSpec first_layer(DType io, i32 in, FusedType output, Activation activation, bool residual) {
  FusedSpec spec = spec_of(io, in, 32, 27, 2);
  spec.step = 4 * fused_granule(io);
  spec.residual_type = FusedType::OfInput;
  spec.output_type = output, spec.activation = activation, spec.residual = residual;
  return with_accesses(spec);
}
TEST(FusedIntegers, FloatingInputs) {
  expect_integers<first_layer(DType::F16, 4, FusedType::U8, Activation::ReLU, false)>({.queries = 90}, 1);
  expect_integers<first_layer(DType::BF16, 3, FusedType::S8, Activation::None, true)>({.queries = 90}, 2);
  expect_integers<first_layer(DType::F32, 32, FusedType::S8, Activation::LeakyReLU, true)>({.queries = 90},
                                                                                           3);
  expect_integers<first_layer(DType::TF32, 32, FusedType::U8, Activation::Silu, false)>({.queries = 90}, 4);
}

/// Shortcuts of every unit and road, whose outputs have the type of the other output and another one.
constexpr FusedSpec with_shortcut(FusedSpec spec, FusedType output, FusedType shortcut) {
  spec.residual = false, spec.shortcut = true;
  spec.output_type = output, spec.shortcut_type = shortcut;
  return with_accesses(spec);
}
TEST(FusedIntegers, Shortcuts) {
  const FusedShapeOfMap shape{.queries = 90, .empty_every = 5};
  expect_integers<with_shortcut(spec_of(DType::U8, 64, 32, 27, 4), FusedType::U8, FusedType::S8)>(shape, 1);
  expect_integers<with_shortcut(spec_of(DType::S8, 48, 96, 27, 5), FusedType::U8, FusedType::U8)>(shape, 2);
  expect_integers<with_shortcut(spec_of(DType::U8, 33, 17, 27, 6), FusedType::S8, FusedType::F16)>(shape, 3);
  expect_integers<with_shortcut(group_spec(DType::U8, 128, 96, 96, 27, 5), FusedType::U8, FusedType::S8)>(
      shape, 4);
  expect_integers<with_shortcut(with_step(group_spec(DType::U8, 96, 64, 64, 27, 4), 96), FusedType::F16,
                                FusedType::S8)>(shape, 5);
  FusedSpec constexpr kActivated = [] {
    FusedSpec spec = with_shortcut(spec_of(DType::U8, 64, 32, 27, 7), FusedType::U8, FusedType::S8);
    spec.activation = Activation::LeakyReLU;
    return spec;
  }();
  expect_integers<kActivated>(shape, 6);
}

/// Row numbers that the warps stage in shared memory, for every kind of table, whose copies are aligned or
/// not.
constexpr FusedSpec staged(FusedSpec spec) {
  spec.staged_rows = true;
  return spec;
}
template <FusedSpec S>
void expect_staged() {
  static_assert(fused_stages_rows(S));
  constexpr i64 kQueries = 90;
  int variant = 0;
  for (const i64 over : {0, 3}) {
    FusedShapeOfMap shape{.queries = kQueries, .empty_every = 5};
    shape.stride_padding = ordered_row_stride(kQueries) - kQueries + over;
    expect_integers<S>(shape, variant++);
    shape.ordered_views = false;
    expect_integers<S>(shape, variant++);
    shape.ordered = false;
    expect_integers<S>(shape, variant++);
  }
}
TEST(FusedIntegers, StagedRows) {
  expect_staged<staged(spec_of(DType::U8, 64, 32, 27, 1))>();
  expect_staged<staged(spec_of(DType::S8, 48, 96, 8, 6))>();
  expect_staged<staged(group_spec(DType::U8, 128, 64, 64, 27, 4))>();
}
TEST(FusedIntegers, StagedRowsWithShortcuts) {
  expect_staged<staged(with_shortcut(spec_of(DType::S8, 48, 96, 27, 7), FusedType::U8, FusedType::S8))>();
  expect_staged<staged(
      with_shortcut(group_spec(DType::U8, 128, 96, 96, 27, 5), FusedType::S8, FusedType::U8))>();
}

/// Blocks that compute one tile after another, with weights in a ring and with weights that stay.
constexpr FusedSpec persistent(FusedSpec spec) {
  spec.weights = WeightRoad::BulkRefill, spec.warps = 4, spec.cluster = 1, spec.persistent = true;
  return staged(spec);
}
constexpr FusedSpec resident(FusedSpec spec) {
  spec.weights = WeightRoad::Resident, spec.stages = spec.cluster = 1, spec.persistent = true;
  return staged(spec);
}
TEST(FusedIntegers, PersistentBlocks) {
  expect_staged<persistent(group_spec(DType::U8, 128, 96, 96, 27, 4))>();
  expect_staged<persistent(group_spec(DType::S8, 64, 96, 48, 8, 6))>();
  expect_staged<persistent(
      with_shortcut(group_spec(DType::U8, 128, 96, 96, 27, 2), FusedType::U8, FusedType::S8))>();
}
TEST(FusedIntegers, PersistentBlocksWithResidentWeights) {
  expect_staged<resident(group_spec(DType::U8, 32, 64, 64, 27, 0))>();
  expect_staged<resident(group_spec(DType::S8, 64, 48, 48, 27, 5))>();
}

TEST(FusedIntegers, FewQueriesAndNone) {
  constexpr FusedSpec kWarps = spec_of(DType::U8, 32, 32, 27, 1),
                      kGroups = group_spec(DType::S8, 64, 64, 64, 27, 4);
  constexpr FusedSpec kFolds = spec_of(DType::U8, 4, 32, 27, 2);
  int variant = 0;
  for (const FusedShapeOfMap& shape :
       {FusedShapeOfMap{.queries = 0}, FusedShapeOfMap{.queries = 1}, FusedShapeOfMap{.queries = 65},
        FusedShapeOfMap{.queries = 50, .sources = 0}, FusedShapeOfMap{.queries = 50, .density = 0}}) {
    expect_integers<kWarps>(shape, ++variant);
    expect_integers<kGroups>(shape, ++variant);
    expect_integers<kFolds>(shape, ++variant);
  }
}

}  // namespace
}  // namespace minuet
