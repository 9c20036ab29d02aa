// The golden problems: results of an independent program, on every device and in every dtype.
#include "tests/support/golden.h"

#include <numeric>

#include "tests/support/abi.h"
#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/pooling_abi.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

class GoldenTest : public DeviceTest {
 protected:
  void SetUp() override {
    MINUET_SKIP_WITHOUT_GOLDEN();
    DeviceTest::SetUp();
  }

  ConvolutionCase case_of(const GoldenFile& file) {
    ConvolutionCase test;
    test.dtype = dtype();
    test.ndim = std::stoi(file.metadata.at("ndim"));
    test.kernel_size = file.axes("kernel_size");
    test.stride = file.axes("stride");
    test.dilation = file.axes("dilation");
    test.tensor_stride = file.axes("fine_tensor_stride");
    test.in_channels = static_cast<int>(file.shapes.at("in_features")[1]);
    test.out_channels = static_cast<int>(file.shapes.at("out_features")[1]);
    test.points = file.shapes.at("in_coordinates")[0];
    const bool strided = test.stride != oracle::Axes{1, 1, 1, 1};
    // What a generative one makes onto its own coordinates, a transposed one makes onto given ones.
    const std::string& kind = file.metadata.at("kind");
    test.kind = kind == "transposed" || kind == "generative_transposed" ? ConvolutionKind::Transposed
                : file.flag("submanifold")                              ? ConvolutionKind::Submanifold
                : strided && !file.flag("given_outputs")                ? ConvolutionKind::Strided
                                                                        : ConvolutionKind::GivenOutputs;
    return test;
  }

  ConvolutionData data_of(const GoldenFile& file, const ConvolutionCase& test) {
    ConvolutionData data;
    data.geometry = {test.ndim, test.kernel_size, test.dilation, test.tensor_stride, test.transposed()};
    data.in_coordinates = file.integers.at("in_coordinates");
    data.out_coordinates = file.integers.at("out_coordinates");
    data.features = file.floats.at("in_features");
    if (file.floats.count("weight")) data.weight = file.floats.at("weight");  // a pooling has none
    data.rows.resize(data.out_rows());
    std::iota(data.rows.begin(), data.rows.end(), 0);
    return data;
  }

  void check_layer(const std::string& name);
  void check_pooling(const GoldenFile& file);
  void check_network(const std::string& name);
};

std::vector<oracle::Pair> golden_pairs(const GoldenFile& file) {
  const std::vector<int32_t>& values = file.integers.at("pairs");
  std::vector<oracle::Pair> pairs;
  for (size_t i = 0; i + 3 <= values.size(); i += 3)
    pairs.push_back({values[i], values[i + 1], values[i + 2]});
  oracle::sort(pairs);
  return pairs;
}

bool is_pooling(const GoldenFile& file) {
  const std::string& kind = file.metadata.at("kind");
  return kind == "max_pool" || kind == "average_pool" || kind == "sum_pool";
}
minuet_pooling_options pooling_options(const GoldenFile& file, const ConvolutionCase& test) {
  const std::string& kind = file.metadata.at("kind");
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.ndim = test.ndim;
  options.dtype = abi_dtype(test.dtype);
  options.channels = test.in_channels;
  options.reduction = kind == "max_pool"       ? MINUET_REDUCE_MAX
                      : kind == "average_pool" ? MINUET_REDUCE_AVERAGE
                                               : MINUET_REDUCE_SUM;
  std::copy_n(test.kernel_size.begin(), test.ndim, options.kernel_size);
  std::copy_n(test.stride.begin(), test.ndim, options.stride);
  std::copy_n(test.dilation.begin(), test.ndim, options.dilation);
  return options;
}

void GoldenTest::check_pooling(const GoldenFile& file) {
  const ConvolutionCase test = case_of(file);
  ConvolutionData data = data_of(file, test);
  const minuet_pooling_options options = pooling_options(file, test);
  const Pooling pooling(machine(), options);
  ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
  const Map map = make_map(machine(), test, data);
  EXPECT_EQ(map.pairs, golden_pairs(file));
  const std::vector<float> output = decode(dtype(), pooling.run(map, data.features, data.out_rows()));
  EXPECT_TRUE(is_close(output, file.doubles.at("out_features"), test.out_channels, error_bound(dtype())));
}

