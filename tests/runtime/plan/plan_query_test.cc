// What plans tell of themselves, with no device but the CPU: shapes, parameter tensors, names of any length.
// Names of statuses, too.
#include <gmock/gmock.h>

#include <map>

#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Shapes = std::map<std::string, std::vector<int64_t>>;

class PlanQuery : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    cpu_ = Machine::open("cpu", reason);
    ASSERT_NE(cpu_, nullptr) << reason;
  }

  Plan create(const NetworkSpec& spec) {
    Plan network(nullptr, {minuet_plan_destroy});
    check(create_network(*cpu_, spec, network));
    return network;
  }
  minuet_status parameter(minuet_plan* plan, int32_t number, minuet_parameter_info& info) {
    info = {};
    info.struct_size = sizeof(info);
    return minuet_plan_query_parameter(plan, number, &info);
  }
  /// All that the plan lists, each name once.
  Shapes shapes_of(const Plan& plan) { return shapes_of(plan.get()); }
  Shapes shapes_of(minuet_plan* plan) {
    Shapes shapes;
    const int32_t count = info_of(plan).parameter_tensors;
    minuet_parameter_info info;
    for (int32_t i = 0; i < count; ++i) {
      check(parameter(plan, i, info));
      EXPECT_EQ(info.struct_size, sizeof(info));
      EXPECT_GE(info.rank, 1);
      EXPECT_LE(info.rank, 4);
      EXPECT_TRUE(shapes.emplace(info.name, std::vector<int64_t>(info.shape, info.shape + info.rank)).second)
          << info.name << " is there twice";
    }
    EXPECT_EQ(parameter(plan, count, info), MINUET_OUT_OF_RANGE);
    EXPECT_THAT(last_error(), HasSubstr(std::to_string(count)));
    EXPECT_EQ(parameter(plan, 1 << 30, info), MINUET_OUT_OF_RANGE);
    EXPECT_NE(parameter(plan, -1, info), MINUET_OK);
    return shapes;
  }
  /// Tensors of these shapes: a batch norm's are the identity's, all else is 1 / 64.
  static std::map<std::string, FileTensor> tensors_of(const Shapes& shapes) {
    std::map<std::string, FileTensor> tensors;
    for (const auto& [name, shape] : shapes) {
      const auto is = [&, &name = name](const std::string& end) {
        return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
      };
      const float value = is(".running_var") ? 1 : is(".running_mean") ? 0 : 1.0f / 64;
      tensors[name] = {shape, std::vector<float>(static_cast<size_t>(count_of(shape)), value)};
    }
    return tensors;
  }
  static int64_t count_of(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    return count;
  }
  /// A file of just the tensors that are listed is taken, and one with any of them missing is not.
  void expect_what_a_file_needs(NetworkSpec spec) {
    const std::map<std::string, FileTensor> tensors = tensors_of(shapes_of(create(spec)));
    const TemporaryPath file("query.safetensors");
    spec.weights = file.path();
    write_safetensors(file.path(), tensors);
    const Plan loaded = make_network(*cpu_, spec);
    EXPECT_EQ(shapes_of(loaded), shapes_of(create(spec)));
    Plan none(nullptr, {minuet_plan_destroy});
    for (const auto& [name, tensor] : tensors) {
      std::map<std::string, FileTensor> fewer = tensors;
      fewer.erase(name);
      write_safetensors(file.path(), fewer);
      EXPECT_EQ(create_network(*cpu_, spec, none), MINUET_INVALID_ARGUMENT) << name;
      EXPECT_THAT(last_error(), HasSubstr(name));
    }
  }

  Machine* cpu_ = nullptr;
};

const char kHeaded[] = R"({"name": "headed", "ndim": 2, "in_channels": 3, "channels": [4, 6], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": [3, 5]},
    {"op": "residual", "name": "b", "width": 1},
    {"op": "block", "name": "c", "width": 0, "kernel_size": 2, "stride": 2},
    {"op": "head", "name": "head", "classes": 7}]})";

