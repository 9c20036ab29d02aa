// Networks of a caller's own description, at the edges that the two shipped ones do not reach; through the C
// ABI, on every device, against the fp64 oracle of single layers.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using Tensors = std::map<std::string, FileTensor>;

constexpr Axes kOnes{1, 1, 1, 1};
constexpr Axes kThrees{3, 3, 3, 1};

struct Level {
  std::vector<int32_t> coordinates;
  Axes tensor_stride = kOnes;
  int64_t rows() const { return static_cast<int64_t>(coordinates.size()) / 4; }
};

struct Features {
  Level level;
  int64_t channels = 0;
  std::vector<float> values;
};

/// What the layers of a description compute, with parameters that are drawn as they are asked for.
class Chain {
 public:
  explicit Chain(oracle::Parameters& parameters) : parameters_(parameters) {}

  Features block(const Features& x, const std::string& name, int64_t out, Axes kernel, Axes stride = kOnes) {
    Level level = x.level;
    if (stride != kOnes) {
      for (int a = 0; a < 3; ++a) level.tensor_stride[a] *= stride[a];
      level.coordinates = oracle::downsample(3, level.coordinates, level.tensor_stride);
    }
    return layer(x, level, name + ".conv", name + ".bn", out, kernel, false, nullptr);
  }
  Features up(const Features& x, const Level& onto, const std::string& name, int64_t out, Axes kernel) {
    return layer(x, onto, name + ".conv", name + ".bn", out, kernel, true, nullptr);
  }
  /// Of as many channels as x has the shortcut is x itself.
  Features residual(const Features& x, const std::string& name, int64_t out) {
    const Features y = layer(x, x.level, name + ".conv1", name + ".bn1", out, kThrees, false, nullptr);
    const Features added = x.channels == out
                               ? x
                               : layer(x, x.level, name + ".shortcut.conv", name + ".shortcut.bn", out, kOnes,
                                       false, nullptr, /*relu=*/false);
    return layer(y, x.level, name + ".conv2", name + ".bn2", out, kThrees, false, &added.values);
  }
  static Features concat(const Features& first, const Features& second) {
    Features both{first.level, first.channels + second.channels, {}};
    for (int64_t row = 0; row < first.level.rows(); ++row) {
      for (const Features* part : {&first, &second}) {
        const float* values = part->values.data() + row * part->channels;
        both.values.insert(both.values.end(), values, values + part->channels);
      }
    }
    return both;
  }

 private:
  Features layer(const Features& x, const Level& level, const std::string& name, const std::string& norm,
                 int64_t out, Axes kernel, bool transposed, const std::vector<float>* residual,
                 bool relu = true) {
    const Axes fine = transposed ? level.tensor_stride : x.level.tensor_stride;
    const auto pairs =
        oracle::find_pairs({3, kernel, kOnes, fine, transposed}, x.level.coordinates, level.coordinates);
    const int64_t volume = int64_t{kernel[0]} * kernel[1] * kernel[2];
    const std::vector<float>& weight = parameters_.weight(name + ".weight", volume, x.channels, out, 8);
    std::vector<float> scale = parameters_.vector(norm + ".weight", out, 1, 0.25);
    std::vector<float> shift = parameters_.vector(norm + ".bias", out, 0, 0.25);
    const std::vector<float>& mean = parameters_.vector(norm + ".running_mean", out, 0, 0.25);
    const std::vector<float>& variance = parameters_.vector(norm + ".running_var", out, 1, 0.25);
    for (int64_t c = 0; c < out; ++c) {
      const double factor = scale[c] / std::sqrt(variance[c] + 1e-5);
      scale[c] = static_cast<float>(factor);
      shift[c] = static_cast<float>(shift[c] - mean[c] * factor);
    }
    const oracle::Layer single{
        level.rows(), static_cast<int>(x.channels), static_cast<int>(out), &x.values, &weight, &scale, &shift,
        residual,     relu ? "relu" : "none"};
    const std::vector<double> result = oracle::convolve(single, pairs);
    return {level, out, {result.begin(), result.end()}};
  }

  oracle::Parameters& parameters_;
};

std::string describe(const std::string& channels, const std::string& layers) {
  return R"({"name": "edge", "ndim": 3, "in_channels": 4, "channels": [)" + channels + R"(], "layers": [)" +
         layers + "]}";
}

