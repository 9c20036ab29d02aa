// The sparse part of a stage of Point Transformer V3, as single ops on sets and maps of the caller: in each
// block a convolution of kernel 3 with a bias, a linear layer and a layer norm, whose result is added to the
// block's input, all blocks on one kernel map; then the pooling, which is a linear layer, a maximum over
// cells of 2^3 voxels, a batch norm and a GELU. On every device and in every dtype, exact and on a pyramid,
// against plain loops in float64. A program computes the attention and the MLP between the blocks.
#include <cmath>

#include "include/minuet/pointwise.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/pointwise_oracle.h"

namespace minuet::abi {
namespace {

using oracle::Pair;

constexpr int kChannels = 16, kPooled = 32;
constexpr size_t kBlocks = 2;
/// The maps of the stage.
enum MapOf : int32_t { kNeighbours, kEachVoxel, kChildren, kEachCell };

struct Linear {
  int in = 0, out = 0;
  std::vector<float> weight, bias;
};

Linear draw_linear(Random& random, int volume, int in, int out) {
  Linear layer{in, out, {}, {}};
  for (int i = 0; i < volume * in * out; ++i)
    layer.weight.push_back(static_cast<float>(random.between(-31, 31)) / 128.0f);
  for (int c = 0; c < out; ++c) layer.bias.push_back(static_cast<float>(random.between(-31, 31)) / 32.0f);
  return layer;
}

/// Two numbers for each channel: those of an affine step.
struct Affine {
  std::vector<float> scale, shift;
};
Affine draw_affine(Random& random, int channels) {
  Affine affine;
  for (int c = 0; c < channels; ++c) {
    affine.scale.push_back(static_cast<float>(random.uniform(0.6, 1.4)));
    affine.shift.push_back(static_cast<float>(random.uniform(-0.3, 0.3)));
  }
  return affine;
}

struct Block {
  Linear convolution, linear;
  Affine norm;
};

struct StageWeights {
  explicit StageWeights(Random& random) {
    for (size_t b = 0; b < kBlocks; ++b) {
      blocks.push_back({draw_linear(random, 27, kChannels, kChannels),
                        draw_linear(random, 1, kChannels, kChannels), draw_affine(random, kChannels)});
    }
    projection = draw_linear(random, 1, kChannels, kPooled);
    norm = draw_affine(random, kPooled);
  }
  std::vector<Block> blocks;
  Linear projection;
  Affine norm;
};

std::vector<double> product(const std::vector<double>& x, const Linear& layer, const std::vector<Pair>& pairs,
                            size_t rows) {
  const auto in = static_cast<size_t>(layer.in), out = static_cast<size_t>(layer.out);
  std::vector<double> y(rows * out);
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<double>(layer.bias[i % out]);
  for (const Pair& pair : pairs) {
    for (size_t i = 0; i < in; ++i) {
      const float* const weight = layer.weight.data() + (static_cast<size_t>(pair.k) * in + i) * out;
      const double value = x[static_cast<size_t>(pair.in) * in + i];
      for (size_t o = 0; o < out; ++o)
        y[static_cast<size_t>(pair.out) * out + o] += value * static_cast<double>(weight[o]);
    }
  }
  return y;
}

void apply(std::vector<double>& x, int channels, const oracle::ChainStep& step) {
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(channels))
    oracle::apply_step(step, x.data() + at, channels);
}

/// The stage in float64, with the coarser rows in ascending order of their coordinates.
std::vector<double> expected_stage(const StageWeights& weights, const std::vector<int32_t>& cloud,
                                   const std::vector<float>& features, const std::vector<int32_t>& cells) {
  const size_t rows = cloud.size() / 4;
  std::vector<Pair> each_voxel(rows);
  for (size_t row = 0; row < rows; ++row)
    each_voxel[row].in = each_voxel[row].out = static_cast<int32_t>(row);
  const std::vector<Pair> neighbours = oracle::find_pairs({3, {3, 3, 3, 1}}, cloud, cloud),
                          children = oracle::find_pairs({3, {2, 2, 2, 1}}, cloud, cells);
  std::vector<double> x(features.begin(), features.end());
  for (const Block& block : weights.blocks) {
    std::vector<double> y =
        product(product(x, block.convolution, neighbours, rows), block.linear, each_voxel, rows);
    apply(y, kChannels, {"layer_norm", 1e-5});
    apply(y, kChannels, {"affine", 0, {}, block.norm.scale, block.norm.shift});
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  x = product(x, weights.projection, each_voxel, rows);
  std::vector<double> pooled(cells.size() / 4 * kPooled, -HUGE_VAL);
  for (const Pair& pair : children) {
    for (size_t c = 0; c < kPooled; ++c) {
      double& most = pooled[static_cast<size_t>(pair.out) * kPooled + c];
      most = std::max(most, x[static_cast<size_t>(pair.in) * kPooled + c]);
    }
  }
  apply(pooled, kPooled, {"affine", 0, {}, weights.norm.scale, weights.norm.shift});
  apply(pooled, kPooled, {"gelu"});
  return pooled;
}

/// One op of the stage: a plan, the map that it reads, and the channels that it gives. Its input is the
/// result of the op before, and that of a chain with a sum also the input of the block.
struct StageOp {
  Plan plan;
  MapOf map;
  int channels;
  bool adds_block_input = false;
};

class AttentionStageTest : public DeviceTest {
 protected:
  Plan loaded(minuet_plan* made) {
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }
  StageOp linear(const Linear& layer, MapOf map) {
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.in_channels = layer.in, options.out_channels = layer.out;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = map == kNeighbours ? 3 : 1;
    options.submanifold = 1;
    options.dataflow = MINUET_DATAFLOW_FUSED;
    options.weight = layer.weight.data(), options.weight_count = static_cast<int64_t>(layer.weight.size());
    options.shift = layer.bias.data(), options.shift_count = layer.out;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(machine().context(), &options, &made));
    return {loaded(made), map, layer.out};
  }
  StageOp chain(const std::vector<minuet_pointwise_step>& steps, MapOf map, int channels) {
    minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = channels;
    options.steps = steps.data(), options.step_count = static_cast<int32_t>(steps.size());
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pointwise(machine().context(), &options, &made));
    return {loaded(made), map, channels};
  }
  StageOp maximum(int channels) {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = channels;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = options.stride[a] = 2;
    options.reduction = MINUET_REDUCE_MAX;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pooling(machine().context(), &options, &made));
    return {loaded(made), kChildren, channels};
  }

  std::vector<StageOp> ops_of(const StageWeights& weights) {
    std::vector<StageOp> ops;
    for (const Block& block : weights.blocks) {
      ops.push_back(linear(block.convolution, kNeighbours));
      ops.push_back(linear(block.linear, kEachVoxel));
      ops.push_back(chain({{MINUET_POINTWISE_LAYER_NORM, 1e-5f, nullptr, nullptr},
                           {MINUET_POINTWISE_AFFINE, 0, block.norm.scale.data(), block.norm.shift.data()},
                           {MINUET_POINTWISE_ADD, 0, nullptr, nullptr}},
                          kEachVoxel, kChannels));
      ops.back().adds_block_input = true;
    }
    ops.push_back(linear(weights.projection, kEachVoxel));
    ops.push_back(maximum(kPooled));
    ops.push_back(chain({{MINUET_POINTWISE_AFFINE, 0, weights.norm.scale.data(), weights.norm.shift.data()},
                         {MINUET_POINTWISE_GELU, 0, nullptr, nullptr}},
                        kEachCell, kPooled));
    return ops;
  }

  /// Runs all ops by `run`, on levels with these rows, and returns the last result.
  std::vector<char> run_stage(
      const std::vector<StageOp>& ops, const std::vector<char>& features, const int64_t (&rows)[2],
      const std::function<void(const StageOp&, const std::vector<minuet_array>&, const minuet_array&)>& run) {
    std::deque<Buffer> results;
    const auto array = [&](const Buffer& buffer, int64_t count, int channels) {
      return array_of(tensor(buffer, count, channels, dtype()));
    };
    std::vector<char> padded = features;
    padded.resize(static_cast<size_t>(rows[0] * kChannels * dtype_bytes(dtype())), '\x7f');
    minuet_array last = array(results.emplace_back(machine(), padded), rows[0], kChannels), block = last;
    for (const StageOp& op : ops) {
      const int64_t count = rows[op.map == kChildren || op.map == kEachCell ? 1 : 0];
      const Buffer& to = results.emplace_back(machine(), count * op.channels * dtype_bytes(dtype()));
      const minuet_array result = array(to, count, op.channels);
      run(op, op.adds_block_input ? std::vector{last, block} : std::vector{last}, result);
      last = result;
      if (op.adds_block_input) block = result;
    }
    check(minuet_device_synchronize(machine().device(), nullptr));
    return results.back().read<char>();
  }
};

