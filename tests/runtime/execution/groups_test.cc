// Convolutions with groups of channels through the C ABI, on every device and in every type, against the fp64
// oracle, and the laws that connect them with convolutions without groups.
#include <gmock/gmock.h>

#include "include/minuet/minuet.h"
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"

namespace minuet::abi {
namespace {

class GroupsTest : public DeviceTest {
 protected:
  int64_t points() { return machine().is_software() || kSanitized ? 60 : 700; }

  ConvolutionCase case_of(ConvolutionKind kind, int in_channels, int out_channels, int groups) {
    ConvolutionCase test = small_case(dtype(), kind, in_channels, out_channels, points());
    test.groups = groups;
    return test;
  }

  std::vector<float> run(const ConvolutionCase& test, const ConvolutionData& data) {
    Convolution convolution(machine(), test, data);
    EXPECT_EQ(convolution.status(), MINUET_OK) << last_error();
    if (convolution.status() != MINUET_OK) return {};
    const Map map = make_map(machine(), test, data);
    const Execution execution = convolution.execution();
    const std::vector<char> bytes = convolution.run(execution.get(), map, data);
    EXPECT_EQ(convolution.run(execution.get(), map, data), bytes) << "a repetition has other bits";
    return decode(dtype(), bytes);
  }

  void check_case(const ConvolutionCase& test) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    std::vector<double> magnitudes;
    const std::vector<double> expected = expected_output(test, data, &magnitudes);
    EXPECT_TRUE(is_close(select_rows(run(test, data), test.out_channels, data.rows), expected, magnitudes,
                         test.out_channels, test.dtype));
  }
};

struct GroupShape {
  int in, out, groups;
};
// Groups with launches of their own, groups that share launches, and groups of one input channel with
// multipliers that a vector holds, or not.
constexpr GroupShape kShapes[] = {{64, 64, 2},  {96, 48, 3}, {16, 24, 4}, {64, 128, 16},
                                  {32, 32, 32}, {5, 5, 5},   {6, 18, 6},  {8, 32, 8}};

TEST_P(GroupsTest, EveryKindAndShape) {
  std::vector<ConvolutionCase> cases;
  std::size_t next = 0;
  for (const GroupShape& shape : kShapes) {
    // The software device, which compiles each kernel for the host, takes one kind for each shape.
    for (std::size_t i = 0; i < (machine().is_software() ? 1 : all_kinds().size()); ++i) {
      const ConvolutionKind kind = all_kinds()[next++ % all_kinds().size()];
      cases.push_back(case_of(kind, shape.in, shape.out, shape.groups));
      cases.back().activation = next / 4 % 2 == 0 ? Activation::ReLU : Activation::None;
      cases.back().scale_shift = next % 3 != 0;
    }
  }
  compile_ahead(machine(), cases);
  for (const ConvolutionCase& test : cases) check_case(test);
}

TEST_P(GroupsTest, LargeAndFlatKernels) {
  for (const GroupShape& shape : {GroupShape{16, 16, 16}, {64, 32, 2}}) {
    ConvolutionCase test = case_of(ConvolutionKind::Submanifold, shape.in, shape.out, shape.groups);
    test.kernel_size = {5, 5, 5, 1};
    check_case(test);
    test.kernel_size = {1, 1, 1, 1};
    check_case(test);
  }
}

/// The weight [K, C_in, C_out] of a convolution without groups, with zeros between channels of different
/// ones.
std::vector<float> dense_weight(const ConvolutionCase& test, const std::vector<float>& weight) {
  const int in = test.in_channels, out = test.out_channels, inputs = in / test.groups;
  std::vector<float> dense(static_cast<size_t>(test.volume() * in * out));
  for (int64_t k = 0; k < test.volume(); ++k) {
    for (int i = 0; i < inputs; ++i) {
      for (int o = 0; o < out; ++o) {
        const int group = o / (out / test.groups);
        dense[(k * in + group * inputs + i) * out + o] = weight[(k * inputs + i) * out + o];
      }
    }
  }
  return dense;
}

/// A depthwise convolution is one with groups of one channel, and one without groups of a diagonal weight.
/// All results are whole numbers, so all bits are equal.
TEST_P(GroupsTest, AreDenseConvolutionsWithZeros) {
  for (const GroupShape& shape : {GroupShape{4, 4, 4}, {4, 8, 4}, {8, 8, 2}}) {
    ConvolutionCase grouped = case_of(ConvolutionKind::Submanifold, shape.in, shape.out, shape.groups);
    grouped.residual = false;
    const ConvolutionData data = make_data(grouped, true);
    ConvolutionCase dense = grouped;
    dense.groups = 1;
    ConvolutionData dense_data = data;
    dense_data.weight = dense_weight(grouped, data.weight);
    EXPECT_EQ(run(grouped, data), run(dense, dense_data)) << grouped.name();
  }
}

/// In capacity mode, whose counts are on the device only, the same bits, and zeros behind them.
TEST_P(GroupsTest, OnPyramids) {
  for (const GroupShape& shape : {GroupShape{64, 64, 2}, {16, 16, 16}}) {
    ConvolutionCase test = case_of(ConvolutionKind::Submanifold, shape.in, shape.out, shape.groups);
    test.residual = false;
    test.dilation = {1, 1, 1, 1};
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    Convolution convolution(machine(), test, data);
    ASSERT_EQ(convolution.status(), MINUET_OK) << last_error();
    const int64_t rows = data.in_rows(), capacity = (4 * rows + 2) / 3;
    minuet_pyramid_level level{};
    level.capacity = capacity, level.parent = -1;
    minuet_pyramid_map map{};
    map.purposes = MINUET_PURPOSE_CONVOLUTION;
    for (int a = 0; a < test.ndim; ++a) map.kernel_size[a] = test.kernel_size[a], map.dilation[a] = 1;
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.ndim = test.ndim;
    options.levels = &level, options.level_count = 1;
    options.maps = &map, options.map_count = 1;
    TestPyramid pyramid(machine(), options);
    pyramid.build(data.in_coordinates, test.ndim + 1);
    std::vector<char> padded = encode(dtype(), data.features);
    padded.resize(static_cast<size_t>(capacity * test.in_channels * dtype_bytes(dtype())), '\x7f');
    const Buffer input(machine(), padded);
    const Buffer output(machine(), capacity * test.out_channels * dtype_bytes(dtype()));
    run_on(machine(), convolution.get(), pyramid.run_arguments(),
           {array_of(tensor(input, capacity, test.in_channels, dtype()))},
           {array_of(tensor(output, capacity, test.out_channels, dtype()))});
    const std::vector<float> values = decode(dtype(), output.read<char>());
    const auto valid = static_cast<std::ptrdiff_t>(rows * test.out_channels);
    EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + valid), run(test, data));
    EXPECT_EQ(std::count(values.begin() + valid, values.end(), 0.0f), values.end() - values.begin() - valid);
  }
}