/// Every cell of a cube, whose least one is `least`.
std::vector<int32_t> make_cube(int size, std::array<int32_t, 3> least) {
  std::vector<int32_t> coordinates;
  for (int i = 0; i < size * size * size; ++i) {
    coordinates.insert(coordinates.end(),
                       {0, least[0] + i / (size * size), least[1] + i / size % size, least[2] + i % size});
  }
  return coordinates;
}

/// About a third of a cube's cells.
std::vector<int32_t> make_crumbs(int size, std::array<int32_t, 3> least, uint64_t seed) {
  Random random(seed);
  const std::vector<int32_t> cube = make_cube(size, least);
  std::vector<int32_t> coordinates;
  for (size_t i = 0; i < cube.size(); i += 4) {
    if (random.below(3) == 0) coordinates.insert(coordinates.end(), cube.begin() + i, cube.begin() + i + 4);
  }
  return coordinates;
}

Features input_of(const std::vector<int32_t>& coordinates, uint64_t seed) {
  const auto count = static_cast<int64_t>(coordinates.size());  // four channels, as many as fields
  return {{coordinates, kOnes}, 4, oracle::draw_features(count, seed)};
}

class NetworkEdges : public DeviceTest {
 protected:
  minuet_status create(const std::string& description, const std::string& weights, Plan& network) {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = description.c_str();
    options.dtype = abi_dtype(dtype());
    options.dataflow = tested_dataflow();
    options.weights_path = weights.empty() ? nullptr : weights.c_str();
    options.seed = 5;
    minuet_plan* made = nullptr;
    const minuet_status status = minuet_plan_create_network(machine().context(), &options, &made);
    network.reset(made);
    return status;
  }
  Plan make(const std::string& description, const std::string& weights = "") {
    Plan network(nullptr, {minuet_plan_destroy});
    check(create(description, weights, network));
    check(minuet_plan_compile(network.get(), machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(network.get(), machine().device()));
    return network;
  }
  Plan make(const std::string& description, const Tensors& tensors) {
    const TemporaryPath file("edge.safetensors");
    write_safetensors(file.path(), tensors);
    return make(description, file.path());
  }
  std::vector<char> stored(const Features& input) { return encode(dtype(), input.values); }

  void expect_close(const Plan& network, const Features& input, const Features& expected) {
    const Execution execution = make_execution(machine(), network.get());
    const NetworkRun run = in_oracle_order(
        network.get(),
        run_network(machine(), execution.get(), input.level.coordinates, stored(input), dtype()));
    EXPECT_EQ(run.coordinates, expected.level.coordinates);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), {expected.values.begin(), expected.values.end()},
                         expected.channels, error_bound(dtype(), true)));
  }
};

/// The network's input is what the first block adds: read from where it lies, and not overwritten before.
TEST_P(NetworkEdges, AFirstResidualBlockAddsTheInput) {
  const std::string description = describe("4", R"({"op": "residual", "name": "a", "width": 0, "save": "s"},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 3}, {"op": "concat", "with": "s"},
    {"op": "block", "name": "c", "width": 0, "kernel_size": 1})");
  oracle::Parameters parameters(21);
  Chain chain(parameters);
  const Features input = input_of(make_crumbs(16, {-7, -8, 3}, 22), 23);
  const Features a = chain.residual(input, "a", 4);
  const Features b = chain.block(a, "b", 4, kThrees);
  const Features c = chain.block(Chain::concat(b, a), "c", 4, kOnes);
  expect_close(make(description, parameters.all()), input, c);
}

/// Fused, with the block's first layer, unless that takes several offsets in a step; else by itself.
TEST_P(NetworkEdges, AShortcutMayRunWithTheFirstLayer) {
  const std::string description = describe("24, 40", R"({"op": "residual", "name": "a", "width": 0},
    {"op": "residual", "name": "b", "width": 1})");
  oracle::Parameters parameters(25);
  Chain chain(parameters);
  const Features input = input_of(make_crumbs(11, {-6, 2, 3}, 26), 27);
  const Features a = chain.residual(input, "a", 24), b = chain.residual(a, "b", 40);
  const Plan network = make(description, parameters.all());
  expect_close(network, input, b);
  const Execution execution = make_execution(machine(), network.get());
  check(prepare(machine(), execution.get(), input.level.coordinates));
  const auto kernel_of = [&](int32_t layer) {
    minuet_layer_info info = {};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(execution.get(), layer, &info));
    return std::string(info.kernel);
  };
  const bool is_fused = dataflow_of(execution.get(), 1) == MINUET_DATAFLOW_FUSED && !machine().is_cpu();
  for (const auto& [shortcut, rides] : {std::pair(1, false), {4, true}}) {
    EXPECT_EQ(kernel_of(shortcut) == kernel_of(shortcut - 1), rides || !is_fused) << shortcut;
    EXPECT_EQ(kernel_of(shortcut).find("shortcut1") != std::string::npos, rides && is_fused) << shortcut;
  }
}

