// Random chains of layers through the C ABI, on every device, against the fp64 oracle.
#include "tests/cases/random_networks.h"

#include <algorithm>
#include <cmath>

#include "tests/cases/regression_cases.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr int kNetworks = kSanitized ? 6 : 20;
constexpr int kLongNetworks = 1000;
constexpr int kCudaNetworks = 8;
constexpr double kWorstElement = 4;

/// Errors against the largest value of any layer: what a narrow network ends in may cancel to next to
/// nothing.
testing::AssertionResult is_right(const NetworkCase& test, const std::vector<float>& output,
                                  const oracle::NetworkOutput& expected) {
  if (output.size() != expected.features.size()) {
    return testing::AssertionFailure() << output.size() << " values for " << expected.features.size();
  }
  const double bound = kWorstElement * error_bound(test.dtype, true) * expected.largest;
  for (size_t i = 0; i < output.size(); ++i) {
    if (std::abs(output[i] - expected.features[i]) <= bound) continue;  // false for a NaN
    return testing::AssertionFailure()
           << output[i] << " where " << expected.features[i] << " is expected within " << bound << ", row "
           << i / expected.channels;
  }
  return testing::AssertionSuccess();
}

/// With random weights.
NetworkSpec spec_of(const NetworkCase& test, minuet_dataflow dataflow = tested_dataflow()) {
  NetworkSpec spec;
  spec.description = test.json(), spec.dtype = test.dtype, spec.dataflow = dataflow;
  return spec;
}

/// Without norms numbers may grow past what fp16 holds.
bool fits_its_dtype(const NetworkCase& test, const oracle::NetworkOutput& expected) {
  constexpr double kMostInF16 = 1e4;
  return test.dtype != DType::F16 || expected.largest <= kMostInF16;
}

/// False for a network whose numbers do not fit its dtype, which is not run.
bool run_network_case(Machine& machine, const NetworkCase& test,
                      minuet_dataflow dataflow = tested_dataflow()) {
  const std::vector<int32_t> coordinates = test.coordinates();
  const std::vector<float> features = oracle::draw_features(test.points * test.in_channels, test.seed);
  oracle::Parameters parameters(test.seed);
  const oracle::NetworkOutput expected =
      oracle::evaluate(parameters, test.ndim, test.in_channels, test.layers, coordinates, features);
  if (!fits_its_dtype(test, expected)) return false;
  const TemporaryPath weights("random.safetensors");
  write_safetensors(weights.path(), parameters.all());
  NetworkSpec spec = spec_of(test, dataflow);
  spec.weights = weights.path();
  const Plan network = make_network(machine, spec);
  const Execution execution = make_execution(machine, network.get());
  const NetworkRun run =
      in_oracle_order(network.get(),
                      run_network(machine, execution.get(), coordinates, encode(test.dtype, features),
                                  test.dtype, test.ndim, test.in_channels),
                      test.ndim);
  EXPECT_EQ(run.coordinates, expected.coordinates);
  EXPECT_EQ(run.channels, expected.channels);
  if (run.channels == expected.channels) {
    EXPECT_TRUE(is_right(test, decode(test.dtype, run.bytes), expected));
  }
  return true;
}

/// The description with the results of these layers as outputs, which random networks name by their number.
std::string with_outputs(const NetworkCase& test, const std::vector<size_t>& layers) {
  std::string names;
  for (const size_t layer : layers)
    names += (names.empty() ? "\"result" : ", \"result") + std::to_string(layer) + "\"";
  return "{\"outputs\": [" + names + "], " + test.json(/*names_all=*/true).substr(1);
}

/// Up to four layers, each once, in any order.
std::vector<size_t> draw_outputs(const NetworkCase& test, Random& random) {
  std::vector<size_t> layers;
  for (int i = 0; i < 4; ++i) {
    const auto layer = static_cast<size_t>(random.below(test.layers.size()));
    if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
  }
  return layers;
}

