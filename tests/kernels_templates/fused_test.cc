// The fused kernel and its image of the weights, whole, in the shim: against plain loops in fp64, for all
// types, roads of the weights, channel counts and volumes.
#include "tests/kernels_templates/fused_runs.h"

namespace minuet {
namespace {

/// A Spec for these channels; the rest takes turns.
constexpr FusedSpec spec_of(DType io, i32 in, i32 out, i32 volume, i32 turn) {
  const i32 granule = fused_granule(io);
  FusedSpec spec;
  spec.io = io;
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
  spec.weights = static_cast<WeightRoad>(turn % 3);
  spec.input_bytes = access_of(io, in);
  spec.output_bytes = access_of(io, out);
  spec.scale_shift = turn % 4 != 3;
  spec.residual = turn % 4 == 1;
  spec.activation = static_cast<Activation>(turn % 5 % 3);
  return spec;
}

template <DType Io, i32 Turn>
void expect_all_channels() {
  for_fused_layers([](auto turn) {
    constexpr FusedLayer kLayer = kFusedLayers[turn];
    constexpr FusedSpec kSpec =
        spec_of(Io, kLayer.in_channels, kLayer.out_channels, kLayer.volume, Turn + turn);
    expect_fused<kSpec>(kLayer.shape, turn);
  });
}
TEST(Fused, F16) { expect_all_channels<DType::F16, 0>(); }
TEST(Fused, Bf16) { expect_all_channels<DType::BF16, 1>(); }
TEST(Fused, Tf32) { expect_all_channels<DType::TF32, 2>(); }
TEST(Fused, F32) { expect_all_channels<DType::F32, 3>(); }

template <i32 Volume, WeightRoad Road>
constexpr FusedSpec kVolumeSpec{.in_channels = 16,
                                .out_channels = 16,
                                .volume = Volume,
                                .step = 16,
                                .columns = 16,
                                .warps = 2,
                                .split = 1 + Volume % 2,
                                .weights = Road};

template <i32 Volume>
void expect_volume() {
  for (int variant = 0; variant < 3; ++variant) {
    const FusedShapeOfMap shape{.queries = 70, .density = Volume > 100 ? 0.05 : 0.4, .empty_every = variant};
    expect_fused<kVolumeSpec<Volume, WeightRoad::Cached>>(shape, variant);
    expect_fused<kVolumeSpec<Volume, WeightRoad::AsyncCopy>>(shape, variant);
    expect_fused<kVolumeSpec<Volume, WeightRoad::BulkCopy>>(shape, variant);
  }
  // Steps of several offsets: all of them, of one and of more steps.
  constexpr FusedSpec kFew{.in_channels = 2,
                           .out_channels = 16,
                           .volume = Volume,
                           .step = 64,
                           .columns = 16,
                           .weights = static_cast<WeightRoad>(Volume % 3),
                           .input_bytes = 4};
  expect_fused<kFew>({.queries = 70}, 1);
}
TEST(Fused, Volumes) {
  expect_volume<1>();
  expect_volume<8>();
  expect_volume<27>();
  expect_volume<32>();
  expect_volume<33>();
  expect_volume<125>();
  expect_volume<343>();
}

template <WeightRoad Road>
constexpr FusedSpec kSmall{.in_channels = 32,
                           .out_channels = 32,
                           .step = 32,
                           .columns = 32,
                           .row_tiles = 1,
                           .warps = 2,
                           .split = 2,
                           .weights = Road,
                           .residual = true};

TEST(Fused, EdgesAndTurns) {
  expect_edges<kSmall<WeightRoad::Cached>>(16, {.queries = 61}, 12);
  expect_edges<kSmall<WeightRoad::AsyncCopy>>(16, {.queries = 61}, 12);
  expect_edges<kSmall<WeightRoad::BulkCopy>>(16, {.queries = 61}, 12);
}

/// Of all types and roads, with masks of one word and of more, shared by warps and by blocks.
template <DType Io, WeightRoad Road>
void expect_shortcuts() {
  constexpr i32 kGranule = fused_granule(Io), kCluster = Road == WeightRoad::Cached ? 1 : 2;
  constexpr FusedSpec kWhole{.io = Io,
                             .in_channels = 3 * kGranule,
                             .out_channels = 48,
                             .step = kGranule,
                             .columns = 32,
                             .row_tiles = 1,
                             .warps = 2,
                             .split = 2,
                             .weights = Road,
                             .shortcut = true,
                             .activation = Activation::LeakyReLU};
  constexpr FusedSpec kWords{.io = Io,
                             .in_channels = 2 * kGranule,
                             .out_channels = 32,
                             .volume = 125,
                             .step = kGranule,
                             .columns = 32,
                             .warps = 2,
                             .cluster = kCluster,
                             .weights = Road,
                             .scale_shift = false,
                             .shortcut = true,
                             .activation = Activation::None};
  expect_edges<kWhole>(16, {.queries = 61, .empty_every = 5}, 5);
  for (int turn = 0; turn < 4; ++turn) {
    expect_fused<kWhole>({.queries = 70, .ordered_views = turn % 2 == 0}, turn);  // none has the offset
    expect_fused<kWords>({.queries = 70, .empty_every = 5, .ordered = turn % 2 == 0}, turn);
  }
}
TEST(Fused, Shortcuts) {
  expect_shortcuts<DType::F16, WeightRoad::Cached>();
  expect_shortcuts<DType::BF16, WeightRoad::AsyncCopy>();
  expect_shortcuts<DType::TF32, WeightRoad::BulkCopy>();
  expect_shortcuts<DType::F32, WeightRoad::BulkRefill>();
}

/// Steps take several offsets, whatever the masks say.
TEST(Fused, NoQueriesOfFewChannels) {
  constexpr FusedSpec kFolds{.in_channels = 4,
                             .out_channels = 16,
                             .step = 64,
                             .columns = 16,
                             .weights = WeightRoad::Cached,
                             .input_bytes = 8};
  for (int variant = 0; variant < 4; ++variant) expect_fused<kFolds>({.queries = 0}, variant);
}

/// A linear layer, of which the numbers of bytes between rows need more than 32 bits.
TEST(Fused, RowsFarApart) {
  constexpr FusedSpec kLinear{
      .in_channels = 16, .out_channels = 16, .volume = 1, .step = 16, .columns = 16, .residual = true};
  constexpr i64 kRows = 40, kApart = i64{1} << 26;
  FusedProblem problem(kLinear, {.queries = kRows, .sources = kRows, .density = 1, .ordered = false}, 9);
  FarRows input(DType::F16, kRows, kApart), residual(DType::F16, kRows, kApart),
      output(DType::F16, kRows, kApart);
  for (i64 row = 0; row < kRows; ++row) {
    std::memcpy(input.row(row), problem.input.at(row, 0), 32);
    std::memcpy(residual.row(row), problem.residual.at(row, 0), 32);
  }
  const std::vector<Vector<16>> image = aligned(problem.image);
  const i32 count = kRows;
  u32 overflow = 0;
  FusedParams p{};
  p.input = input.row(0), p.residual = residual.row(0), p.output = output.row(0);
  p.input_ld = p.residual_ld = p.output_ld = kApart;
  p.rows = problem.rows.data(), p.masks = problem.masks.data();
  p.row_stride = static_cast<i32>(problem.row_stride);
  p.query_count = &count;
  p.weights = image.data(), p.scale = problem.scale.data(), p.shift = problem.shift.data();
  p.overflow = &overflow;
  p.overflow_mark = 1;
  shim::Grid grid{static_cast<int>(fused_blocks(kLinear, kRows)), fused_threads(kLinear)};
  grid.shared_bytes = fused_shared_bytes(kLinear);
  shim::launch(&run_kernel<kLinear>, p, grid);
  std::vector<char> stored;
  for (i64 row = 0; row < kRows; ++row) stored.insert(stored.end(), output.row(row), output.row(row) + 32);
  EXPECT_TRUE(is_close(decode(DType::F16, stored), problem.expected, problem.magnitudes, 16, DType::F16));
}

template <bool ScaleShift, bool Residual, Activation A>
constexpr FusedSpec kEpilogue{.in_channels = 16,
                              .out_channels = 24,
                              .volume = 8,
                              .step = 16,
                              .columns = 32,
                              .scale_shift = ScaleShift,
                              .residual = Residual,
                              .activation = A};
/// Every activation of both outputs, with and without a residual, in every kind of block.
template <i32 Number>
constexpr FusedSpec kActivated{.io = Number % 3 == 0   ? DType::F16
                                     : Number % 3 == 1 ? DType::BF16
                                                       : DType::F32,
                               .in_channels = 24,
                               .out_channels = Number % 2 == 0 ? 24 : 40,
                               .volume = 8,
                               .step = 16,
                               .columns = 32,
                               .split = Number % 4 == 1 ? 2 : 1,
                               .cluster = Number % 4 == 2 ? 2 : 1,
                               .scale_shift = Number % 4 != 3,
                               .residual = Number % 2 == 0,
                               .activation = static_cast<Activation>(Number),
                               .second_output = true,
                               .second_activation = static_cast<Activation>((Number + 3) % kActivations)};
template <i32... Numbers>
void expect_activations(std::integer_sequence<i32, Numbers...>) {
  (expect_fused<kActivated<Numbers>>({.queries = 40}, Numbers), ...);
}
TEST(Fused, EveryActivationAndSecondOutput) {
  expect_activations(std::make_integer_sequence<i32, kActivations>());
}

TEST(Fused, EveryEpilogue) {
  expect_fused<kEpilogue<false, false, Activation::None>>({.queries = 40}, 0);
  expect_fused<kEpilogue<false, false, Activation::ReLU>>({.queries = 40}, 1);
  expect_fused<kEpilogue<false, true, Activation::None>>({.queries = 40}, 2);
  expect_fused<kEpilogue<false, true, Activation::ReLU>>({.queries = 40}, 3);
  expect_fused<kEpilogue<true, false, Activation::None>>({.queries = 40}, 4);
  expect_fused<kEpilogue<true, false, Activation::ReLU>>({.queries = 40}, 5);
  expect_fused<kEpilogue<true, true, Activation::None>>({.queries = 40}, 6);
  expect_fused<kEpilogue<true, true, Activation::ReLU>>({.queries = 40}, 7);
  expect_fused<kEpilogue<false, false, Activation::LeakyReLU>>({.queries = 40}, 8);
  expect_fused<kEpilogue<false, true, Activation::LeakyReLU>>({.queries = 40}, 9);
  expect_fused<kEpilogue<true, false, Activation::LeakyReLU>>({.queries = 40}, 10);
  expect_fused<kEpilogue<true, true, Activation::LeakyReLU>>({.queries = 40}, 11);
}

// A linear layer has no map: each query's source is the row of its own number.
template <FusedSpec S>
void expect_linear() {
  FusedProblem problem(S, {.queries = 45, .sources = 46, .density = 1, .ordered = false}, 9);
  problem.rows.clear();
  for (i32 q = 0; q < 45; ++q) problem.rows.push_back(q + 1);
  problem.row_stride = 45;
  problem.expect();
  // Row 0, which is NaN, stays out: queries begin at row 1.
  problem.input.bytes.erase(problem.input.bytes.begin(), problem.input.bytes.begin() + problem.input.ld * 2);
  problem.rows.clear();
  problem.masks.clear();
  FusedRun run = run_fused(problem, &run_kernel<S>, 0, 0);
  check_output(problem, run, 0);
}
TEST(Fused, LinearLayers) {
  expect_linear<FusedSpec{.in_channels = 32, .out_channels = 48, .volume = 1, .step = 32, .columns = 48}>();
  expect_linear<FusedSpec{.in_channels = 8,
                          .out_channels = 16,
                          .volume = 1,
                          .step = 32,
                          .columns = 16,
                          .weights = WeightRoad::Cached}>();
}

/// The word that tells of an overflow, where one sum is this.
template <DType T, Activation A = Activation::None>
u32 overflow_of(float input, float scale) {
  constexpr FusedSpec kSpec{.io = T,
                            .in_channels = 1,
                            .out_channels = 4,
                            .volume = 1,
                            .step = 4 * fused_granule(T),
                            .columns = 16,
                            .warps = 1,
                            .weights = WeightRoad::Cached,
                            .input_bytes = dtype_bytes(T),
                            .output_bytes = 4 * dtype_bytes(T),
                            .activation = A};
  FusedProblem problem(kSpec, {.queries = 9, .sources = 9, .ordered = false}, 1);
  for (i64 row = 0; row < 9; ++row) problem.input.set(row, 0, row == 5 ? input : 1.0f);
  problem.weights = {1, 1, 1, 1};
  problem.scale = {1, 1, scale, 1};
  problem.shift = {0, 0, 0, 0};
  problem.settle();
  problem.rows.clear();
  problem.masks.clear();
  FusedRun run = run_fused(problem, &run_kernel<kSpec>, 0, 0);
  if (A == Activation::None) {
    EXPECT_EQ(run.overflow == 0, std::isfinite(run.output.row(5)[2])) << input;
  }
  return run.overflow;
}
TEST(Fused, NumbersThatMemoryDoesNotHoldAreTold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(overflow_of<DType::F16>(2.0f, 0x1.ffdffep14f), 0u);  // the last below 65520
  EXPECT_EQ(overflow_of<DType::F16>(2.0f, -32760.0f), 1u);
  EXPECT_EQ(overflow_of<DType::BF16>(2.0f, 32760.0f), 0u);
  EXPECT_EQ(overflow_of<DType::BF16>(2.0f, 0x1.ffp126f), 1u);
  EXPECT_EQ(overflow_of<DType::TF32>(2.0f, 0x1.8p126f), 0u);
  EXPECT_EQ(overflow_of<DType::F32>(3.4e38f, 1.0f), 0u);
  EXPECT_EQ(overflow_of<DType::F16>(std::numeric_limits<float>::quiet_NaN(), 1.0f), 1u);
  // A ReLU makes 0 of both; the second is what a sum of 16-bit parts overflowed to.
  EXPECT_EQ((overflow_of<DType::F16, Activation::ReLU>(1.0f, -1e6f)), 0u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::ReLU>(-kInfinity, 1.0f)), 1u);
  // A leaky ReLU keeps both, unless the slope brings the first back into range.
  EXPECT_EQ((overflow_of<DType::F16, Activation::LeakyReLU>(1.0f, -1e6f)), 1u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::LeakyReLU>(1.0f, -1e5f)), 0u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::LeakyReLU>(-kInfinity, 1.0f)), 1u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::Sigmoid>(1.0f, -1e6f)), 0u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::Tanh>(-kInfinity, 1.0f)), 1u);
}