/// Coarser levels of two branches: what keys are floored by must suit both strides, wherever the cloud
/// begins.
TEST_P(NetworkEdges, StridesOfTwoBranchesHaveNoCommonPower) {
  const std::string description =
      describe("4, 8", R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
    {"op": "block", "name": "half", "width": 1, "kernel_size": 2, "stride": 2},
    {"op": "up", "name": "back", "width": 0, "kernel_size": 2, "stride": 2, "onto": "s"},
    {"op": "block", "name": "third", "width": 1, "kernel_size": 3, "stride": 3})");
  oracle::Parameters parameters(31);
  for (int32_t least = -9; least < -3; ++least) {
    SCOPED_TRACE(least);
    Chain chain(parameters);
    const Features input = input_of(make_crumbs(10, {least, least + 1, 2 * least}, 32), 33);
    const Features a = chain.block(input, "a", 4, kThrees);
    const Features half = chain.block(a, "half", 8, {2, 2, 2, 1}, {2, 2, 2, 1});
    const Features back = chain.up(half, input.level, "back", 4, {2, 2, 2, 1});
    const Features third = chain.block(back, "third", 8, kThrees, kThrees);
    expect_close(make(description, parameters.all()), input, third);
    if (HasFailure()) return;
  }
}

/// The parts of a concatenation that ends a network are written, and read again, where the output is: in the
/// caller's memory on a derived level, in the network's own on the input's.
TEST_P(NetworkEdges, TheLastLayerMayBeAConcatenation) {
  oracle::Parameters parameters(36);
  Chain chain(parameters);
  const Features input = input_of(make_crumbs(10, {-3, 4, -5}, 37), 38);
  const Features a = chain.block(input, "a", 8, kThrees);
  const Features b = chain.block(a, "b", 4, kThrees);
  const std::string fine = R"({"op": "block", "name": "a", "width": 1, "kernel_size": 3, "save": "a"},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 3}, {"op": "concat", "with": "a", "save": "ba"})";
  const Features down = chain.block(Chain::concat(b, a), "down", 5, {2, 2, 2, 1}, {2, 2, 2, 1});
  const Features c = chain.block(down, "c", 8, kThrees);
  const Features d = chain.block(Chain::concat(c, down), "d", 4, kThrees);
  const std::string coarse = fine + R"(,
    {"op": "block", "name": "down", "width": 2, "kernel_size": 2, "stride": 2, "save": "down"},
    {"op": "block", "name": "c", "width": 1, "kernel_size": 3}, {"op": "concat", "with": "down", "save": "cd"},
    {"op": "block", "name": "d", "width": 0, "kernel_size": 3}, {"op": "concat", "with": "cd"},
    {"op": "head", "name": "head"})";  // of which the weights know nothing
  const auto of = [&](std::initializer_list<const char*> layers) {
    Tensors tensors;
    for (const auto& [name, tensor] : parameters.all()) {
      for (const std::string layer : layers) {
        if (name.rfind(layer + ".", 0) == 0) tensors.emplace(name, tensor);
      }
    }
    return tensors;
  };
  expect_close(make(describe("4, 8, 5", fine), of({"a", "b"})), input, Chain::concat(b, a));
  expect_close(make(describe("4, 8, 5", coarse), of({"a", "b", "down", "c", "d"})), input,
               Chain::concat(d, Chain::concat(c, down)));
}

/// A full cube of a power of two: where keys have no room for the farthest offset, a row's end meets the next
/// one's beginning.
TEST_P(NetworkEdges, TheFarthestOffsetIsNotTheLastLayers) {
  const std::string description = describe("4", R"({"op": "block", "name": "a", "width": 0, "kernel_size": 5},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 1})");
  oracle::Parameters parameters(41);
  Chain chain(parameters);
  const Features input = input_of(make_cube(8, {0, 0, 0}), 42);
  const Features a = chain.block(input, "a", 4, {5, 5, 5, 1});
  const Features b = chain.block(a, "b", 4, kOnes);
  expect_close(make(description, parameters.all()), input, b);
}