/// Every output is that of the network that ends with its layer.
void run_outputs_case(Machine& machine, const NetworkCase& test, const std::vector<size_t>& layers) {
  const std::vector<int32_t> coordinates = test.coordinates();
  const std::vector<float> features = oracle::draw_features(test.points * test.in_channels, test.seed);
  oracle::Parameters parameters(test.seed);
  const auto expected_of = [&](size_t layer) {
    const std::vector<oracle::NetworkLayer> until(test.layers.begin(),
                                                  test.layers.begin() + static_cast<int64_t>(layer) + 1);
    return oracle::evaluate(parameters, test.ndim, test.in_channels, until, coordinates, features);
  };
  if (!fits_its_dtype(test, expected_of(test.layers.size() - 1))) return;
  const TemporaryPath weights("outputs.safetensors");
  write_safetensors(weights.path(), parameters.all());
  NetworkSpec spec = spec_of(test);
  spec.weights = weights.path(), spec.description = with_outputs(test, layers);
  const Plan network = make_network(machine, spec);
  const Execution execution = make_execution(machine, network.get());
  const std::vector<NetworkRun> runs = run_graph(machine, network.get(), execution.get(), coordinates,
                                                 {encode(test.dtype, features)}, test.dtype, test.ndim);
  ASSERT_EQ(runs.size(), layers.size());
  NetworkSpec printed = spec;
  printed.description = description_of(network.get());
  const Plan again = make_network(machine, printed);
  EXPECT_EQ(description_of(again.get()), printed.description);
  const Execution other = make_execution(machine, again.get());
  EXPECT_EQ(run_graph(machine, again.get(), other.get(), coordinates, {encode(test.dtype, features)},
                      test.dtype, test.ndim),
            runs);
  for (size_t i = 0; i < layers.size(); ++i) {
    const minuet_tensor_info info = output_of(network.get(), static_cast<int32_t>(i));
    EXPECT_EQ(info.name, "result" + std::to_string(layers[i]));
    const NetworkRun run = info.level == 0 ? runs[i] : ascending(runs[i], test.ndim);
    const oracle::NetworkOutput expected = expected_of(layers[i]);
    EXPECT_EQ(run.coordinates, expected.coordinates);
    ASSERT_EQ(run.channels, expected.channels);
    EXPECT_TRUE(is_right(test, decode(test.dtype, run.bytes), expected)) << spec.description;
  }
}

class RandomNetworkTest : public DeviceTest {
 protected:
  bool passes(const NetworkCase& test) {
    return passes_or_shrinks<NetworkCase>(
        test, [&](const NetworkCase& candidate) { (void)run_network_case(machine(), candidate); },
        simpler_networks, NetworkCase{.dtype = dtype(), .layers = {{}}, .points = 50});
  }
};

TEST_P(RandomNetworkTest, Networks) {
  const int count = case_count(machine().is_cpu()        ? kNetworks
                               : machine().is_software() ? 1
                                                         : kCudaNetworks,
                               kLongNetworks);
  const uint64_t seed = announce_seed(count);
  std::vector<NetworkCase> cases;
  std::vector<NetworkSpec> specs;
  for (int i = 0; i < count; ++i) {
    cases.push_back(draw_network(dtype(), case_seed(seed, 100 + static_cast<uint64_t>(dtype()), i)));
    specs.push_back(spec_of(cases.back()));
  }
  compile_ahead(machine(), specs);
  for (int i = 0; i < count; ++i) {
    if (passes(cases[i])) continue;
    FAIL() << "network " << i << " of seed " << seed;
  }
}

TEST_P(RandomNetworkTest, SeveralOutputs) {
  const int count = case_count(machine().is_cpu()        ? kNetworks
                               : machine().is_software() ? 1
                                                         : kCudaNetworks,
                               kLongNetworks);
  const uint64_t seed = announce_seed(count);
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    const NetworkCase test = draw_network(dtype(), case_seed(seed, 200 + static_cast<uint64_t>(dtype()), i));
    run_outputs_case(machine(), test, draw_outputs(test, random));
    if (HasFailure()) FAIL() << "network " << i << " of seed " << seed << ": " << as_initializer(test);
  }
}

