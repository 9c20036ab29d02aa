// The shipped network octformer_block, on every device and in every dtype, against plain loops in float64
// that follow the authors' modules, with parameters that have the authors' names and layouts.
#include <gmock/gmock.h>

#include <cmath>
#include <deque>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/pointwise_oracle.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using oracle::ChainStep;
using oracle::Pair;
using testing::HasSubstr;
using Tensors = std::map<std::string, FileTensor>;

constexpr uint64_t kOctFormerSeed = 909;

struct Features {
  int level = 0;  // the tensor stride is 2^level
  int64_t channels = 0;
  std::vector<double> values;
};

/// Evaluates the network layer by layer.
class OctFormer {
 public:
  OctFormer(oracle::Parameters& parameters, const std::vector<int32_t>& cloud)
      : parameters_(parameters), levels_{cloud} {
    for (const int32_t stride : {2, 4})
      levels_.push_back(oracle::downsample(3, levels_.back(), {stride, stride, stride, 1}));
  }

  const std::vector<int32_t>& coordinates(const Features& x) const {
    return levels_[static_cast<size_t>(x.level)];
  }

  /// A convolution and a batch norm. A kernel of 2 has stride 2. `groups` is 1, or the number of channels.
  Features convolve(const Features& x, const std::string& name, int64_t out, int size, int64_t groups,
                    double epsilon) {
    const int32_t fine = 1 << x.level;
    Features y{x.level + (size == 2 ? 1 : 0), out, {}};
    const std::vector<int32_t>& to = coordinates(y);
    const std::vector<Pair> pairs = oracle::find_pairs(
        {3, {size, size, size, 1}, {1, 1, 1, 1}, {fine, fine, fine, 1}}, coordinates(x), to);
    const auto rows = static_cast<int64_t>(to.size()) / 4;
    const double neighbours = std::max(1.0, static_cast<double>(pairs.size()) / static_cast<double>(rows));
    const int64_t inputs = x.channels / groups, outputs = out / groups;
    const std::vector<float>& weight =
        parameters_.weight(name + ".conv.weights", int64_t{size} * size * size, inputs, out, neighbours);
    y.values.resize(static_cast<size_t>(rows * out));
    for (const Pair& pair : pairs) {
      for (int64_t o = 0; o < out; ++o) {
        for (int64_t i = 0; i < inputs; ++i) {
          y.values[static_cast<size_t>(pair.out * out + o)] +=
              x.values[static_cast<size_t>(pair.in * x.channels + o / outputs * inputs + i)] *
              static_cast<double>(weight[static_cast<size_t>((pair.k * inputs + i) * out + o)]);
        }
      }
    }
    normalize(y, name + ".bn", epsilon);
    return y;
  }

  Features embed(Features x, const std::vector<int32_t>& widths) {
    const auto add = [&](const std::string& name, int32_t out, int size) {
      x = convolve(x, "patch_embed." + name, out, size, 1, 1e-3);
      for (double& value : x.values) value = std::max(value, 0.0);
    };
    add("convs.0", widths[0], 3), add("downsamples.0", widths[1], 2);
    add("convs.1", widths[1], 3), add("downsamples.1", widths[2], 2);
    add("proj", widths[2], 3);
    return x;
  }

  Features encode_positions(const Features& x) {
    Features y = convolve(x, "layers.0.blocks.0.cpe", x.channels, 3, x.channels, 1e-5);
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x.values[i];
    return y;
  }

  /// x + MLP(norm2(x))
  Features mix(const Features& x, int64_t hidden) {
    const std::string name = "layers.0.blocks.0.";
    Features y = x;
    apply(y, {"layer_norm", 1e-5});
    apply(y, {"affine",
              0,
              {},
              parameters_.vector(name + "norm2.weight", x.channels, 1, 0.3),
              parameters_.vector(name + "norm2.bias", x.channels, 0.1, 0.3)});
    y = linear(y, name + "mlp.fc1", hidden);
    apply(y, {"gelu"});
    y = linear(y, name + "mlp.fc2", x.channels);
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x.values[i];
    return y;
  }

 private:
  void normalize(Features& x, const std::string& name, double epsilon) {
    const std::vector<float>& weight = parameters_.vector(name + ".weight", x.channels, 1, 0.3);
    const std::vector<float>& bias = parameters_.vector(name + ".bias", x.channels, 0.1, 0.3);
    const std::vector<float>& mean = parameters_.vector(name + ".running_mean", x.channels, 0, 0.3);
    // Small variances make the epsilon count.
    const std::vector<float>& variance = parameters_.vector(name + ".running_var", x.channels, 0.6, 0.55);
    for (size_t i = 0; i < x.values.size(); ++i) {
      const size_t c = i % static_cast<size_t>(x.channels);
      x.values[i] = (x.values[i] - static_cast<double>(mean[c])) /
                        std::sqrt(static_cast<double>(variance[c]) + epsilon) *
                        static_cast<double>(weight[c]) +
                    static_cast<double>(bias[c]);
    }
  }

