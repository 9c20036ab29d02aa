// minuet_execution_run_arrays: the bits of minuet_execution_run, and what is refused.
#include "tests/runtime/execution/parameters_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class RunArraysTest : public ParametersTest {
 protected:
  minuet_array features(const Buffer& buffer, const Cloud& cloud) const {
    return array_of(features_of(buffer.data(), cloud.count()));
  }
  minuet_array output(const Buffer& buffer, const Cloud& cloud) const {
    return array_of(tensor(buffer, cloud.count(), kWidths.back(), dtype()));
  }
  int64_t output_bytes(const Cloud& cloud) const {
    return cloud.count() * kWidths.back() * dtype_bytes(dtype());
  }
};

TEST_P(RunArraysTest, GivesTheBitsOfRun) {
  const Cloud cloud = scene(200);
  const NetworkRun expected = fresh(cloud);
  const Execution execution = this->execution();
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer input(machine(), cloud.bytes), result(machine(), output_bytes(cloud));
  check(run_arrays(execution.get(), {features(input, cloud)}, {output(result, cloud)}));
  EXPECT_EQ(result.read<char>(), expected.bytes);
}

/// Parameters are arrays of their own ranks, of any element and strides; those of one run are gone in the
/// next.
TEST_P(RunArraysTest, TakesParametersAsInputs) {
  const Cloud cloud = scene(200);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), bare(), &options);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer input(machine(), cloud.bytes);
  Buffer result(machine(), output_bytes(cloud));
  std::vector<minuet_array> inputs;
  const auto run_with = [&](const Values& given, minuet_element element) {
    DeviceArrays arrays(machine(), bare(), given, element);
    inputs = arrays.arrays();
    inputs.insert(inputs.begin(), features(input, cloud));
    result.poison();
    check(run_arrays(execution.get(), inputs, {output(result, cloud)}));
    return result.read<char>();
  };
  const std::vector<char> expected = fresh(cloud).bytes;
  for (const minuet_element element : {MINUET_ELEMENT_F32, MINUET_ELEMENT_F16, MINUET_ELEMENT_F64}) {
    EXPECT_EQ(run_with(values(), element), expected) << element;
    EXPECT_EQ(run_with(other_values(), MINUET_ELEMENT_F32), run_plan(other_plan(), cloud).bytes);
  }
}

TEST_P(RunArraysTest, TakesParametersWhoseElementsLieApart) {
  const Cloud cloud = scene(100);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), bare(), &options);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer input(machine(), cloud.bytes), result(machine(), output_bytes(cloud));
  DeviceArrays arrays(machine(), bare(), values());
  std::vector<minuet_array> inputs{features(input, cloud)};
  std::deque<Buffer> buffers;
  for (size_t i = 0; i < arrays.arrays().size(); ++i) {
    const std::vector<float>& dense = values().at(arrays.name(i)).values;
    std::vector<float> apart(dense.size() * 3, 1e9f);
    for (size_t k = 0; k < dense.size(); ++k) apart[k * 3] = dense[k];
    minuet_array array = arrays.arrays()[i];
    array.data = buffers.emplace_back(machine(), apart).data();
    int64_t stride = 3;
    array.has_strides = 1;
    for (int32_t axis = array.rank; axis-- > 0; stride *= array.shape[axis]) array.stride[axis] = stride;
    inputs.push_back(array);
  }
  check(run_arrays(execution.get(), inputs, {output(result, cloud)}));
  EXPECT_EQ(result.read<char>(), fresh(cloud).bytes);
}

/// The rows of a weight and of the output may lie between each other's, as columns of one wider matrix.
TEST_P(RunArraysTest, RowsBetweenRowsDoNotOverlap) {
  const Cloud cloud = scene(60);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), bare(), &options);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer input(machine(), cloud.bytes);
  DeviceArrays arrays(machine(), bare(), values());
  minuet_array weight = arrays.arrays()[0];
  ASSERT_EQ(weight.rank, 3);
  const std::vector<float>& dense = values().at(arrays.name(0)).values;
  const int64_t element = dtype_bytes(dtype()), columns = weight.shape[2];
  const int64_t row = kWidths.back() * element, pitch = row + columns * 4;
  const int64_t weight_rows = weight.shape[0] * weight.shape[1];
  const Buffer wide(machine(), pitch * std::max(cloud.count(), weight_rows) + 16);
  std::vector<char> bytes = wide.read<char>();
  for (int64_t r = 0; r < weight_rows; ++r) {
    std::memcpy(&bytes[r * pitch + row], &dense[r * columns], columns * 4);
  }
  check(minuet_device_copy(machine().device(), wide.data(), bytes.data(), wide.bytes(), 0));
  weight.data = static_cast<char*>(wide.data()) + row;
  weight.has_strides = 1;
  weight.stride[0] = weight.shape[1] * pitch / 4, weight.stride[1] = pitch / 4, weight.stride[2] = 1;
  std::vector<minuet_array> inputs = arrays.arrays();
  inputs[0] = weight;
  inputs.insert(inputs.begin(), features(input, cloud));
  minuet_array out =
      array_of(tensor(wide.data(), cloud.count(), kWidths.back(), abi_dtype(dtype()), pitch / element));
  check(run_arrays(execution.get(), inputs, {out}));
  const std::vector<char> expected = fresh(cloud).bytes;
  for (int64_t r = 0; r < cloud.count(); ++r) std::memcpy(&bytes[r * pitch], &expected[r * row], row);
  EXPECT_EQ(wide.read<char>(), bytes);
  out.data = static_cast<char*>(out.data) + 16;
  EXPECT_EQ(run_arrays(execution.get(), inputs, {out}), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("output 0 and input 1 overlap"));
}

