// The shipped network shape_autoencoder, on every device and in every dtype, against plain loops in float64.
// The children that exist follow from the sign of scores, which rounding may change where a score is near 0.
// So the reference keeps the children that the run's own scores keep, and the scores themselves are compared.
#include <algorithm>
#include <map>

#include "tests/runtime/execution/stages_fixture.h"
#include "tests/runtime/network/named_chain.h"
#include "tests/support/compare.h"

namespace minuet::abi {
namespace {

using Values = std::vector<double>;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kShapeSeed = 5252;
constexpr int kInChannels = 6, kOutChannels = 7;

/// Has the order of the description's "channels".
struct Widths {
  std::vector<int32_t> levels, hidden, children_down, children_up;
  int32_t latent = 0;
  std::vector<int32_t> list() const {
    std::vector<int32_t> all = levels;
    all.insert(all.end(), hidden.begin(), hidden.end());
    all.insert(all.end(), children_down.begin(), children_down.end());
    all.insert(all.end(), children_up.begin(), children_up.end());
    all.push_back(latent);
    return all;
  }
};
const Widths kNarrowShape{{16, 24, 32}, {28, 36, 44}, {5, 7}, {96, 136}, 10};
const Widths kWideShape{{64, 128, 256}, {256, 512, 1024}, {16, 32}, {512, 1024}, 32};

/// x + MLP(norm(convolution of x)), of the last layer. Returns the number of the sum.
int add_block(NamedChain& chain, const Widths& widths, const std::string& part, size_t level, int x) {
  const std::string name = part + "." + std::to_string(level);
  chain.convolution(name + ".conv", widths.levels[level]);
  chain.layer_norm(name + ".norm");
  chain.linear(name + ".mlp.0", widths.hidden[level], -1, Activation::Silu);
  return chain.sum(chain.linear(name + ".mlp.1", widths.levels[level]), x);
}

/// Numbers of the layers from which the next level of the decoder is made.
struct Parents {
  int features = 0, scores = 0, children = 0;
};

/// The block of a level of the decoder, its scores, and what its children are made of.
Parents add_parents(NamedChain& chain, const Widths& widths, size_t level, int x) {
  Parents parents;
  parents.features = add_block(chain, widths, "decoder", level, x);
  const std::string name = "decoder." + std::to_string(level) + ".up";
  parents.scores = chain.linear(name + ".subdivision", 8);
  chain.layer_norm(name + ".norm1", parents.features);
  chain.pointwise("silu");
  parents.children = chain.convolution(name + ".conv1", widths.children_up[level - 1]);
  return parents;
}

/// The step of the encoder from a level to the next one. Returns the number of its last layer.
int add_step_down(NamedChain& chain, const Widths& widths, size_t level, int x) {
  const std::string name = "encoder." + std::to_string(level) + ".down";
  chain.layer_norm(name + ".norm1", x);
  chain.pointwise("silu");
  chain.convolution(name + ".conv1", widths.children_down[level]);
  chain.space_to_channel();
  chain.layer_norm(name + ".norm2");
  chain.pointwise("silu");
  const int convolved = chain.convolution(name + ".conv2", widths.levels[level + 1]);
  const int children = chain.space_to_channel(x);
  return chain.sum(chain.linear_without_bias(name + ".shortcut", widths.levels[level + 1], children),
                   convolved);
}

/// Features of voxels of one level.
struct Level {
  std::vector<int32_t> coordinates;  // [rows, 4], in cells of the input
  Values parents, children;
  int64_t parent_channels = 0, child_channels = 0;
  Values scores;
};

/// Evaluates the network stage by stage, and draws its parameters.
class Autoencoder {
 public:
  explicit Autoencoder(const Widths& widths) : widths_(widths) {}