/// A network whose convolutions have groups, in every op that has convolutions: some with launches of their
/// own, some that share one, and depthwise ones, one of which adds a residual.
std::string network_of(bool has_groups) {
  const auto groups = [&](int count) { return R"("groups": )" + std::to_string(has_groups ? count : 1); };
  const auto layer = [](const std::string& op, const std::string& name, int channels,
                        const std::string& more) {
    return R"({"op": ")" + op + R"(", "norm": "none", "activation": "none", "name": ")" + name +
           R"(", "out_channels": )" + std::to_string(channels) + ", " + more + "}";
  };
  const std::string biased = R"("bias": true, "kernel_size": )";
  return R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [64], "layers": [)" +
         layer("block", "a", 64, biased + "3") + ",\n" +
         layer("residual", "r", 96,
               biased + R"(3, "conv1": {)" + groups(4) + R"(}, "conv2": {)" + groups(96) +
                   R"(}, "shortcut": {)" + groups(2) + "}") +
         ",\n" + layer("block", "d", 64, R"("stride": 2, "kernel_size": 2, )" + groups(2)) + ",\n" +
         layer("inverse", "i", 64, R"("of": "d", )" + groups(16)) + ",\n" +
         layer("block", "c", 128, R"("kernel_size": 3, )" + groups(64)) + "]}";
}

/// Weights of that network, and of the same network without groups.
struct NetworkWeights {
  std::map<std::string, FileTensor> grouped, dense;