TEST_P(RunArraysTest, RefusesParametersThatDoNotFit) {
  const Cloud cloud = scene(60);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), bare(), &options);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const Buffer input(machine(), cloud.bytes), result(machine(), output_bytes(cloud));
  DeviceArrays arrays(machine(), bare(), values());
  std::vector<minuet_array> good = arrays.arrays();
  good.insert(good.begin(), features(input, cloud));
  const auto refused = [&](const std::vector<minuet_array>& inputs) {
    EXPECT_EQ(run_arrays(execution.get(), inputs, {output(result, cloud)}), MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  const auto with = [&](const auto& change) {
    std::vector<minuet_array> changed = good;
    change(changed[1]);
    return changed;
  };
  EXPECT_THAT(refused({good[0]}), HasSubstr("parameters and 1 output"));
  EXPECT_THAT(refused(with([](minuet_array& array) { array.shape[0] += 1; })), HasSubstr(arrays.name(0)));
  EXPECT_THAT(refused(with([](minuet_array& array) { array.shape[0] = 0; })), HasSubstr(arrays.name(0)));
  for (const auto& [element, name] :
       {std::pair{MINUET_ELEMENT_U8, "u8"}, {MINUET_ELEMENT_I32, "i32"}, {MINUET_ELEMENT_BOOL, "bool"}}) {
    EXPECT_THAT(refused(with([given = element](minuet_array& array) { array.element = given; })),
                AllOf(HasSubstr(arrays.name(0)), HasSubstr("elements of " + std::string(name))));
  }
  EXPECT_THAT(refused(with([&](minuet_array& array) { array.data = result.data(); })),
              HasSubstr("output 0 and input 1 overlap"));
  if (!machine().is_cpu()) {
    EXPECT_THAT(refused(with([](minuet_array& array) { array.on_host = 1; })),
                HasSubstr("input 1 is in host memory"));
  }
  check(run_arrays(execution.get(), good, {output(result, cloud)}));
  EXPECT_EQ(result.read<char>(), fresh(cloud).bytes);
}

TEST_P(RunArraysTest, RefusesWhatDoesNotFit) {
  const Cloud cloud = scene(60);
  const Execution execution = this->execution();
  const Buffer input(machine(), cloud.bytes), result(machine(), output_bytes(cloud));
  const minuet_array in = features(input, cloud), out = output(result, cloud);
  EXPECT_EQ(run_arrays(execution.get(), {in}, {out}), MINUET_FAILED_PRECONDITION);
  check(prepare(machine(), execution.get(), cloud.coordinates));
  const auto refused = [&](const auto& change) {
    minuet_array changed = in;
    change(changed);
    EXPECT_EQ(run_arrays(execution.get(), {changed}, {out}), MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  EXPECT_THAT(refused([](minuet_array& array) { array.element = MINUET_ELEMENT_F64; }),
              HasSubstr("input 0 has elements of f64"));
  EXPECT_THAT(refused([](minuet_array& array) { array.element = 1; }), HasSubstr("its element is 1"));
  EXPECT_THAT(refused([](minuet_array& array) { array.rank = 1; }), HasSubstr("rank of 1"));
  EXPECT_THAT(refused([](minuet_array& array) { array.rank = 7; }), HasSubstr("rank is 7"));
  EXPECT_THAT(refused([](minuet_array& array) { array.shape[0] += 1; }), HasSubstr("input 0 has shape"));
  EXPECT_THAT(refused([](minuet_array& array) { array.shape[0] = -1; }), HasSubstr("shape[0] is -1"));
  EXPECT_THAT(
      refused([](minuet_array& array) { array.has_strides = 1, array.stride[0] = 4, array.stride[1] = 2; }),
      HasSubstr("stride[1] of 2"));
  EXPECT_THAT(
      refused([](minuet_array& array) { array.has_strides = 1, array.stride[0] = 1, array.stride[1] = 1; }),
      HasSubstr("row stride of 1"));
  EXPECT_THAT(refused([](minuet_array& array) { array.has_strides = 2; }), HasSubstr("has_strides"));
  EXPECT_THAT(refused([](minuet_array& array) { array.on_host = 2; }), HasSubstr("on_host is 2"));
  EXPECT_THAT(refused([](minuet_array& array) { array.data = nullptr; }), HasSubstr("data"));
  EXPECT_THAT(refused([&](minuet_array& array) { array.data = result.data(); }),
              HasSubstr("output 0 and input 0 overlap"));
  EXPECT_THAT(refused([&](minuet_array& array) { array.data = static_cast<char*>(input.data()) + 4; }),
              HasSubstr("input 0"));
  minuet_array other = in;
  other.on_host = 1;
  EXPECT_EQ(run_arrays(execution.get(), {other}, {out}),
            machine().is_cpu() ? MINUET_OK : MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(run_arrays(execution.get(), {}, {out}), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(run_arrays(execution.get(), {in}, {}), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(run_arrays(execution.get(), {in}, {out, out}), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_run_arrays(execution.get(), nullptr, 1, &out, 1, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_run_arrays(execution.get(), &in, -1, &out, 1, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(minuet_execution_run_arrays(nullptr, &in, 1, &out, 1, nullptr), MINUET_INVALID_ARGUMENT);
}

MINUET_INSTANTIATE_EXECUTION_TEST(RunArraysTest);

}  // namespace
}  // namespace minuet::abi