void GoldenTest::check_layer(const std::string& name) {
  SCOPED_TRACE(name);
  const GoldenFile file = read_golden(name);
  ASSERT_FALSE(HasFatalFailure() || file.metadata.empty());
  if (!why_not_built(file).empty()) return;
  if (is_pooling(file)) return check_pooling(file);
  const ConvolutionCase test = case_of(file);
  const ConvolutionData data = data_of(file, test);
  Convolution convolution(machine(), test, data);
  ASSERT_EQ(convolution.status(), MINUET_OK) << last_error();
  const Map map = make_map(machine(), test, data);
  EXPECT_EQ(map.pairs, golden_pairs(file));
  const std::vector<float> output =
      decode(dtype(), convolution.run(convolution.execution().get(), map, data));
  std::vector<double> magnitudes;
  expected_output(test, data, &magnitudes);
  EXPECT_TRUE(is_close(output, file.doubles.at("out_features"), magnitudes, test.out_channels, dtype()));
}

TEST_P(GoldenTest, Layers) {
  std::vector<std::string> names = golden_layers();
  if (machine().is_software()) {  // each problem in one of two dtypes
    const size_t other = dtype() == DType::TF32 ? 0 : 1;
    for (size_t i = other; i < names.size(); ++i) names.erase(names.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::vector<ConvolutionCase> cases;
  for (const std::string& name : names) {
    const GoldenFile file = read_golden(name);
    if (!is_pooling(file) && why_not_built(file).empty()) cases.push_back(case_of(file));
  }
  compile_ahead(machine(), cases);
  for (const std::string& name : names) check_layer(name);
}

/// How many problems are of kinds that are not built yet. This test is skipped until there is none, and says
/// so in the summary of a check.
TEST(Golden, AllKindsAreBuilt) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  std::map<std::string, int> missing;
  for (const std::string& name : golden_layers()) {
    const GoldenFile file = read_golden(name);
    if (const std::string why = why_not_built(file); !why.empty()) ++missing[why];
    if (file.doubles.count("in_gradient")) ++missing["gradients (their forward results are compared)"];
  }
  std::string text;
  for (const auto& [why, count] : missing)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " of " + why;
  if (!text.empty()) GTEST_SKIP() << "golden problems of kinds that are not built yet: " << text;
}

void GoldenTest::check_network(const std::string& name) {
  const GoldenFile file = read_golden("network_" + name);
  const std::string weights = shared_folder() + "/golden/network_" + name + "_weights.safetensors";
  const std::vector<int32_t> channels = file.list("channels");
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.name = name.c_str();
  options.dtype = abi_dtype(dtype());
  options.dataflow = tested_dataflow();
  options.channels = channels.data();
  options.channel_count = static_cast<int32_t>(channels.size());
  options.weights_path = weights.c_str();
  minuet_plan* network = nullptr;
  check(minuet_plan_create_network(machine().context(), &options, &network));
  const Plan owner(network, {minuet_plan_destroy});
  check(minuet_plan_compile(network, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(network, machine().device()));
  const Execution execution = make_execution(machine(), network);

  const std::vector<int32_t>& coordinates = file.integers.at("in_coordinates");
  const std::vector<int32_t>& expected_coordinates = file.integers.at("out_coordinates");
  const int64_t points = file.shapes.at("in_coordinates")[0];
  const auto in_channels = static_cast<int32_t>(file.shapes.at("in_features")[1]);
  const Buffer points_memory(machine(), coordinates);
  const Buffer features(machine(), encode(dtype(), file.floats.at("in_features")));
  std::vector<char> first;
  for (int repeat = 0; repeat < (kSanitized ? 2 : 20); ++repeat) {
    check(minuet_execution_prepare(execution.get(), points_memory.integers(), points, nullptr));
    int64_t rows = -1;
    int32_t width = -1;
    check(minuet_execution_output_shape(execution.get(), &rows, &width));
    ASSERT_EQ(rows, file.shapes.at("out_features")[0]);
    ASSERT_EQ(width, file.shapes.at("out_features")[1]);
    const Buffer output(machine(), rows * width * dtype_bytes(dtype()));
    check(run_tensors(execution.get(), {tensor(features, points, in_channels, dtype())},
                      tensor(output, rows, width, dtype())));
    const std::vector<char> bytes = output.read<char>();
    if (repeat > 0) {
      ASSERT_EQ(bytes, first) << "run " << repeat << " differs from the first";
      continue;
    }
    first = bytes;
    Buffer where(machine(), rows * 16);
    check(minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(where.data()), nullptr));
    const NetworkRun run = in_oracle_order(network, {rows, width, bytes, where.read<int32_t>()});
    EXPECT_EQ(run.coordinates, expected_coordinates);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), file.doubles.at("out_features"), width,
                         error_bound(dtype(), true)));
  }
}

TEST_P(GoldenTest, MinkUNet42) { check_network("minkunet42"); }
TEST_P(GoldenTest, SparseResNet21D) { check_network("sparseresnet21d"); }

MINUET_INSTANTIATE_DEVICE_TEST(GoldenTest);

}  // namespace
}  // namespace minuet::abi