void expect_whole_image(const FusedImage& spec) {
  SCOPED_TRACE(testing::Message() << spec.in_channels << " to " << spec.out_channels << ", step "
                                  << spec.step);
  std::vector<i32> times(static_cast<size_t>(i64{spec.volume} * spec.in_channels * spec.out_channels));
  const i64 elements = fused_image_bytes(spec) / dtype_bytes(spec.io);
  for (i64 i = 0; i < elements; ++i) {
    const i64 source = fused_weight_of(spec, i);
    ASSERT_LT(source, static_cast<i64>(times.size()));
    if (source >= 0) ++times[static_cast<size_t>(source)];
  }
  EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](i32 count) { return count == 1; }));
}
TEST(Fused, EveryWeightIsOnceInTheImage) {
  for (const DType io : {DType::F16, DType::F32}) {
    const i32 granule = fused_granule(io);
    for (const auto& [in, out] :
         {std::pair{1, 1}, {4, 32}, {7, 5}, {16, 96}, {48, 48}, {96, 112}, {100, 64}}) {
      for (const i32 columns : {16, 48, 64, 112}) {
        for (const i32 step : {2 * granule, 4 * granule, 6 * granule})
          expect_whole_image({.io = io,
                              .in_channels = in,
                              .out_channels = out,
                              .volume = in < 16 ? 27 : 5,  // steps of several offsets
                              .step = step,
                              .columns = columns});
      }
    }
  }
}

}  // namespace
}  // namespace minuet