TEST_P(AttentionStageTest, OfPointTransformerV3) {
  Random random(31);
  const StageWeights weights(random);
  const std::vector<StageOp> ops = ops_of(weights);
  const std::vector<int32_t> cloud = make_scene(machine().is_software() ? 40 : 300, 4),
                             cells = oracle::downsample(3, cloud, {2, 2, 2, 1});
  const int64_t rows[] = {static_cast<int64_t>(cloud.size()) / 4, static_cast<int64_t>(cells.size()) / 4};
  const std::vector<float> features = oracle::draw_features(rows[0] * kChannels, 12);
  const std::vector<char> stored = encode(dtype(), features);

  const Coordinates fine = make_set(machine(), 3, cloud, {1, 1, 1, 1});
  const Coordinates coarse = downsample(fine.get(), {2, 2, 2, 1});
  std::vector<KernelMap> maps;
  const auto add_map = [&](const Coordinates& from, const Coordinates& to, int32_t size) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = size;
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_create(from.get(), to.get(), &options, nullptr, &made));
    maps.emplace_back(made, Destroy<minuet_kernel_map>{minuet_kernel_map_destroy});
  };
  add_map(fine, fine, 3), add_map(fine, fine, 1), add_map(fine, coarse, 2), add_map(coarse, coarse, 1);
  const std::vector<char> exact =
      run_stage(ops, stored, rows,
                [&](const StageOp& op, const std::vector<minuet_array>& inputs, const minuet_array& output) {
                  const Execution execution = make_execution(machine(), op.plan.get());
                  check(prepare_map(execution.get(), maps[op.map].get()));
                  check(run_arrays(execution.get(), inputs, {output}));
                  check(minuet_device_synchronize(machine().device(), nullptr));
                });
  NetworkRun result{rows[1], kPooled, exact, coordinates_of(machine(), coarse.get(), 3)};
  result = ascending(result);
  EXPECT_EQ(result.coordinates, cells);
  EXPECT_TRUE(is_close(decode(dtype(), result.bytes), expected_stage(weights, cloud, features, cells),
                       kPooled, error_bound(dtype(), true)));

  // The same bits on a pyramid, where only the device knows the numbers of rows, and zeros behind them.
  const int64_t capacities[] = {rows[0] + 9, rows[1] + 21};
  const minuet_pyramid_level levels[] = {level_of(capacities[0]), level_of(capacities[1], 0, 2)};
  const minuet_pyramid_map described[] = {
      map_between(0, 0, 3, MINUET_PURPOSE_CONVOLUTION), map_between(0, 0, 1, MINUET_PURPOSE_CONVOLUTION),
      map_between(0, 1, 2, MINUET_PURPOSE_POOLING), map_between(1, 1, 1, MINUET_PURPOSE_CONVOLUTION)};
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.levels = levels, options.level_count = 2;
  options.maps = described, options.map_count = 4;
  TestPyramid pyramid(machine(), options);
  pyramid.build(cloud);
  std::vector<char> padded = exact;
  padded.resize(static_cast<size_t>(capacities[1] * kPooled * dtype_bytes(dtype())));
  EXPECT_EQ(
      run_stage(ops, stored, capacities,
                [&](const StageOp& op, const std::vector<minuet_array>& inputs, const minuet_array& output) {
                  minuet_run_arguments arguments = pyramid.run_arguments();
                  arguments.map = op.map;
                  run_on(machine(), op.plan.get(), arguments, inputs, {output});
                }),
      padded);
}

MINUET_INSTANTIATE_DEVICE_TEST(AttentionStageTest);

}  // namespace
}  // namespace minuet::abi