  static void apply(Features& x, const ChainStep& step) {
    for (size_t at = 0; at < x.values.size(); at += static_cast<size_t>(x.channels))
      oracle::apply_step(step, x.values.data() + at, x.channels);
  }

  Features linear(const Features& x, const std::string& name, int64_t out) {
    const std::vector<float>& weight = parameters_.weight(name + ".weight", 1, x.channels, out, 1);
    const std::vector<float>& bias = parameters_.vector(name + ".bias", out, 0, 0.5);
    Features y{x.level, out, {}};
    for (size_t at = 0; at < x.values.size(); at += static_cast<size_t>(x.channels)) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = static_cast<double>(bias[static_cast<size_t>(o)]);
        for (int64_t i = 0; i < x.channels; ++i)
          sum += x.values[at + static_cast<size_t>(i)] *
                 static_cast<double>(weight[static_cast<size_t>(i * out + o)]);
        y.values.push_back(sum);
      }
    }
    return y;
  }

  oracle::Parameters& parameters_;
  std::vector<std::vector<int32_t>> levels_;
};

/// The drawn parameters as PyTorch stores them: the weight of a linear layer is [out, in].
Tensors checkpoint_of(const oracle::Parameters& parameters) {
  Tensors tensors = parameters.all();
  for (auto& [name, tensor] : tensors) {
    if (name.find(".mlp.") == std::string::npos || tensor.shape.size() != 3) continue;
    const int64_t in = tensor.shape[1], out = tensor.shape[2];
    FileTensor matrix{{out, in}, {}};
    for (int64_t o = 0; o < out; ++o)
      for (int64_t i = 0; i < in; ++i)
        matrix.values.push_back(tensor.values[static_cast<size_t>(i * out + o)]);
    tensor = std::move(matrix);
  }
  return tensors;
}

/// The network with these widths on one cloud, evaluated in float64.
struct Reference {
  Reference(const std::vector<int32_t>& widths, int64_t voxels) : cloud(make_scene(voxels, kOctFormerSeed)) {
    features = oracle::draw_features(static_cast<int64_t>(cloud.size()), kOctFormerSeed);  // 4 channels too
    oracle::Parameters parameters(kOctFormerSeed);
    OctFormer network(parameters, cloud);
    const Features embedded = network.embed({0, 4, {features.begin(), features.end()}}, widths);
    encoded = network.encode_positions(embedded);
    block = network.mix(encoded, widths[3]);
    coordinates = network.coordinates(block);
    checkpoint = checkpoint_of(parameters);
  }

  std::vector<int32_t> cloud, coordinates;
  std::vector<float> features;
  Features encoded, block;
  Tensors checkpoint;
};

/// The shipped description with other widths.
std::string narrowed_text(Machine& machine) {
  NetworkSpec spec;
  spec.name = "octformer_block";
  spec.dataflow = MINUET_DATAFLOW_AUTO;  // Gather-GEMM-scatter has no groups.
  std::string text = description_of(make_network(machine, spec).get());
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << from << text;
    text.replace(text.find(from), from.size(), to);
  };
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  replace(R"("channels":[24,48,96,384])", R"("channels":[8,12,16,40])");
  replace(R"("groups":96)", R"("groups":16)");
  return text;
}

/// The kernel of the first layer whose name begins so, for what is prepared.
std::string kernel_of(minuet_execution* execution, const std::string& name) {
  minuet_layer_info info = {};
  info.struct_size = sizeof(info);
  for (int32_t layer = 0; minuet_execution_query_layer(execution, layer, &info) == MINUET_OK; ++layer) {
    if (std::string(info.name).find(name) == 0) return info.kernel;
  }
  ADD_FAILURE() << "there is no layer " << name;
  return "";
}

class OctFormerTest : public DeviceTest {
 protected:
  void check(const Reference& one, NetworkSpec spec) {
    const TemporaryPath file("octformer.safetensors");
    write_safetensors(file.path(), one.checkpoint);
    spec.dtype = dtype(), spec.weights = file.path();
    const Plan network = make_network(machine(), spec);
    const Execution execution = make_execution(machine(), network.get());
    const std::vector<NetworkRun> runs = run_graph(machine(), network.get(), execution.get(), one.cloud,
                                                   {encode(dtype(), one.features)}, dtype());
    ASSERT_EQ(runs.size(), 2u);
    for (const auto& [given, expected] :
         {std::pair(&runs[0], &one.encoded), std::pair(&runs[1], &one.block)}) {
      const NetworkRun run = ascending(*given);
      EXPECT_EQ(run.coordinates, one.coordinates);
      ASSERT_EQ(run.channels, expected->channels);
      EXPECT_TRUE(
          is_close(decode(dtype(), run.bytes), expected->values, run.channels, error_bound(dtype(), true)));
    }
  }
};

