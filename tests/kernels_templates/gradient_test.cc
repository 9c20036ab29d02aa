// The kernels of the gradients of weights, biases, scales and shifts in the shim, against plain loops.
#include "tests/kernels_templates/gradient_lists.h"
// The kernels come after gradient_lists.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "kernels_templates/gradient/add_parts.h"
#include "kernels_templates/gradient/add_row_sums.h"
#include "kernels_templates/gradient/measure_rows.h"
#include "kernels_templates/gradient/sum_products.h"
#include "kernels_templates/gradient/sum_rows.h"
#include "kernels_templates/gradient/weight_gradient.h"
#include "kernels_templates/gradient/weight_gradient_scalar.h"
#include "kernels_templates/gradient/weight_gradient_warpgroups.h"

namespace minuet {
namespace {

struct Sizes {
  i32 groups = 1, group_inputs = 0, group_outputs = 0;
  i32 outputs() const { return groups * group_outputs; }
};

/// Expects the bits of `result`, which has the order of spconv, in the order of offsets that two axes count
/// down, input channels and output channels. Four of these are stored at once if they can be.
template <class LaunchAdd>
void expect_other_order(AddPartsParams& add, const std::vector<float>& result, const LaunchAdd& launch_add) {
  const i64 of_offset = i64{add.inputs} * add.outputs;
  const AddPartsParams before = add;
  add.axes = 2;
  add.axis_sizes[0] = add.volume % 2 == 0 ? 2 : 1, add.axis_sizes[1] = add.volume / add.axis_sizes[0];
  add.axis_strides[0] = of_offset, add.axis_strides[1] = add.axis_sizes[0] * of_offset;
  add.input_stride = add.outputs, add.output_stride = 1;
  add.stores_vectors = add.outputs % 4 == 0 ? 1 : 0;
  const std::vector<float> other = launch_add();
  for (i32 k = 0; k < add.volume; ++k) {
    const i64 offset = k / add.axis_sizes[1] + i64{k % add.axis_sizes[1]} * add.axis_sizes[0];
    for (i64 i = 0; i < add.inputs; ++i) {
      for (i64 o = 0; o < add.outputs; ++o) {
        const float want = result[static_cast<std::size_t>((o * add.volume + k) * add.inputs + i)];
        const float got = other[static_cast<std::size_t>(offset * of_offset + i * add.outputs + o)];
        ASSERT_EQ(bits_of(got), bits_of(want)) << k << " " << i << " " << o;
      }
    }
  }
  add = before;
}

/// Runs the kernels of a weight's gradient and expects what plain loops compute. Returns the bits.
template <DType T, class Launch>
std::vector<float> expect_weight_gradient(const Pairs& pairs, const Sizes& sizes, i32 wanted_parts,
                                          const SlotLayout& layout, bool adds, const Launch& launch) {
  Random random(5 + static_cast<u64>(sizes.group_inputs));
  const i64 input_rows = 90, output_rows = 80, inputs = i64{sizes.groups} * sizes.group_inputs;
  Matrix<T> input(input_rows, inputs, inputs + 16),
      gradient(output_rows, sizes.outputs(), sizes.outputs() + 16);
  input.fill(random, input_rows), gradient.fill(random, output_rows);
  for (i64 c = 0; c < inputs; ++c) input.set(input_rows - 1, c, NAN);
  const Steps steps(pairs);
  WeightGradientParams params = {};
  // The columns of the rows are exchanged every other time.
  std::vector<i32> list = pairs.list;
  for (std::size_t i = 0; adds && i < list.size(); i += 3) std::swap(list[i + 1], list[i + 2]);
  params.pairs = list.data();
  params.input_column = adds ? 2 : 1;
  params.first_pair = steps.first_pair.data(), params.first_step = steps.first_step.data();
  params.volume = pairs.volume, params.wanted_parts = wanted_parts;
  params.groups = sizes.groups;
  params.group_inputs = sizes.group_inputs, params.group_outputs = sizes.group_outputs;
  params.input = input.elements(), params.input_rows = input_rows, params.input_ld = input.ld();
  params.gradient = gradient.elements();
  params.gradient_rows = output_rows, params.gradient_ld = gradient.ld();
  params.layout = layout;
  const i64 parts = parts_of(steps.steps(), wanted_parts);
  std::vector<float> sums =
      poisoned<float>(static_cast<std::size_t>((parts + pairs.volume) * layout.elements));
  params.sums = sums.data();
  launch(params);

  // A thread adds four output channels, or one where they cannot be divided so.
  constexpr AddPartsSpec kAdd{.vector = 4, .threads = 64};
  constexpr AddPartsSpec kAddOne{.vector = 1, .threads = 64};
  AddPartsParams add = {};
  add.first_step = steps.first_step.data();
  add.volume = pairs.volume, add.wanted_parts = wanted_parts;
  add.inputs = sizes.group_inputs, add.outputs = sizes.outputs();
  add.layout = layout;
  add.sums = sums.data();
  // The order of spconv: the output channel first.
  add.axes = 1;
  add.axis_sizes[0] = pairs.volume;
  add.axis_strides[0] = sizes.group_inputs;
  add.input_stride = 1;
  add.output_stride = i64{pairs.volume} * sizes.group_inputs;
  add.adds = adds ? 1 : 0;
  const auto count = static_cast<std::size_t>(add.output_stride * sizes.outputs());
  const bool has_vectors = sizes.group_outputs % 4 == 0;
  const auto launch_add = [&] {
    std::vector<float> result = adds ? std::vector<float>(count, 3.0f) : poisoned<float>(count);
    add.weight_gradient = result.data();
    shim::launch(has_vectors ? &add_parts<kAdd> : &add_parts<kAddOne>, add,
                 {.blocks = 3, .threads = kAdd.threads});
    return result;
  };
  const std::vector<float> result = launch_add();
  expect_other_order(add, result, launch_add);

  // The operands are converted once, because many products have each of them.
  const auto operands = [](const Matrix<T>& matrix, i64 rows, i64 channels) {
    std::vector<double> values;
    for (i64 row = 0; row < rows; ++row) {
      for (i64 c = 0; c < channels; ++c) {
        const double value = matrix.at(row, c);
        values.push_back(T == DType::TF32 ? static_cast<double>(
                                                float_of(round_to_tf32(bits_of(static_cast<float>(value)))))
                                          : value);
      }
    }
    return values;
  };
  const std::vector<double> input_values = operands(input, input_rows, inputs),
                            gradient_values = operands(gradient, output_rows, sizes.outputs());
  std::vector<std::vector<std::array<i64, 2>>> rows_of_offset(static_cast<std::size_t>(pairs.volume));
  for (std::size_t i = 0; i < pairs.list.size(); i += 3) {
    const i64 in = pairs.list[i + 1], out = pairs.list[i + 2];
    if (in >= 0 && out < output_rows)
      rows_of_offset[static_cast<std::size_t>(pairs.list[i])].push_back({in * inputs, out * sizes.outputs()});
  }
  for (i32 k = 0; k < pairs.volume; ++k) {
    for (i32 i = 0; i < sizes.group_inputs; ++i) {
      for (i32 o = 0; o < sizes.outputs(); ++o) {
        double sum = 0, size = 0;
        const double* const inputs_of = &input_values[o / sizes.group_outputs * sizes.group_inputs + i];
        const double* const gradients_of = &gradient_values[o];
        for (const auto& [in, out] : rows_of_offset[static_cast<std::size_t>(k)]) {
          const double product = inputs_of[in] * gradients_of[out];
          sum += product, size += std::abs(product);
        }
        if (adds) sum += 3;
        const float got =
            result[static_cast<std::size_t>(o * add.output_stride + k * sizes.group_inputs + i)];
        EXPECT_NEAR(static_cast<double>(got), sum, 2e-6 * (size + 3)) << k << " " << i << " " << o;
        if (std::abs(static_cast<double>(got) - sum) > 2e-6 * (size + 3)) return result;
      }
    }
  }
  return result;
}

template <WeightGradientSpec S>
constexpr auto* kernel_of() {
  return &weight_gradient<S>;
}
template <WarpgroupGradientSpec S>
constexpr auto* kernel_of() {
  return &weight_gradient_warpgroups<S>;
}

template <auto S>
void expect_tensor(const Pairs& pairs, const Sizes& sizes, i32 wanted_parts, bool adds) {
  SCOPED_TRACE(testing::Message() << sizes.groups << " groups of " << sizes.group_inputs << " to "
                                  << sizes.group_outputs << ", " << pairs.count() << " pairs, "
                                  << wanted_parts << " parts");
  const auto tiles = [](i32 channels, i32 tile) { return (channels + tile - 1) / tile; };
  const i32 tiles_in = tiles(sizes.group_inputs, S.tile_in),
            tiles_out = tiles(sizes.group_outputs, S.tile_out);
  SlotLayout layout{sizes.group_outputs, tiles_in * S.tile_in, tiles_out * S.tile_out, 0};
  layout.elements = i64{sizes.groups} * layout.rows * layout.columns;
  std::vector<float> first;
  for (const i32 walkers : {3, 1, 2}) {
    const std::vector<float> got = expect_weight_gradient<S.io>(
        pairs, sizes, wanted_parts, layout, adds, [&](WeightGradientParams params) {
          params.tiles_in = tiles_in, params.tiles_out = tiles_out;
          params.reads_early = walkers % 3;
          const i32 all = sizes.groups * tiles_in * tiles_out;
          // In each order of the threads, copies land at other times.
          shim::launch(kernel_of<S>(), params,
                       {.blocks = walkers * all,
                        .threads = weight_gradient_threads(S),
                        .order = static_cast<shim::Order>(walkers - 1),
                        .shared_bytes = gradient_shared_bytes(S),
                        .seed = static_cast<u64>(walkers) - 1});
        });
    if (first.empty()) first = got;
    ASSERT_EQ(std::memcmp(first.data(), got.data(), got.size() * sizeof(float)), 0) << "with " << walkers;
  }
}

template <WeightGradientScalarSpec S>
void expect_scalar(const Pairs& pairs, const Sizes& sizes, i32 wanted_parts, bool adds) {
  SCOPED_TRACE(testing::Message() << sizes.groups << " groups of " << sizes.group_inputs << " to "
                                  << sizes.group_outputs);
  const i32 tiles_in = (sizes.group_inputs + S.lanes * S.inputs - 1) / (S.lanes * S.inputs);
  const i32 tiles_out = (sizes.outputs() + S.tile_out - 1) / S.tile_out;
  SlotLayout layout{sizes.outputs(), tiles_in * S.lanes * S.inputs, tiles_out * S.tile_out, 0};
  layout.elements = i64{layout.rows} * layout.columns;
  expect_weight_gradient<S.io>(pairs, sizes, wanted_parts, layout, adds, [&](WeightGradientParams params) {
    params.tiles_in = tiles_in, params.tiles_out = tiles_out;
    shim::launch(&weight_gradient_scalar<S>, params,
                 {.blocks = 2 * tiles_in * tiles_out, .threads = weight_gradient_threads(S)});
  });
}

const std::vector<i32> kCounts{70, 0, 129, 64, 0, 1, 0, 2};

template <DType T>
constexpr WeightGradientSpec spec_of(i32 tile_in, i32 tile_out, i32 warps_in, i32 warps_out, i32 stages,
                                     i32 vector_bytes) {
  return {.io = T,
          .tile_in = tile_in,
          .tile_out = tile_out,
          .warps_in = warps_in,
          .warps_out = warps_out,
          .stages = stages,
          .vector_bytes = vector_bytes};
}

TEST(Gradient, OfWeightsByTensorCores) {
  Random random(2);
  const Pairs pairs = random_pairs(random, kCounts, 90, 80);
  expect_tensor<spec_of<DType::F16>(32, 32, 1, 2, 3, 16)>(pairs, {1, 32, 32}, 3, false);
  expect_tensor<spec_of<DType::BF16>(64, 64, 2, 2, 2, 16)>(pairs, {1, 64, 40}, 2, true);
  expect_tensor<spec_of<DType::TF32>(32, 32, 1, 2, 3, 16)>(pairs, {1, 20, 36}, 4, false);
  expect_tensor<spec_of<DType::F32>(16, 32, 1, 2, 3, 8)>(pairs, {1, 10, 22}, 1, false);
}

constexpr WarpgroupGradientSpec warpgroups(DType io, i32 tile_in, i32 tile_out, i32 copiers, i32 stages) {
  return {.io = io, .tile_in = tile_in, .tile_out = tile_out, .copiers = copiers, .stages = stages};
}

/// Channels that fill their tiles, that do not, and that several tiles have; rows that other warpgroups copy,
/// or those that multiply.
TEST(Gradient, OfWeightsByWarpgroups) {
  Random random(8);
  const Pairs pairs = random_pairs(random, kCounts, 90, 80);
  expect_tensor<warpgroups(DType::F16, 32, 32, 1, 2)>(pairs, {1, 32, 32}, 3, false);
  expect_tensor<warpgroups(DType::BF16, 64, 64, 1, 4)>(pairs, {1, 64, 40}, 2, true);
  expect_tensor<warpgroups(DType::F16, 96, 96, 1, 3)>(pairs, {1, 96, 96}, 2, false);
  expect_tensor<warpgroups(DType::F16, 32, 64, 0, 3)>(pairs, {3, 24, 72}, 2, false);
  expect_tensor<warpgroups(DType::BF16, 96, 64, 0, 2)>(pairs, {1, 72, 64}, 4, true);
}
TEST(Gradient, OfWideWeightsByWarpgroups) {
  Random random(10);
  const Pairs pairs = random_pairs(random, {70, 0, 65}, 90, 80);
  expect_tensor<warpgroups(DType::F16, 128, 128, 2, 3)>(pairs, {1, 128, 136}, 2, false);
  expect_tensor<warpgroups(DType::F16, 128, 256, 0, 4)>(pairs, {1, 136, 248}, 1, false);
}

TEST(Gradient, OfWeightsOfGroupsAndNarrowChannels) {
  Random random(3);
  const Pairs pairs = random_pairs(random, {65, 3, 64}, 90, 80);
  expect_tensor<spec_of<DType::F16>(16, 16, 1, 1, 4, 16)>(pairs, {3, 16, 24}, 2, true);
  expect_tensor<spec_of<DType::BF16>(16, 32, 1, 1, 3, 8)>(pairs, {1, 4, 32}, 2, false);
  expect_tensor<spec_of<DType::F16>(16, 16, 1, 1, 3, 4)>(pairs, {2, 6, 10}, 2, false);
  expect_tensor<spec_of<DType::F16>(96, 96, 2, 2, 3, 16)>(pairs, {1, 96, 96}, 2, false);
}

TEST(Gradient, OfWeightsWithoutTensorCores) {
  Random random(4);
  const Pairs pairs = random_pairs(random, kCounts, 90, 80);
  constexpr auto spec_of = [](DType io, i32 lanes, i32 inputs) {
    return WeightGradientScalarSpec{.io = io, .tile_out = 32, .lanes = lanes, .inputs = inputs};
  };
  expect_scalar<spec_of(DType::F32, 2, 4)>(pairs, {1, 11, 40}, 3, true);
  expect_scalar<spec_of(DType::F16, 1, 1)>(pairs, {48, 1, 1}, 3, false);
  expect_scalar<spec_of(DType::BF16, 1, 2)>(pairs, {5, 2, 3}, 2, false);
  expect_scalar<spec_of(DType::TF32, 4, 8)>(pairs, {1, 3, 5}, 2, false);
}

/// Parts of more steps than a segment may have, whose sums are added to their slots, and so many parts that
/// several threads add the slots of a weight.
TEST(Gradient, OfWeightsOfManyPairs) {
  Random random(12);
  const Pairs pairs = random_pairs(random, {7300, 3, 0, 70}, 90, 80);
  ASSERT_GT(7300 / kStepPairs, most_segment_steps(DType::F16));
  constexpr WeightGradientScalarSpec kScalar{.tile_out = 32, .lanes = 1, .inputs = 2};
  expect_tensor<warpgroups(DType::F16, 32, 32, 1, 2)>(pairs, {1, 32, 32}, 1, false);
  expect_tensor<warpgroups(DType::BF16, 32, 32, 0, 2)>(pairs, {1, 32, 24}, 1, true);
  expect_tensor<spec_of<DType::F16>(16, 16, 1, 1, 3, 4)>(pairs, {1, 6, 10}, 1, false);
  for (const i32 wanted_parts : {1, 45, 150}) {
    expect_scalar<kScalar>(pairs, {1, 2, 8}, wanted_parts, true);
    expect_scalar<kScalar>(pairs, {1, 3, 5}, wanted_parts, false);
  }
}

/// Computes gradients of a list with many offsets by each kind of kernel.
void expect_many_offsets(const Pairs& pairs) {
  expect_tensor<warpgroups(DType::F16, 32, 32, 1, 2)>(pairs, {1, 8, 8}, 4, false);
  expect_tensor<warpgroups(DType::BF16, 32, 32, 0, 2)>(pairs, {1, 8, 8}, 30, true);
  expect_tensor<spec_of<DType::F16>(16, 16, 1, 1, 3, 4)>(pairs, {1, 6, 10}, 7, false);
  expect_scalar<WeightGradientScalarSpec{.tile_out = 32, .lanes = 1, .inputs = 2}>(pairs, {1, 3, 5}, 30,
                                                                                   false);
}

/// More offsets than a warp has lanes, of which some have no pairs and some have several parts.
TEST(Gradient, OfWeightsOfManyOffsets) {
  Random random(14);
  std::vector<i32> counts(40);
  for (i32& count : counts) count = random.below(3) == 0 ? 0 : static_cast<i32>(random.below(20));
  counts[20] = 300, counts[36] = 140;
  const Pairs pairs = random_pairs(random, counts, 90, 80);
  expect_many_offsets(pairs);
}

/// As many offsets as one or two warps have lanes, one fewer and one more. The last offsets have pairs, or
/// not.
TEST(Gradient, OfWeightsOfAsManyOffsetsAsLanes) {
  Random random(15);
  for (const std::size_t volume : {31, 32, 33, 63, 64, 65}) {
    SCOPED_TRACE(volume);
    std::vector<i32> counts(volume);
    for (i32& count : counts) count = random.below(2) == 0 ? 0 : static_cast<i32>(random.below(20));
    counts.front() = 40;
    for (const i32 last : {0, 70}) {
      counts[volume - 1] = last, counts[volume - 2] = 70 - last;
      expect_many_offsets(random_pairs(random, counts, 90, 80));
    }
  }
}

TEST(Gradient, OfNoPairsIsZero) {
  Random random(6);
  const Pairs pairs = random_pairs(random, {0, 0, 0}, 90, 80);
  expect_tensor<spec_of<DType::F16>(16, 16, 1, 1, 4, 16)>(pairs, {1, 16, 16}, 3, false);
  expect_tensor<warpgroups(DType::F16, 32, 32, 1, 2)>(pairs, {1, 32, 32}, 3, false);
  expect_tensor<warpgroups(DType::F16, 32, 32, 0, 2)>(pairs, {1, 32, 32}, 3, true);
  expect_scalar<WeightGradientScalarSpec{.tile_out = 32, .lanes = 1, .inputs = 2}>(pairs, {1, 2, 8}, 3, true);
}

template <SumRowsSpec S>
void expect_bias(i64 rows, i64 capacity, i32 channels, bool adds) {
  Random random(7);
  Matrix<S.io> gradient(capacity, channels, channels + 8);
  gradient.fill(random, rows);
  const i32 count = static_cast<i32>(rows);
  SumRowsParams params = {};
  params.gradient = gradient.elements(), params.rows = capacity, params.ld = gradient.ld();
  params.count = rows == capacity ? nullptr : &count;
  params.channels = channels;
  std::vector<float> sums = poisoned<float>(static_cast<std::size_t>(row_pieces(capacity) * channels + 1));
  std::vector<float> bias = adds ? std::vector<float>(static_cast<std::size_t>(channels), -2.0f)
                                 : poisoned<float>(static_cast<std::size_t>(channels));
  params.sums = sums.data(), params.bias_gradient = bias.data();
  params.adds = adds ? 1 : 0;
  shim::launch(&sum_rows<S>, params, {.blocks = 3, .threads = S.threads});
  constexpr AddRowSumsSpec kAdd{.threads = 64};
  shim::launch(&add_row_sums<kAdd>, params, {.blocks = 2, .threads = kAdd.threads});
  for (i32 c = 0; c < channels; ++c) {
    double sum = adds ? -2 : 0;
    for (i64 row = 0; row < rows; ++row) sum += gradient.at(row, c);
    ASSERT_NEAR(static_cast<double>(bias[static_cast<std::size_t>(c)]), sum,
                1e-6 * (static_cast<double>(rows) + 3));
  }
}

/// The gradients of a scale and a shift, of which the first reads normalized rows where S says so. Returns
/// the bits of both, which do not depend on the number of blocks.
template <SumProductsSpec S>
std::vector<u32> affine_bits(i64 rows, i64 capacity, i32 channels, i32 blocks) {
  Random random(8);
  Matrix<S.io> gradient(capacity, channels, channels + 8), input(capacity, channels, channels + 24);
  gradient.fill(random, rows), input.fill(random, rows);
  const i32 count = static_cast<i32>(rows);
  const auto width = static_cast<std::size_t>(channels);
  const auto numbers = static_cast<std::size_t>(row_pieces(capacity)) * width;
  std::vector<float> measures = poisoned<float>(static_cast<std::size_t>(2 * capacity));
  std::vector<float> products = poisoned<float>(numbers), sums = poisoned<float>(numbers);
  SumProductsParams params = {};
  params.input = input.elements(), params.input_ld = input.ld();
  params.gradient = gradient.elements(), params.gradient_ld = gradient.ld();
  params.rows = capacity, params.count = rows == capacity ? nullptr : &count;
  params.channels = channels, params.epsilon = 0.01f;
  params.measures = measures.data(), params.products = products.data(), params.sums = sums.data();
  if constexpr (S.normalizes) {
    constexpr MeasureRowsSpec kMeasure{.io = S.io, .threads = 64};
    shim::launch(&measure_rows<kMeasure>, params, {.blocks = blocks, .threads = kMeasure.threads});
  }
  shim::launch(&sum_products<S>, params, {.blocks = blocks, .threads = S.threads});
  constexpr AddRowSumsSpec kAdd{.threads = 64};
  std::vector<float> scale = poisoned<float>(width), shift = poisoned<float>(width);
  SumRowsParams add = {};
  add.rows = capacity, add.count = params.count, add.channels = channels;
  add.sums = products.data(), add.bias_gradient = scale.data();
  shim::launch(&add_row_sums<kAdd>, add, {.blocks = blocks, .threads = kAdd.threads});
  add.sums = sums.data(), add.bias_gradient = shift.data();
  shim::launch(&add_row_sums<kAdd>, add, {.blocks = blocks, .threads = kAdd.threads});
  std::vector<double> expected_scale(width), expected_shift(width);
  for (i64 row = 0; row < rows; ++row) {
    double mean = 0, variance = 0;
    for (i32 c = 0; c < channels; ++c) mean += input.at(row, c) / channels;
    for (i32 c = 0; c < channels; ++c) variance += std::pow(input.at(row, c) - mean, 2) / channels;
    for (std::size_t c = 0; c < width; ++c) {
      const double x = input.at(row, static_cast<i64>(c)), g = gradient.at(row, static_cast<i64>(c));
      expected_scale[c] += g * (S.normalizes ? (x - mean) / std::sqrt(variance + 0.01) : x);
      expected_shift[c] += g;
    }
  }
  const double error = 4e-6 * (static_cast<double>(rows) + 3);
  for (std::size_t c = 0; c < width; ++c) {
    EXPECT_NEAR(static_cast<double>(scale[c]), expected_scale[c], error) << c;
    EXPECT_NEAR(static_cast<double>(shift[c]), expected_shift[c], error) << c;
  }
  std::vector<u32> bits;
  bits.reserve(2 * width);
  for (const float value : scale) bits.push_back(std::bit_cast<u32>(value));
  for (const float value : shift) bits.push_back(std::bit_cast<u32>(value));
  return bits;
}
template <SumProductsSpec S>
void expect_affine(i64 rows, i64 capacity, i32 channels) {
  EXPECT_EQ(affine_bits<S>(rows, capacity, channels, 3), affine_bits<S>(rows, capacity, channels, 8));
}

TEST(Gradient, OfScalesAndShifts) {
  constexpr auto spec_of = [](DType io, bool normalizes) {
    return SumProductsSpec{.io = io, .normalizes = normalizes, .columns = 32, .threads = 64};
  };
  expect_affine<spec_of(DType::F16, true)>(2500, 2500, 40);
  expect_affine<spec_of(DType::BF16, false)>(1024, 3000, 7);
  expect_affine<spec_of(DType::F32, true)>(1, 5, 33);
  expect_affine<spec_of(DType::F32, false)>(0, 5, 3);
  expect_affine<spec_of(DType::F16, true)>(0, 0, 3);
}

TEST(Gradient, OfBiases) {
  constexpr auto spec_of = [](DType io) { return SumRowsSpec{.io = io, .columns = 32, .threads = 64}; };
  expect_bias<spec_of(DType::F16)>(2500, 2500, 40, false);
  expect_bias<spec_of(DType::BF16)>(1024, 3000, 7, true);
  expect_bias<spec_of(DType::F32)>(1, 5, 33, false);
  expect_bias<spec_of(DType::F32)>(0, 5, 3, true);
  expect_bias<spec_of(DType::F16)>(0, 0, 3, false);
}

}  // namespace
}  // namespace minuet