  /// Returns the coarsest level, and writes the latent features.
  Level encode(const std::vector<int32_t>& coordinates, const std::vector<float>& features, Values& latent) {
    chains_ = 0;
    NamedChain chain;
    int x = chain.linear("encoder.input", widths_.levels[0]);
    for (size_t level = 0; level < 3; ++level) {
      x = add_block(chain, widths_, "encoder", level, x);
      if (level < 2) x = add_step_down(chain, widths_, level, x);
    }
    const int encoded = chain.linear("encoder.output", widths_.latent);
    x = chain.linear("decoder.input", widths_.levels[2]);
    const Parents parents = add_parents(chain, widths_, 2, x);
    const std::vector<oracle::NetworkOutput> outputs =
        evaluate(chain, kInChannels, coordinates, features,
                 {encoded, parents.features, parents.scores, parents.children});
    latent = outputs[0].features;
    return level_of(outputs[0].coordinates, outputs, 1);
  }

  /// Returns the level `number` of the decoder, whose voxels are these children of the level above: `kept`
  /// holds the number of a row and a child. If there is no further level, `decoded` receives the result.
  Level decode(size_t number, const Level& above, const std::vector<size_t>& kept, Values& decoded) {
    const std::string name = "decoder." + std::to_string(number + 1) + ".up";
    const std::vector<int32_t> coordinates = children_of(above, kept, 1 << number);
    NamedChain of_children, of_parents, rest;
    of_children.layer_norm(name + ".norm2");
    of_children.pointwise("silu");
    const int convolved = of_children.convolution(name + ".conv2", widths_.levels[number]);
    const int shortcut = of_parents.linear_without_bias(name + ".shortcut", widths_.levels[number]);
    const std::vector<int32_t> cells = divided(coordinates, 1 << number);
    const Values first = evaluate(of_children, above.child_channels / 8, cells,
                                  parts_of(above.children, above.child_channels, kept), {convolved})
                             .front()
                             .features;
    const Values second = evaluate(of_parents, above.parent_channels / 8, cells,
                                   parts_of(above.parents, above.parent_channels, kept), {shortcut})
                              .front()
                              .features;
    std::vector<float> sums;
    for (size_t i = 0; i < first.size(); ++i) sums.push_back(static_cast<float>(first[i] + second[i]));
    // A leaky ReLU of slope 1 gives the chain's input a number.
    const int x =
        rest.add({.op = oracle::NetworkLayer::Op::Pointwise, .function = "leaky_relu", .number = 1}, "");
    if (number > 0) {
      const Parents parents = add_parents(rest, widths_, number, x);
      return level_of(coordinates,
                      evaluate(rest, widths_.levels[number], cells, sums,
                               {parents.features, parents.scores, parents.children}),
                      0);
    }
    add_block(rest, widths_, "decoder", 0, x);
    rest.layer_norm("decoder.norm");
    const int last = rest.linear("decoder.output", kOutChannels);
    decoded = evaluate(rest, widths_.levels[0], cells, sums, {last}).front().features;
    Level level;
    level.coordinates = coordinates;
    return level;
  }

  const Tensors& tensors() const { return tensors_; }

 private:
  /// Evaluates a chain. The first evaluation draws its parameters, and later ones use them.
  std::vector<oracle::NetworkOutput> evaluate(const NamedChain& chain, int64_t channels,
                                              const std::vector<int32_t>& coordinates,
                                              const std::vector<float>& features,
                                              const std::vector<int>& wanted) {
    const auto number = static_cast<uint64_t>(chains_++);
    oracle::Parameters& parameters = parameters_.try_emplace(number, kShapeSeed + number).first->second;
    const std::vector<oracle::NetworkOutput> outputs =
        chain.evaluate(parameters, static_cast<int>(channels), coordinates, features, wanted);
    chain.take_parameters(parameters, tensors_);
    return outputs;
  }

  /// The outputs from number `first` on are those of a level's parents, scores and children.
  static Level level_of(const std::vector<int32_t>& coordinates,
                        const std::vector<oracle::NetworkOutput>& outputs, size_t first) {
    const oracle::NetworkOutput &parents = outputs[first], &children = outputs[first + 2];
    return {coordinates,      parents.features,  children.features,
            parents.channels, children.channels, outputs[first + 1].features};
  }

  static std::vector<int32_t> children_of(const Level& level, const std::vector<size_t>& kept, int32_t step) {
    std::vector<int32_t> coordinates;
    for (const size_t candidate : kept) {
      const int32_t* const parent = level.coordinates.data() + 4 * (candidate / 8);
      const auto child = static_cast<int32_t>(candidate % 8);
      coordinates.push_back(parent[0]);
      for (int a = 0; a < 3; ++a) coordinates.push_back(parent[1 + a] + (child >> (2 - a) & 1) * step);
    }
    return coordinates;
  }