TEST_P(OctFormerTest, WithFewChannels) {
  NetworkSpec spec;
  spec.name = "", spec.description = narrowed_text(machine());
  spec.dataflow = MINUET_DATAFLOW_AUTO;
  check(Reference({8, 12, 16, 40}, kSanitized ? 100 : 400), spec);
}

/// Within capacities, the bits of the exact run and zeros behind them; and the depthwise convolution runs in
/// the kernel for depthwise convolutions.
TEST_P(OctFormerTest, WithinCapacities) {
  NetworkSpec spec;
  spec.name = "", spec.description = narrowed_text(machine()), spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_FUSED;  // the one that capacity mode has
  const Plan network = make_network(machine(), spec);
  const std::vector<int32_t> cloud = make_scene(kSanitized ? 100 : 300, kOctFormerSeed);
  const auto rows = static_cast<int64_t>(cloud.size() / 4);
  std::vector<char> features = encode(dtype(), oracle::draw_features(rows * 4, kOctFormerSeed));
  const Execution execution = make_execution(machine(), network.get());
  const std::vector<NetworkRun> exact =
      run_graph(machine(), network.get(), execution.get(), cloud, {features}, dtype());
  const int64_t capacities[] = {rows + 40, rows + 20, rows + 10};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities, options.level_count = 3;
  const Execution within = make_execution(machine(), network.get(), &options);
  features.resize(static_cast<size_t>(capacities[0] * 4 * dtype_bytes(dtype())), '\xff');
  const Buffer input(machine(), features);
  std::deque<Buffer> outputs;
  std::vector<minuet_array> arrays;
  for (int32_t i = 0; i < 2; ++i) {
    const minuet_tensor_info info = output_of(network.get(), i);
    Buffer& output = outputs.emplace_back(machine(), capacities[info.level] * 16 * dtype_bytes(dtype()));
    arrays.push_back(array_of(tensor(output, capacities[info.level], 16, dtype())));
  }
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (Buffer& output : outputs) output.poison();
    abi::check(prepare(machine(), within.get(), cloud));
    abi::check(run_arrays(within.get(), {array_of(tensor(input, capacities[0], 4, dtype()))}, arrays));
    for (size_t i = 0; i < 2; ++i) {
      std::vector<char> expected = exact[i].bytes;
      expected.resize(static_cast<size_t>(outputs[i].bytes()));
      EXPECT_EQ(outputs[i].read<char>(), expected) << "output " << i;
    }
  }
  // The CPU device has no kernels.
  const std::string wanted = machine().is_cpu() ? "" : "depthwise";
  EXPECT_EQ(kernel_of(execution.get(), "layers.0.blocks.0.cpe").substr(0, 9), wanted);
  EXPECT_EQ(kernel_of(within.get(), "layers.0.blocks.0.cpe").substr(0, 9), wanted);
}

TEST_P(OctFormerTest, AtTheAuthorsWidths) {
  if (machine().is_software()) {
    GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
  }
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer; narrow networks take the same paths";
  NetworkSpec spec;
  spec.name = "octformer_block";
  check(Reference({24, 48, 96, 384}, 60), spec);
}

MINUET_INSTANTIATE_DEVICE_TEST(OctFormerTest);

/// A whole model has other modules beside these, and its trainer a prefix. A wrong name is refused.
TEST(OctFormerCheckpoint, OfPointceptsTrainer) {
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  const Reference one({24, 48, 96, 384}, 20);
  Tensors tensors;
  for (const auto& [name, tensor] : one.checkpoint) tensors["module.backbone." + name] = tensor;
  tensors["module.backbone.layers.0.blocks.0.attention.qkv.weight"] = {{2, 2}, {1, 2, 3, 4}};
  NetworkSpec spec;
  spec.name = "octformer_block", spec.weights_prefix = "module.backbone.", spec.allow_unused = true;
  Plan network(nullptr, {minuet_plan_destroy});
  {
    const TemporaryPath file("octformer.safetensors");
    write_safetensors(file.path(), tensors);
    spec.weights = file.path();
    EXPECT_EQ(create_network(*cpu, spec, network), MINUET_OK) << last_error();
  }
  const TemporaryPath file("octformer.safetensors");
  tensors.erase("module.backbone.layers.0.blocks.0.cpe.conv.weights");
  write_safetensors(file.path(), tensors);
  spec.weights = file.path();
  EXPECT_EQ(create_network(*cpu, spec, network), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("layers.0.blocks.0.cpe.conv.weights"));
}

}  // namespace
}  // namespace minuet::abi
