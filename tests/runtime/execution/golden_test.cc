// The golden problems: results of an independent program, on every device and in every dtype.
#include <set>

#include "tests/runtime/execution/golden_fixture.h"
#include "tests/runtime/execution/pyramid_fixture.h"
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

  ConvolutionCase case_of(const GoldenFile& file) { return golden_case(file, dtype()); }

  /// Runs the plan of an op on a pyramid, whose rows the capacities select the same kernels for, and expects
  /// these bytes of the output. Problems of the kinds that why_not_on_pyramid() names are left out.
  void check_on_pyramid(minuet_plan* plan, const ConvolutionCase& test, const ConvolutionData& data,
                        uint32_t purpose, const std::vector<char>& expected);
  /// The same for a network, beside capacity mode.
  void check_network_on_pyramid(const GoldenFile& file, minuet_network_options options);
  // Hold the problem that is checked, those that ran on a pyramid, and why others did not.
  std::string name_;
  std::set<std::string> on_pyramids_;
  std::map<std::string, std::string> not_on_pyramids_;

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
  options.dense_offsets = test.is_reached;
  std::copy_n(test.padding.begin(), test.ndim, options.padding);
  set_offsets(test.ndim, test.offsets, options);
  return options;
}

void GoldenTest::check_pooling(const GoldenFile& file) {
  const ConvolutionCase test = case_of(file);
  ConvolutionData data = golden_data(file, test);
  const minuet_pooling_options options = pooling_options(file, test);
  const Pooling pooling(machine(), options);
  ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
  const Map map = make_map(machine(), test, data);
  EXPECT_EQ(map.pairs, golden_pairs(file));
  const std::vector<char> bytes = pooling.run(map, data.features, data.out_rows());
  const std::vector<float> output = decode(dtype(), bytes);
  EXPECT_TRUE(is_close(output, file.doubles.at("out_features"), test.out_channels, error_bound(dtype())));
  check_on_pyramid(pooling.plan(), test, data,
                   test.transposed() ? MINUET_PURPOSE_TRANSPOSED_POOLING : MINUET_PURPOSE_POOLING, bytes);
}

void GoldenTest::check_layer(const std::string& name) {
  SCOPED_TRACE(name);
  name_ = name;
  const GoldenFile file = read_golden(name);
  ASSERT_FALSE(HasFatalFailure() || file.metadata.empty());
  ASSERT_EQ(why_not_built(file), "");
  if (is_pooling(file)) return check_pooling(file);
  const ConvolutionCase test = case_of(file);
  const ConvolutionData data = golden_data(file, test);
  Convolution convolution(machine(), test, data);
  ASSERT_EQ(convolution.status(), MINUET_OK) << last_error();
  const Map map = make_map(machine(), test, data);
  EXPECT_EQ(map.pairs, golden_pairs(file));
  const std::vector<float> output =
      decode(dtype(), convolution.run(convolution.execution().get(), map, data));
  std::vector<double> magnitudes;
  expected_output(test, data, &magnitudes);
  EXPECT_TRUE(is_close(output, file.doubles.at("out_features"), magnitudes, test.out_channels, dtype()));
  Convolution fused(machine(), test, data, MINUET_DATAFLOW_FUSED);
  ASSERT_EQ(fused.status(), MINUET_OK) << last_error();
  check_on_pyramid(fused.get(), test, data,
                   test.transposed() ? MINUET_PURPOSE_TRANSPOSED_CONVOLUTION : MINUET_PURPOSE_CONVOLUTION,
                   fused.run(fused.execution().get(), map, data));
}

/// The number of each of the coordinates in the list; empty where one is not there.
std::vector<int32_t> rows_in(const std::vector<int32_t>& list, const std::vector<int32_t>& coordinates,
                             int ndim) {
  const auto fields = static_cast<std::ptrdiff_t>(ndim + 1);
  std::map<std::vector<int32_t>, int32_t> numbers;
  for (auto at = list.begin(); at != list.end(); at += fields)
    numbers.emplace(std::vector<int32_t>(at, at + fields), static_cast<int32_t>(numbers.size()));
  std::vector<int32_t> rows;
  for (auto at = coordinates.begin(); at != coordinates.end(); at += fields) {
    const auto found = numbers.find(std::vector<int32_t>(at, at + fields));
    if (found == numbers.end()) return {};
    rows.push_back(found->second);
  }
  return rows;
}

/// The coordinates in ascending order.
std::vector<int32_t> sorted_rows(const std::vector<int32_t>& coordinates, int ndim) {
  const auto fields = static_cast<std::ptrdiff_t>(ndim + 1);
  std::vector<std::vector<int32_t>> rows;
  rows.reserve(coordinates.size() / static_cast<size_t>(fields));
  for (auto at = coordinates.begin(); at != coordinates.end(); at += fields)
    rows.emplace_back(at, at + fields);
  std::sort(rows.begin(), rows.end());
  std::vector<int32_t> sorted;
  sorted.reserve(coordinates.size());
  for (const std::vector<int32_t>& row : rows) sorted.insert(sorted.end(), row.begin(), row.end());
  return sorted;
}