TEST_F(PlanQuery, ANetworksInfo) {
  const Plan network = create({"minkunet42", kWidths, DType::BF16, weights().file.path(), 0});
  const minuet_plan_info info = info_of(network.get());
  EXPECT_EQ(info.struct_size, sizeof(info));
  EXPECT_STREQ(info.name, "minkunet42");
  EXPECT_EQ(info.dtype, MINUET_BF16);
  EXPECT_EQ(info.ndim, 3);
  EXPECT_EQ(info.in_channels, 4);
  EXPECT_EQ(info.out_channels, kWidths.back());
  EXPECT_EQ(info.levels, 5);
  EXPECT_EQ(info.output_level, 0);
  EXPECT_EQ(info.inputs, 1);
  EXPECT_EQ(info.outputs, 1);
  EXPECT_EQ(info.maps, 0);
  EXPECT_EQ(info.missing_head, 1) << "these weights have none";
  int64_t numbers = 0;
  int32_t convolutions = 0;
  for (const auto& [name, tensor] : weights().parameters.all()) {
    convolutions += tensor.shape.size() == 3;
    // Of the four of a batch norm two are left once it is folded.
    if (name.find(".running_") != std::string::npos) continue;
    numbers += static_cast<int64_t>(tensor.values.size());
  }
  EXPECT_EQ(info.layers, convolutions);
  EXPECT_EQ(info.convolutions, convolutions);
  EXPECT_EQ(info.int8_convolutions, 0);
  EXPECT_EQ(info.parameters, numbers);
  EXPECT_EQ(info.parameter_tensors, static_cast<int32_t>(weights().parameters.all().size()));

  NetworkSpec headed;
  headed.description = kHeaded;
  const Plan small = create(headed);
  const minuet_plan_info other = info_of(small.get());
  EXPECT_STREQ(other.name, "headed");
  EXPECT_EQ(other.dtype, MINUET_F32);
  EXPECT_EQ(other.ndim, 2);
  EXPECT_EQ(other.in_channels, 3);
  EXPECT_EQ(other.out_channels, 7);
  EXPECT_EQ(other.levels, 2);
  EXPECT_EQ(other.output_level, 1);
  EXPECT_EQ(other.layers, 6) << "two blocks, two of the residual and its shortcut, the head";
  EXPECT_EQ(other.missing_head, 0);
}

TEST_F(PlanQuery, ANetworkListsWhatAWeightsFileHas) {
  Shapes expected;
  for (const auto& [name, tensor] : weights().parameters.all()) expected[name] = tensor.shape;
  EXPECT_EQ(shapes_of(create({"minkunet42", kWidths, DType::F32, weights().file.path(), 0})), expected);
  EXPECT_EQ(shapes_of(create({"minkunet42", kWidths, DType::F32, "", 3})), expected)
      << "drawn: by the description";

  NetworkSpec headed;
  headed.description = kHeaded;
  const Shapes shapes = shapes_of(create(headed));
  EXPECT_EQ(shapes.size(), 5 * 5u + 2) << "a weight and four of a batch norm, five times, and the head's two";
  EXPECT_THAT(shapes.at("a.conv.weight"), ElementsAre(15, 3, 4));
  EXPECT_THAT(shapes.at("a.bn.running_var"), ElementsAre(4));
  EXPECT_THAT(shapes.at("b.conv1.weight"), ElementsAre(9, 4, 6));
  EXPECT_THAT(shapes.at("b.shortcut.conv.weight"), ElementsAre(1, 4, 6));
  EXPECT_THAT(shapes.at("c.conv.weight"), ElementsAre(4, 6, 4));
  EXPECT_THAT(shapes.at("head.weight"), ElementsAre(1, 4, 7));
  EXPECT_THAT(shapes.at("head.bias"), ElementsAre(7));
  expect_what_a_file_needs(headed);
}

/// A head whose width only the file knows is listed with it.
TEST_F(PlanQuery, AHeadOfTheFileIsListed) {
  NetworkSpec spec;
  spec.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [
    {"op": "block", "name": "a", "width": 0}, {"op": "head", "name": "head"}]})";
  const Shapes drawn = shapes_of(create(spec));
  EXPECT_EQ(drawn.count("head.weight") + drawn.count("head.bias"), 0u) << "it is left out";
  Shapes shapes = drawn;
  shapes["head.weight"] = {1, 4, 19};
  shapes["head.bias"] = {19};
  const TemporaryPath file("head.safetensors");
  write_safetensors(file.path(), tensors_of(shapes));
  spec.weights = file.path();
  EXPECT_EQ(shapes_of(create(spec)), shapes);
}

TEST_F(PlanQuery, AConvolutionsInfoAndParameters) {
  for (const bool residual : {false, true}) {
    for (const bool scaled : {false, true}) {
      for (const bool shifted : {false, true}) {
        ConvolutionCase test = small_case(DType::F16, ConvolutionKind::Strided, 5, 16, 10);
        test.ndim = 3;
        test.kernel_size = {2, 3, 1, 1};
        test.residual = residual;
        test.scale_shift = false;
        test.scale_alone = scaled, test.shift_alone = shifted;
        SCOPED_TRACE(test.name() + (scaled ? " scale" : "") + (shifted ? " shift" : ""));
        Convolution convolution(*cpu_, test, make_data(test));
        const minuet_plan_info info = info_of(convolution.get());
        EXPECT_EQ(info.struct_size, sizeof(info));
        EXPECT_STREQ(info.name, "convolution");
        EXPECT_EQ(info.dtype, MINUET_F16);
        EXPECT_EQ(info.ndim, 3);
        EXPECT_EQ(info.in_channels, 5);
        EXPECT_EQ(info.out_channels, 16);
        EXPECT_EQ(info.layers, 1);
        EXPECT_EQ(info.inputs, residual ? 2 : 1);
        EXPECT_EQ(info.outputs, 1);
        EXPECT_EQ(info.maps, 1);
        EXPECT_EQ(info.missing_head, 0);
        Shapes expected{{"weight", {6, 5, 16}}};
        if (scaled || shifted) expected["scale"] = expected["shift"] = {16};
        EXPECT_EQ(info.parameter_tensors, static_cast<int32_t>(expected.size()));
        EXPECT_EQ(shapes_of(convolution.get()), expected);
      }
    }
  }
}