  NetworkWeights() {
    Random random(11);
    add(random, "a.conv", 27, 4, 64, 1);
    add(random, "r.conv1", 27, 64, 96, 4), add(random, "r.conv2", 27, 96, 96, 96);
    add(random, "r.shortcut.conv", 1, 64, 96, 2);
    add(random, "d.conv", 8, 96, 64, 2), add(random, "i.conv", 8, 64, 64, 16);
    add(random, "c.conv", 27, 64, 128, 64);
  }
  void add(Random& random, const std::string& name, int volume, int in, int out, int groups) {
    ConvolutionCase test;
    test.in_channels = in, test.out_channels = out, test.groups = groups,
    test.kernel_size = {volume, 1, 1, 1};
    FileTensor weight{{volume, in / groups, out}, {}}, bias{{out}, {}};
    for (int64_t i = 0; i < int64_t{volume} * (in / groups) * out; ++i) {
      weight.values.push_back(static_cast<float>(random.between(-8, 8)) / 64);
    }
    for (int c = 0; c < out; ++c) bias.values.push_back(static_cast<float>(random.between(-8, 8)) / 8);
    dense[name + ".weight"] = {{volume, in, out}, dense_weight(test, weight.values)};
    grouped[name + ".weight"] = std::move(weight);
    if (name[0] == 'a' || name[0] == 'r') dense[name + ".bias"] = grouped[name + ".bias"] = std::move(bias);
  }
};

/// The law for a network, whose weights come from a file, or are set later.
TEST_P(GroupsTest, OfANetwork) {
  const NetworkWeights weights;
  const TemporaryPath grouped_file("grouped.safetensors"), dense_file("dense.safetensors");
  write_safetensors(grouped_file.path(), weights.grouped);
  write_safetensors(dense_file.path(), weights.dense);
  const std::vector<int32_t> scene = make_scene(points(), 5);
  Random random(3);
  std::vector<float> features(scene.size());
  for (float& value : features) value = static_cast<float>(random.between(-4, 4)) / 4;
  const auto run = [&](minuet_plan* plan, minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT) {
    const Execution execution = make_execution(machine(), plan, &options);
    return run_network(machine(), execution.get(), scene, encode(dtype(), features), dtype());
  };
  NetworkSpec spec;
  spec.dtype = dtype();
  spec.description = network_of(true), spec.weights = grouped_file.path();
  spec.dataflow = MINUET_DATAFLOW_AUTO;
  const Plan grouped = make_network(machine(), spec);
  const NetworkRun found = run(grouped.get());
  NetworkSpec bare_spec = spec;
  bare_spec.weights = "", bare_spec.seed = 0, bare_spec.without_values = true;
  const Plan bare = make_network(machine(), bare_spec);
  spec.description = network_of(false), spec.weights = dense_file.path();
  const NetworkRun expected = run(make_network(machine(), spec).get());
  const std::vector<float> numbers = decode(dtype(), expected.bytes);
  EXPECT_TRUE(is_close(decode(dtype(), found.bytes), std::vector<double>(numbers.begin(), numbers.end()), 128,
                       error_bound(dtype(), true)));

  minuet_parameters_options options = MINUET_PARAMETERS_OPTIONS_INIT;
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(bare.get(), machine().device(), &options, &made));
  const Handle<minuet_parameters> parameters(made, {minuet_parameters_destroy});
  DeviceArrays arrays(machine(), bare.get(), weights.grouped);
  check(minuet_parameters_set(made, nullptr, arrays.arrays().data(), arrays.count(),
                              MINUET_WEIGHTS_AS_DESCRIBED, nullptr));
  minuet_execution_options with = MINUET_EXECUTION_OPTIONS_INIT;
  with.parameters = made;
  EXPECT_EQ(run(bare.get(), with), found);
}

/// The other dataflow has no groups, and says which one has.
TEST_P(GroupsTest, WhatHasNoGroupsSaysSo) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype());
  options.in_channels = options.out_channels = 8;
  options.groups = 2;
  options.submanifold = 1;
  const std::vector<float> weight(4 * 8);
  options.weight = weight.data();
  options.weight_count = 4 * 8;
  options.dataflow = MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  minuet_plan* made = nullptr;
  minuet_status status = minuet_plan_create_convolution(machine().context(), &options, &made);
  const Plan plan(made, {minuet_plan_destroy});
  if (status == MINUET_OK) status = minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr);
  EXPECT_EQ(status, MINUET_UNIMPLEMENTED);
  EXPECT_THAT(last_error(), testing::HasSubstr("use the fused dataflow"));
}

MINUET_INSTANTIATE_DEVICE_TEST(GroupsTest);

}  // namespace
}  // namespace minuet::abi