/// For which a plan in capacity mode selects the kernels of so many rows.
int64_t capacity_for(int64_t rows) { return std::max<int64_t>((4 * rows + 2) / 3, 1); }

constexpr const char *kGivenSet = "the output set is given",
                     *kTensorStride = "the finer set has a tensor stride",
                     *kFurtherCells = "the finer set lies in cells that the coarser one lacks";
// Are all golden problems that cannot run on a pyramid, in any dtype.
const std::map<std::string, std::string> kNotOnPyramids{{"down_k113_s112", kTensorStride},
                                                        {"down_k3s2", kTensorStride},
                                                        {"generative_2d_k4s2", kFurtherCells},
                                                        {"generative_k3s2", kFurtherCells},
                                                        {"generative_k3s2_d2", kFurtherCells},
                                                        {"given_outputs", kGivenSet},
                                                        {"max_pool_k3s1", kGivenSet},
                                                        {"reached_ts4_k3s2p1", kTensorStride},
                                                        {"sub_dilated_axis", kTensorStride},
                                                        {"sub_ts4", kTensorStride},
                                                        {"sum_pool_k3", kGivenSet}};

/// A pyramid makes each coarser set from the finer one, so these kinds of problems cannot run on it. Each
/// other problem must.
std::string why_not_on_pyramid(const ConvolutionCase& test, const std::vector<int32_t>& fine,
                               const std::vector<int32_t>& coarse) {
  if (test.kind == ConvolutionKind::GivenOutputs) return kGivenSet;
  if (test.tensor_stride != oracle::Axes{1, 1, 1, 1}) return kTensorStride;
  // The finer set of a generative problem is what its kernel reaches, which may lie in further coarser cells.
  if (test.is_generative && oracle::downsample(test.ndim, fine, test.stride) != coarse) return kFurtherCells;
  return "";
}

void GoldenTest::check_on_pyramid(minuet_plan* plan, const ConvolutionCase& test, const ConvolutionData& data,
                                  uint32_t purpose, const std::vector<char>& expected) {
  const bool transposed = test.transposed();
  const std::vector<int32_t>& fine = transposed ? data.out_coordinates : data.in_coordinates;
  const std::vector<int32_t>& coarse = transposed ? data.in_coordinates : data.out_coordinates;
  if (const std::string why = why_not_on_pyramid(test, fine, sorted_rows(coarse, test.ndim)); !why.empty()) {
    not_on_pyramids_[name_] = why;
    return;
  }
  const bool is_within = test.kind == ConvolutionKind::Submanifold;
  const int fields = test.ndim + 1;
  const auto fine_rows = static_cast<int64_t>(fine.size()) / fields;
  const auto coarse_rows = static_cast<int64_t>(coarse.size()) / fields;
  minuet_pyramid_level levels[2]{};
  levels[0].capacity = capacity_for(fine_rows), levels[0].parent = -1;
  levels[1].capacity = capacity_for(coarse_rows);
  minuet_pyramid_map map{};
  map.coarse = is_within ? 0 : 1;
  map.purposes = purpose;
  for (int a = 0; a < test.ndim; ++a) {
    levels[1].stride[a] = test.stride[a];
    map.kernel_size[a] = test.kernel_size[a], map.dilation[a] = test.dilation[a];
    map.padding[a] = test.padding[a];
    if (!test.is_reached) continue;
    levels[1].kernel_size[a] = test.kernel_size[a], levels[1].dilation[a] = test.dilation[a];
    levels[1].padding[a] = test.padding[a], levels[1].shape[a] = test.shape[a];
  }
  map.dense_offsets = levels[1].is_reached = test.is_reached;
  set_offsets(test.ndim, test.offsets, map);
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.ndim = test.ndim;
  options.levels = levels, options.level_count = is_within ? 1 : 2;
  options.maps = &map, options.map_count = 1;
  options.keep_coordinates = is_within ? 0 : 2;
  TestPyramid pyramid(machine(), options);
  pyramid.build(fine, fields);

  std::vector<int32_t> set_rows;  // of each coarse coordinate of the problem
  if (!is_within) {
    const Buffer taken(machine(), levels[1].capacity * fields * 4);
    check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                     pyramid.buffer().bytes(), 1, static_cast<int32_t*>(taken.data()),
                                     nullptr));
    std::vector<int32_t> coordinates = taken.read<int32_t>();
    for (size_t i = coarse.size(); i < coordinates.size(); ++i) ASSERT_EQ(coordinates[i], 0) << "word " << i;
    coordinates.resize(coarse.size());
    ASSERT_EQ(sorted_rows(coordinates, test.ndim), sorted_rows(coarse, test.ndim));
    set_rows = rows_in(coordinates, coarse, test.ndim);
    ASSERT_EQ(set_rows.size(), static_cast<size_t>(coarse_rows));
  }
  const std::vector<float> features =
      transposed ? take_rows(data.features, inverse(set_rows)) : data.features;
  const int64_t in_capacity = levels[transposed ? 1 : 0].capacity;
  const int64_t out_capacity = levels[is_within || transposed ? 0 : 1].capacity;
  std::vector<char> padded = encode(dtype(), features);
  padded.resize(static_cast<size_t>(in_capacity * test.in_channels * dtype_bytes(dtype())), '\x7f');
  const Buffer input(machine(), padded);
  const Buffer output(machine(), out_capacity * test.out_channels * dtype_bytes(dtype()));
  run_on(machine(), plan, pyramid.run_arguments(),
         {array_of(tensor(input, in_capacity, test.in_channels, dtype()))},
         {array_of(tensor(output, out_capacity, test.out_channels, dtype()))});
  std::vector<char> bytes = output.read<char>();
  bytes.resize(expected.size());
  const auto width = static_cast<size_t>(test.out_channels * dtype_bytes(dtype()));
  if (!is_within && !transposed) {
    const std::vector<char> in_set_order = bytes;
    for (size_t i = 0; i < set_rows.size(); ++i)
      std::copy_n(&in_set_order[static_cast<size_t>(set_rows[i]) * width], width, &bytes[i * width]);
  }
  EXPECT_EQ(bytes, expected);
  on_pyramids_.insert(name_);
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
    if (!is_pooling(file)) cases.push_back(case_of(file));
  }
  compile_ahead(machine(), cases);
  for (const std::string& name : names) check_layer(name);
  std::set<std::string> wanted(names.begin(), names.end());
  std::map<std::string, std::string> left_out;
  for (const auto& [name, why] : kNotOnPyramids) {
    if (wanted.erase(name) > 0) left_out.emplace(name, why);
  }
  EXPECT_EQ(not_on_pyramids_, left_out);
  EXPECT_EQ(on_pyramids_, wanted);
}