/// A single convolution's layer and sets are told as those of a network are.
TEST_F(PlanQuery, AConvolutionsLayerAndLevels) {
  const ConvolutionCase test = small_case(DType::F32, ConvolutionKind::Submanifold, 4, 8, 31);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(*cpu_, test, data);
  Convolution convolution(*cpu_, test, data);
  const Execution execution = convolution.execution();
  minuet_layer_info layer{};
  minuet_level_info level{};
  const auto query = [&] {
    layer.struct_size = sizeof(layer);
    level.struct_size = sizeof(level);
    check(minuet_execution_query_layer(execution.get(), 0, &layer));
    check(minuet_execution_query_level(execution.get(), 0, &level));
  };
  query();
  EXPECT_EQ(layer.in_channels, 4);
  EXPECT_EQ(layer.out_channels, 8);
  EXPECT_EQ(layer.kernel_size[0], 3);
  EXPECT_EQ(layer.pairs, 0) << "nothing is prepared";
  EXPECT_EQ(level.voxels, 0);
  EXPECT_EQ(level.tensor_stride[0], 0) << "the set is the caller's";
  check(prepare_map(execution.get(), map.map.get()));
  query();
  EXPECT_EQ(layer.pairs, static_cast<int64_t>(map.pairs.size()));
  EXPECT_EQ(level.voxels, data.in_rows());
  EXPECT_EQ(level.tensor_stride[0], 1);
  EXPECT_NE(minuet_execution_query_layer(execution.get(), 1, &layer), MINUET_OK);
}

/// Names that have the first few hundred letters in common stay apart.
TEST_F(PlanQuery, LongNamesAreNotCut) {
  const std::string network_name(300, 'n'), first = std::string(250, 'l') + "a",
                                            second = std::string(250, 'l') + "b";
  NetworkSpec spec;
  spec.description =
      R"({"name": ")" + network_name +
      R"(", "ndim": 3, "in_channels": 4, "channels": [4], "layers": [{"op": "block", "name": ")" + first +
      R"(", "width": 0, "kernel_size": 3}, {"op": "block", "name": ")" + second + R"(", "width": 0}]})";
  const Plan network = make_network(*cpu_, spec);
  EXPECT_EQ(info_of(network.get()).name, network_name);
  const Shapes shapes = shapes_of(network);
  for (const std::string& layer : {first, second}) {
    for (const char* part :
         {".conv.weight", ".bn.weight", ".bn.bias", ".bn.running_mean", ".bn.running_var"}) {
      EXPECT_EQ(shapes.count(layer + part), 1u) << layer << part;
    }
  }
  const Execution execution = make_execution(*cpu_, network.get());
  for (int32_t i = 0; i < 2; ++i) {
    minuet_layer_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(execution.get(), i, &info));
    EXPECT_THAT(info.name, StartsWith(i == 0 ? first : second));
  }
  expect_what_a_file_needs(spec);
}

TEST_F(PlanQuery, WhatIsNullIsNamed) {
  NetworkSpec spec;
  spec.description = kHeaded;
  const Plan network = create(spec);
  EXPECT_EQ(minuet_plan_query(network.get(), nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_plan_query_parameter(network.get(), 0, nullptr), MINUET_INVALID_ARGUMENT);
  minuet_parameter_info info{};
  EXPECT_EQ(minuet_plan_query_parameter(network.get(), 0, &info), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("struct_size"));
  info.struct_size = sizeof(info);
  EXPECT_EQ(minuet_plan_query_parameter(nullptr, 0, &info), MINUET_INVALID_ARGUMENT);
}

TEST(StatusNames, AllHaveOne) {
  const std::map<minuet_status, const char*> names = {
      {MINUET_OK, "OK"},
      {MINUET_CANCELLED, "CANCELLED"},
      {MINUET_INVALID_ARGUMENT, "INVALID_ARGUMENT"},
      {MINUET_NOT_FOUND, "NOT_FOUND"},
      {MINUET_RESOURCE_EXHAUSTED, "RESOURCE_EXHAUSTED"},
      {MINUET_FAILED_PRECONDITION, "FAILED_PRECONDITION"},
      {MINUET_OUT_OF_RANGE, "OUT_OF_RANGE"},
      {MINUET_UNIMPLEMENTED, "UNIMPLEMENTED"},
      {MINUET_INTERNAL, "INTERNAL"},
      {MINUET_UNAVAILABLE, "UNAVAILABLE"},
  };
  for (int number = 0; number < 16; ++number) {  // what the enumeration's bits can hold
    const auto status = static_cast<minuet_status>(number);
    EXPECT_STREQ(minuet_status_name(status), names.count(status) ? names.at(status) : "UNKNOWN") << number;
    EXPECT_EQ(minuet_status_name(status), minuet_status_name(status)) << "the same for ever";
  }
}

}  // namespace
}  // namespace minuet::abi