/// The centre, which reads its rows in place, is the lower of two middle cells.
TEST_P(NetworkEdges, EvenKernelsOnTheirOwnCoordinates) {
  const std::string description = describe("4", R"({"op": "block", "name": "a", "width": 0, "kernel_size": 2},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 4})");
  oracle::Parameters parameters(46);
  Chain chain(parameters);
  const Features input = input_of(make_crumbs(9, {-4, 5, 0}, 47), 48);
  const Features a = chain.block(input, "a", 4, {2, 2, 2, 1});
  const Features b = chain.block(a, "b", 4, {4, 4, 4, 1});
  expect_close(make(description, parameters.all()), input, b);
}

const char kOneBlock[] = R"({"op": "block", "name": "a", "width": 0, "kernel_size": 3})";

/// The most padding that groups get: every offset has one pair or a few, and each of them a whole height. Of
/// the larger clouds, sorted maps need more than an index.
TEST_P(NetworkEdges, TheWorkspaceBoundHoldsThePadding) {
  const Plan network = make(describe("4", kOneBlock));
  for (const int size : {1, 2, 5, 17}) {
    const Features input = input_of(make_cube(size, {0, 0, 0}), 51);
    const double neighbours = std::pow(3.0 - 2.0 / size, 3);  // inputs per output on average
    int64_t bytes = 0;
    check(minuet_plan_workspace_bytes(network.get(), machine().arch().c_str(), nullptr, input.level.rows(),
                                      neighbours, &bytes));
    const Buffer workspace(machine(), bytes);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.max_points = input.level.rows();
    options.workspace = workspace.data();
    options.workspace_bytes = bytes;
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      options.map_method = method;
      const Execution execution = make_execution(machine(), network.get(), &options);
      EXPECT_EQ(prepare(machine(), execution.get(), input.level.coordinates), MINUET_OK) << last_error();
    }
  }
}

TEST_P(NetworkEdges, OneDuplicateIsRefused) {
  const Plan network = make(describe("4", kOneBlock));
  const Execution execution = make_execution(machine(), network.get());
  std::vector<int32_t> coordinates = make_cube(2, {0, 0, 0});
  EXPECT_EQ(prepare(machine(), execution.get(), coordinates), MINUET_OK);
  coordinates.insert(coordinates.end(), {0, 1, 1, 0});
  EXPECT_EQ(prepare(machine(), execution.get(), coordinates), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), testing::HasSubstr("1 of 9"));
}

/// Tensors of one block, as a file would hold them.
Tensors draw_tensors(uint64_t seed) {
  oracle::Parameters parameters(seed);
  Chain(parameters).block(input_of({0, 0, 0, 0}, 1), "a", 4, kThrees);
  return parameters.all();
}

/// Two blocks of one offset: `first` times, then minus one times the sum of 4 channels, so that what the
/// first overflows to is 0 behind the second's ReLU.
TEST_P(NetworkEdges, TheLayerThatOverflowsIsFound) {
  const float past = dtype() == DType::F16 ? 2000.0f : 1e37f;
  Tensors tensors;
  const auto filled = [](std::vector<int64_t> shape, float value) {
    const size_t count = shape.size() == 1 ? 4 : 16;
    return FileTensor{std::move(shape), std::vector<float>(count, value)};
  };
  for (const auto& [name, weight] : {std::pair<std::string, float>{"a", 50.0f}, {"b", -1.0f}}) {
    tensors[name + ".conv.weight"] = filled({1, 4, 4}, weight);
    for (const char* part : {".bn.bias", ".bn.running_mean"}) tensors[name + part] = filled({4}, 0);
    for (const char* part : {".bn.weight", ".bn.running_var"}) tensors[name + part] = filled({4}, 1);
  }
  const Plan network = make(describe("4", R"({"op": "block", "name": "a", "width": 0},
                                             {"op": "block", "name": "b", "width": 0})"),
                            tensors);
  const Execution execution = make_execution(machine(), network.get());
  Features input = input_of(make_cube(3, {0, 0, 0}), 61);
  const Buffer output(machine(), input.level.rows() * 4 * dtype_bytes(dtype()));
  const auto overflow_of = [&](float last) {
    input.values.back() = last;
    const Buffer memory(machine(), stored(input));
    const minuet_tensor in = tensor(memory, input.level.rows(), 4, dtype()),
                        out = tensor(output, input.level.rows(), 4, dtype());
    check(minuet_execution_run(execution.get(), &in, 1, &out, 1, nullptr));
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    return layer;
  };
  check(prepare(machine(), execution.get(), input.level.coordinates));
  EXPECT_EQ(overflow_of(1), -1);
  EXPECT_EQ(overflow_of(past), 0);
  EXPECT_EQ(overflow_of(1), 0) << "of any run since prepare";
  check(prepare(machine(), execution.get(), input.level.coordinates));
  EXPECT_EQ(overflow_of(1), -1);
  EXPECT_EQ(overflow_of(std::numeric_limits<float>::quiet_NaN()), 0);
}