/// Each field of a description at each of its values, in every place of every block, where random draws may
/// pass by.
std::vector<NetworkCase> cases_of_fields() {
  using oracle::Finish;
  using oracle::NetworkLayer;
  using Op = NetworkLayer::Op;
  using Activation = Finish::Activation;
  const Finish usual, bare{.norm = false, .activation = Activation::None}, plain{.norm = false},
      biased{.bias = true, .norm = false, .activation = Activation::None}, both{.bias = true},
      fixed{.affine = false, .epsilon = 0.25, .activation = Activation::None},
      leaky{.bias = true, .activation = Activation::LeakyReLU, .slope = 0.25},
      steep{.norm = false, .activation = Activation::LeakyReLU, .slope = -0.5};
  const oracle::Axes threes{3, 3, 3, 1}, twos{2, 2, 2, 1}, ones{1, 1, 1, 1};
  const auto block = [&](const Finish& finish) {
    return NetworkLayer{.channels = 6, .kernel_size = threes, .finishes = {finish}};
  };
  const auto chain = [](std::vector<NetworkLayer> layers) {
    return NetworkCase{.layers = std::move(layers), .points = 60, .batches = 2, .seed = 11};
  };
  const auto residual = [&](int channels, const oracle::Axes& kernel, const oracle::Axes& stride,
                            std::vector<Finish> finishes) {
    return NetworkLayer{.op = Op::Residual,
                        .channels = channels,
                        .kernel_size = kernel,
                        .stride = stride,
                        .finishes = std::move(finishes)};
  };
  const auto bottleneck = [&](int channels, const oracle::Axes& stride, std::vector<Finish> finishes) {
    return NetworkLayer{.op = Op::Bottleneck,
                        .channels = channels,
                        .kernel_size = threes,
                        .stride = stride,
                        .inner_channels = 5,
                        .finishes = std::move(finishes)};
  };
  std::vector<NetworkCase> cases;
  for (const Finish& finish : {bare, plain, biased, both, fixed, leaky, steep})
    cases.push_back(chain({block(finish)}));
  // The second block's shortcut may run in the launch of its first convolution, for any kernel with a middle.
  for (const oracle::Axes& kernel : {threes, ones, twos}) {
    cases.push_back(chain(
        {residual(24, kernel, ones, {leaky, both, bare}), residual(40, kernel, ones, {bare, leaky, fixed})}));
    cases.push_back(chain(
        {residual(24, kernel, ones, {steep, bare, both}), residual(40, kernel, ones, {plain, steep, bare})}));
  }
  cases.push_back(
      chain({residual(8, threes, twos, {steep, biased, both}), residual(8, threes, ones, {leaky, fixed})}));
  cases.push_back(chain({bottleneck(8, ones, {}), bottleneck(12, twos, {both, leaky, biased, fixed})}));
  // In every op that has a dilation it is another one on each axis.
  const oracle::Axes apart{2, 1, 3, 1};
  cases.push_back(chain(
      {{.channels = 6, .kernel_size = threes, .dilation = apart},
       {.op = Op::Residual, .channels = 6, .kernel_size = threes, .dilation = apart},
       {.op = Op::Bottleneck, .channels = 6, .kernel_size = threes, .dilation = apart, .inner_channels = 5},
       {.channels = 8, .kernel_size = threes, .stride = twos, .dilation = apart},
       {.op = Op::Up, .channels = 3, .kernel_size = threes, .stride = twos, .dilation = apart, .skip = 0}}));
  cases.push_back(chain(
      {block(usual),
       bottleneck(12, twos, {bare, plain, leaky, bare}),
       bottleneck(12, ones, {steep, fixed, steep}),
       {.op = Op::Up, .channels = 3, .kernel_size = twos, .stride = twos, .skip = 0, .finishes = {leaky}},
       {.op = Op::Concat, .skip = 0},
       block(biased)}));
  return cases;
}

TEST_P(RandomNetworkTest, EveryFieldOfADescription) {
  std::vector<NetworkCase> cases = cases_of_fields();
  for (NetworkCase& test : cases) test.dtype = dtype();
  const minuet_dataflow dataflows[] = {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED};
  std::vector<NetworkSpec> specs;
  for (const NetworkCase& test : cases) {
    for (const minuet_dataflow dataflow : dataflows) specs.push_back(spec_of(test, dataflow));
  }
  compile_ahead(machine(), specs);
  for (const NetworkCase& test : cases) {
    SCOPED_TRACE(as_initializer(test));
    ASSERT_TRUE(is_feasible(test));
    for (const minuet_dataflow dataflow : dataflows)
      EXPECT_TRUE(run_network_case(machine(), test, dataflow)) << "numbers that do not fit the dtype";
    if (HasFailure()) return;
  }
}

TEST_P(RandomNetworkTest, ThatOnceFailed) {
  for (const NetworkCase& test : regression_networks()) {
    if (test.dtype == dtype()) passes(test);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(RandomNetworkTest);

TEST(RandomCases, NetworksShrinkToTheLeastThatFails) {
  using Op = oracle::NetworkLayer::Op;
  auto fails = [](const NetworkCase& test) {
    return std::any_of(test.layers.begin(), test.layers.end(), [&](const oracle::NetworkLayer& layer) {
      return layer.op == Op::Concat && test.layers[layer.skip].channels >= 3;
    });
  };
  int shrunk = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const NetworkCase test = draw_network(DType::F16, seed);
    if (!fails(test)) continue;
    ++shrunk;
    const NetworkCase least{.ndim = 1,
                            .in_channels = 1,
                            .layers = {{.channels = 3},
                                       {.channels = 1},
                                       {.op = Op::Concat, .channels = 1, .skip = 0},
                                       {.channels = 1}},
                            .seed = test.seed};
    EXPECT_EQ(as_initializer(shrink<NetworkCase>(test, simpler_networks, fails, 2000)), as_initializer(least))
        << "from " << as_initializer(test);
  }
  EXPECT_GT(shrunk, 10);
}

}  // namespace
}  // namespace minuet::abi