TEST(Golden, AllKindsAreKnown) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  for (const std::string& name : golden_layers()) EXPECT_EQ(why_not_built(read_golden(name)), "") << name;
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
  check_network_on_pyramid(file, options);
}

void GoldenTest::check_network_on_pyramid(const GoldenFile& file, minuet_network_options options) {
  options.dataflow = MINUET_DATAFLOW_FUSED;
  minuet_plan* made = nullptr;
  check(minuet_plan_create_network(machine().context(), &options, &made));
  const Plan network(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine().device()));
  const minuet_plan_info info = info_of(made);
  const std::vector<int32_t>& coordinates = file.integers.at("in_coordinates");
  const int64_t points = file.shapes.at("in_coordinates")[0], capacity = points + 9;
  const std::vector<int64_t> capacities(static_cast<size_t>(info.levels), capacity);
  std::vector<char> padded = encode(dtype(), file.floats.at("in_features"));
  padded.resize(static_cast<size_t>(capacity * info.in_channels * dtype_bytes(dtype())), '\x7f');
  const Buffer features(machine(), padded), given(machine(), coordinates);
  const Buffer within_output(machine(), capacity * info.out_channels * dtype_bytes(dtype()));
  const Buffer output(machine(), within_output.bytes());
  const minuet_tensor input = tensor(features, capacity, info.in_channels, dtype());

  minuet_execution_options within = MINUET_EXECUTION_OPTIONS_INIT;
  within.level_capacity = capacities.data();
  within.level_count = info.levels;
  const Execution execution = make_execution(machine(), made, &within);
  check(minuet_execution_prepare(execution.get(), given.integers(), points, nullptr));
  check(run_tensors(execution.get(), {input}, tensor(within_output, capacity, info.out_channels, dtype())));

  minuet_pyramid_options levels = MINUET_PYRAMID_OPTIONS_INIT;
  levels.network = made;
  levels.level_capacity = capacities.data();
  levels.level_count = info.levels;
  levels.keep_coordinates = 1u << info.output_level;
  TestPyramid pyramid(machine(), levels);
  pyramid.build(coordinates);
  run_on(machine(), made, pyramid.run_arguments(), {array_of(input)},
         {array_of(tensor(output, capacity, info.out_channels, dtype()))});
  const std::vector<char> bytes = output.read<char>();
  EXPECT_EQ(bytes, within_output.read<char>());

  const int64_t rows = file.shapes.at("out_features")[0];
  const Buffer where(machine(), capacity * 16);
  check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                   pyramid.buffer().bytes(), info.output_level,
                                   static_cast<int32_t*>(where.data()), nullptr));
  NetworkRun run{rows, info.out_channels, bytes, where.read<int32_t>()};
  run.bytes.resize(static_cast<size_t>(rows * info.out_channels * dtype_bytes(dtype())));
  run.coordinates.resize(static_cast<size_t>(rows * 4));
  if (info.output_level == 0) run.coordinates = coordinates;
  run = in_oracle_order(made, run);
  EXPECT_EQ(run.coordinates, file.integers.at("out_coordinates"));
  EXPECT_TRUE(is_close(decode(dtype(), run.bytes), file.doubles.at("out_features"), info.out_channels,
                       error_bound(dtype(), true)));
}

TEST_P(GoldenTest, MinkUNet42) { check_network("minkunet42"); }
TEST_P(GoldenTest, SparseResNet21D) { check_network("sparseresnet21d"); }

MINUET_INSTANTIATE_DEVICE_TEST(GoldenTest);

}  // namespace
}  // namespace minuet::abi