/// A channel that never varied is scaled by 1 / sqrt(epsilon) = 316, and so is every mistake about epsilon.
TEST_P(NetworkEdges, ChannelsThatNeverVaried) {
  Tensors tensors = draw_tensors(71);
  tensors.at("a.bn.running_var").values = {0, 1e-6f, 1e-5f, 1};
  for (float& mean : tensors.at("a.bn.running_mean").values) mean *= 0x1p-8f;
  oracle::Parameters parameters(tensors);
  const Features input = input_of(make_crumbs(8, {0, 0, 0}, 72), 73);
  const Features expected = Chain(parameters).block(input, "a", 4, kThrees);
  expect_close(make(describe("4", kOneBlock), tensors), input, expected);
}

TEST_P(NetworkEdges, NumbersThatWouldSpoilEverythingAreRefused) {
  const auto expect_refused = [&](const char* name, float value, bool refused, const char* words) {
    SCOPED_TRACE(testing::Message() << name << " " << value);
    Tensors tensors = draw_tensors(81);
    tensors.at(name).values[1] = value;
    const TemporaryPath file("spoiled.safetensors");
    write_safetensors(file.path(), tensors);
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create(describe("4", kOneBlock), file.path(), network),
              refused ? MINUET_INVALID_ARGUMENT : MINUET_OK)
        << name << " " << value;
    if (refused) {
      EXPECT_THAT(last_error(), testing::HasSubstr(words));
      EXPECT_THAT(last_error(), testing::HasSubstr("the option allow_non_finite_parameters takes"));
    }
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinity = std::numeric_limits<float>::infinity();
  expect_refused("a.conv.weight", infinity, true, "finite");
  expect_refused("a.conv.weight", nan, true, "finite");
  expect_refused("a.conv.weight", 1e6f, dtype() == DType::F16, "fp16 cannot hold");
  expect_refused("a.bn.running_var", nan, true, "running_var");
  expect_refused("a.bn.running_var", infinity, true, "running_var");
  expect_refused("a.bn.running_var", -infinity, true, "running_var");
  expect_refused("a.bn.running_var", -1, true, "running_var\" of channel 1 is -1; it must not be negative");
  expect_refused("a.bn.running_var", 0, false, "");
}

/// As write_safetensors, in F64.
void write_doubles(const std::string& path, const Tensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const int64_t size : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const size_t first = data.size();
    for (const double value : tensor.values) data.append(reinterpret_cast<const char*>(&value), sizeof value);
    header += (first == 0 ? "\"" : ",\"") + name + R"(":{"dtype":"F64","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(first) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  const uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header << data;
}

TEST_P(NetworkEdges, WeightsInDoublePrecision) {
  const Tensors tensors = draw_tensors(91);
  const TemporaryPath file("double.safetensors");
  write_doubles(file.path(), tensors);
  const Features input = input_of(make_crumbs(8, {0, 0, 0}, 92), 93);
  const auto run = [&](const Plan& network) {
    return run_network(machine(), make_execution(machine(), network.get()).get(), input.level.coordinates,
                       stored(input), dtype());
  };
  EXPECT_EQ(run(make(describe("4", kOneBlock), file.path())), run(make(describe("4", kOneBlock), tensors)));
}

MINUET_INSTANTIATE_DEVICE_TEST(NetworkEdges);

}  // namespace
}  // namespace minuet::abi