  /// Each child's part of its parent's features.
  static std::vector<float> parts_of(const Values& features, int64_t channels,
                                     const std::vector<size_t>& kept) {
    std::vector<float> parts;
    const auto width = static_cast<size_t>(channels / 8);
    for (const size_t candidate : kept) {
      for (size_t c = 0; c < width; ++c) parts.push_back(static_cast<float>(features[candidate * width + c]));
    }
    return parts;
  }

  static std::vector<int32_t> divided(std::vector<int32_t> coordinates, int32_t step) {
    for (size_t i = 0; i < coordinates.size(); ++i) {
      if (i % 4 != 0) coordinates[i] /= step;  // multiples of the step
    }
    return coordinates;
  }

  const Widths& widths_;
  Tensors tensors_;
  std::map<uint64_t, oracle::Parameters> parameters_;  // by the number of a chain
  int chains_ = 0;
};

/// The numbers of the children whose scores are above 0.
std::vector<size_t> children_above_zero(const std::vector<float>& scores) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > 0) kept.push_back(i);
  }
  return kept;
}

/// The level with its rows in the order of `coordinates`.
Level reordered(const Level& level, const std::vector<int32_t>& coordinates, int64_t latent_channels,
                Values& latent) {
  std::map<std::vector<int32_t>, size_t> rows;
  const auto cell_at = [](const std::vector<int32_t>& list, size_t row) {
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(4 * row);
    return std::vector<int32_t>(begin, begin + 4);
  };
  for (size_t row = 0; 4 * row < level.coordinates.size(); ++row) rows[cell_at(level.coordinates, row)] = row;
  Level result = level;
  result.coordinates = coordinates;
  const Values given = latent;
  const auto move = [&](const Values& from, size_t from_row, Values& to, size_t row, int64_t channels) {
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_row) * channels, channels,
                to.begin() + static_cast<std::ptrdiff_t>(row) * channels);
  };
  for (size_t row = 0; 4 * row < coordinates.size(); ++row) {
    const size_t from = rows.at(cell_at(coordinates, row));
    move(level.parents, from, result.parents, row, level.parent_channels);
    move(level.children, from, result.children, row, level.child_channels);
    move(level.scores, from, result.scores, row, 8);
    move(given, from, latent, row, latent_channels);
  }
  return result;
}

class AutoencoderTest : public StagesTest {
 protected:
  /// The cloud of a scene and its features.
  void draw(int64_t voxels) {
    cloud_ = make_scene(voxels, kShapeSeed);
    // Some cells are negative.
    for (size_t i = 0; i < cloud_.size(); ++i) cloud_[i] -= i % 4 == 0 ? 0 : 13;
    features_ = oracle::draw_features(static_cast<int64_t>(cloud_.size() / 4) * kInChannels, kShapeSeed);
  }

  /// Evaluates a network once, so that it has parameters, with the children that its own scores keep.
  void draw_parameters(Autoencoder& network) const {
    Values latent, decoded;
    Level level = network.encode(cloud_, features_, latent);
    for (const size_t number : {1, 0})
      level = network.decode(number, level, children_above_zero({level.scores.begin(), level.scores.end()}),
                             decoded);
  }

  Plan plan_of(const Autoencoder& network, const Widths* widths, minuet_dataflow dataflow) {
    const TemporaryPath file("shape_autoencoder.safetensors");
    write_safetensors(file.path(), network.tensors());
    NetworkSpec spec;
    spec.name = "shape_autoencoder", spec.dtype = dtype(), spec.weights = file.path();
    spec.dataflow = dataflow;
    if (widths) spec.channels = widths->list();
    return make_network(machine(), spec);
  }

  Arrays arrays_on(const Plan& plan, int64_t rows, int64_t room) {
    Arrays arrays;
    arrays.inputs.push_back(array_of(put(stored(features_), rows * kInChannels * dtype_bytes(dtype())).data(),
                                     {rows, kInChannels}, element()));
    add_outputs(plan, room, arrays);
    return arrays;
  }

  int64_t rows() const { return static_cast<int64_t>(cloud_.size() / 4); }

  StagedRun run_exact(const Plan& plan, const Execution& execution, int64_t room) {
    check(prepare(machine(), execution.get(), cloud_));
    Arrays arrays = arrays_on(plan, rows(), room);
    shape_outputs(execution, arrays);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    return read(plan, execution, arrays);
  }

  /// Each of the `stages` through which a result has gone may add an error as large as that of one network.
  void expect_close(const NetworkRun& run, const Values& wanted, int stages, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_TRUE(is_close(values_of(run), wanted, run.channels, stages * error_bound(dtype(), true)));
  }

  void check_network(const Widths& widths, bool by_name) {
    Autoencoder network(widths);
    draw_parameters(network);
    const Plan plan = plan_of(network, by_name ? nullptr : &widths, tested_dataflow());
    const StagedRun run = run_exact(plan, execution_of(plan), 64 * rows());
    ASSERT_EQ(run.outputs.size(), 4u);
    Values latent, decoded;
    Level level = network.encode(cloud_, features_, latent);
    EXPECT_EQ(ascending(run.outputs[1]).coordinates, level.coordinates);
    level = reordered(level, run.outputs[1].coordinates, widths.latent, latent);
    EXPECT_EQ(run.outputs[0].coordinates, level.coordinates);
    expect_close(run.outputs[0], latent, 1, "latent");
    expect_close(run.outputs[1], level.scores, 1, "scores of the coarsest level");
    level = network.decode(1, level, children_above_zero(values_of(run.outputs[1])), decoded);
    ASSERT_EQ(run.outputs[2].coordinates, level.coordinates);
    ASSERT_GT(run.outputs[2].rows, run.outputs[1].rows);
    expect_close(run.outputs[2], level.scores, 2, "scores of the level in the middle");
    level = network.decode(0, level, children_above_zero(values_of(run.outputs[2])), decoded);
    ASSERT_EQ(run.outputs[3].coordinates, level.coordinates);
    ASSERT_GT(run.outputs[3].rows, run.outputs[2].rows);
    expect_close(run.outputs[3], decoded, 3, "decoded");
  }

  std::vector<int32_t> cloud_;
  std::vector<float> features_;
};

TEST_P(AutoencoderTest, WithFewChannels) {
  draw(kSanitized ? 40 : 150);
  check_network(kNarrowShape, /*by_name=*/false);
}

TEST_P(AutoencoderTest, AtItsOwnWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer; narrow networks take the same paths";
  draw(20);
  check_network(kWideShape, /*by_name=*/true);
}

/// Capacity mode gives the same bits as exact mode, with rows of zeros behind them.
TEST_P(AutoencoderTest, WithinCapacities) {
  draw(kSanitized ? 40 : 100);
  // Both modes choose the same kernels.
  Autoencoder network(kNarrowShape);
  draw_parameters(network);
  const Plan plan = plan_of(network, &kNarrowShape, MINUET_DATAFLOW_FUSED);
  const StagedRun wanted = run_exact(plan, execution_of(plan), 64 * rows());
  int64_t room = rows();
  for (const NetworkRun& output : wanted.outputs) room = std::max(room, output.rows);
  room += 10;
  ASSERT_EQ(info_of(plan.get()).levels, 5);
  const Execution execution =
      execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT, std::vector<int64_t>(5, room));
  const std::vector<int32_t> count{static_cast<int32_t>(rows())};
  check(minuet_execution_prepare_on_device(execution.get(), put(cloud_, 4 * room).integers(),
                                           put(count, 1).integers(), nullptr));
  const Arrays arrays = arrays_on(plan, room, room);
  check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
  uint32_t status = ~0u;
  const std::vector<int32_t> counts = counts_of(execution, 5, status);
  EXPECT_EQ(status, 0u);
  StagedRun run = read(plan, execution, arrays);
  cut(plan, counts, run);
  for (size_t i = 0; i < run.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
}

MINUET_INSTANTIATE_DEVICE_TEST(AutoencoderTest);

}  // namespace
}  // namespace minuet::abi
