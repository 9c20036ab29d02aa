// Weights of single convolutions that the caller sets, in the orders of all engines, and from arrays whose
// elements lie apart.
#include <numeric>

#include "tests/runtime/execution/parameters_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

struct Shape {
  int ndim;
  ConvolutionKind kind;
  oracle::Axes kernel_size, stride;
};

class WeightsOrdersTest : public DeviceTest {
 protected:
  ConvolutionCase case_of(const Shape& shape) const {
    ConvolutionCase test = small_case(dtype(), shape.kind, 4, 8, 60);
    test.ndim = shape.ndim;
    test.kernel_size = shape.kernel_size;
    test.stride = shape.stride;
    test.dilation = {1, 1, 1, 1};
    test.scale_shift = true;
    test.residual = false, test.activation = Activation::None;
    test.negative_slope = 0;
    return test;
  }
  /// A compiled and loaded plan of the case without values.
  Plan bare(const ConvolutionCase& test) {
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.ndim = test.ndim;
    options.dtype = abi_dtype(test.dtype);
    options.in_channels = test.in_channels;
    options.out_channels = test.out_channels;
    std::copy_n(test.kernel_size.begin(), test.ndim, options.kernel_size);
    std::copy_n(test.stride.begin(), test.ndim, options.stride);
    options.submanifold = test.kind == ConvolutionKind::Submanifold ? 1 : 0;
    options.transposed = test.transposed() ? 1 : 0;
    options.dataflow = tested_dataflow();
    options.without_values = 1;
    options.weight_count = test.volume() * test.in_channels * test.out_channels;
    options.scale_count = options.shift_count = test.out_channels;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_convolution(machine().context(), &options, &made));
    Plan plan{made, {minuet_plan_destroy}};
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }
  std::vector<char> run(minuet_plan* plan, const ConvolutionCase& test, const Parameters& parameters,
                        const Map& map, const ConvolutionData& data) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.parameters = parameters.get();
    const Execution execution = make_execution(machine(), plan, &options);
    check(prepare_map(execution.get(), map.map.get()));
    const Buffer input(machine(), encode(dtype(), map.to_input(data.features)));
    Buffer output(machine(), data.out_rows() * test.out_channels * dtype_bytes(dtype()));
    output.poison();
    check(run_tensors(execution.get(), {tensor(input, data.in_rows(), test.in_channels, dtype())},
                      tensor(output, data.out_rows(), test.out_channels, dtype())));
    return output.read<char>();
  }
  void set(const Parameters& parameters, int32_t index, const minuet_array& array,
           minuet_weights_order order = MINUET_WEIGHTS_MINUET) {
    check(minuet_parameters_set(parameters.get(), &index, &array, 1, order, nullptr));
  }
  Parameters parameters_of(minuet_plan* plan) {
    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan, machine().device(), nullptr, &made));
    return {made, {minuet_parameters_destroy}};
  }
};

/// The value of each tap, channel in and channel out, placed by strides.
std::vector<float> placed(const ConvolutionCase& test, const std::vector<float>& weight,
                          const std::vector<int64_t>& tap_strides, int64_t in_stride, int64_t out_stride,
                          int64_t reach) {
  std::vector<float> values(static_cast<size_t>(reach), -1000.0F);
  std::vector<int64_t> tap(static_cast<size_t>(test.ndim));
  size_t next = 0;
  for (int64_t k = 0; k < test.volume(); ++k) {
    int64_t base = 0;
    for (size_t a = 0; a < tap.size(); ++a) base += tap[a] * tap_strides[a];
    for (int i = 0; i < test.in_channels; ++i) {
      for (int o = 0; o < test.out_channels; ++o)
        values[static_cast<size_t>(base + i * in_stride + o * out_stride)] = weight[next++];
    }
    for (size_t a = tap.size(); a-- > 0 && ++tap[a] == test.kernel_size[a];) tap[a] = 0;
  }
  return values;
}

TEST_P(WeightsOrdersTest, GiveTheSameBits) {
  const Shape shapes[] = {{3, ConvolutionKind::Submanifold, {3, 1, 3, 1}, {1, 1, 1, 1}},
                          {2, ConvolutionKind::Strided, {2, 2, 1, 1}, {2, 2, 1, 1}},
                          {3, ConvolutionKind::Submanifold, {1, 1, 1, 1}, {1, 1, 1, 1}}};
  for (const Shape& shape : shapes) {
    const ConvolutionCase test = case_of(shape);
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    Convolution own(machine(), test, data);
    check(own.status());
    const Plan plan = bare(test);
    const int64_t in = test.in_channels, out = test.out_channels, volume = test.volume();
    const auto axes = static_cast<size_t>(test.ndim);
    const Buffer scale(machine(), data.scale), shift(machine(), data.shift);
    std::vector<char> expected;
    const auto expect_same = [&](const minuet_array& array, minuet_weights_order order, const char* what) {
      const Parameters parameters = parameters_of(plan.get());
      set(parameters, 0, array, order);
      set(parameters, 1, array_of(scale.data(), {out}, MINUET_ELEMENT_F32));
      set(parameters, 2, array_of(shift.data(), {out}, MINUET_ELEMENT_F32));
      const std::vector<char> given = run(plan.get(), test, parameters, map, data);
      if (expected.empty()) expected = given;
      EXPECT_EQ(given, expected) << what << " of " << test.name();
    };
    // Minuet's: the first axis of the kernel is the slowest; then every other element of every other row.
    const Buffer minuet_order(machine(), data.weight);
    expect_same(array_of(minuet_order.data(), {volume, in, out}, MINUET_ELEMENT_F32), MINUET_WEIGHTS_MINUET,
                "as it is");
    const Execution execution = own.execution();
    EXPECT_EQ(map.from_output(expected), own.run(execution.get(), map, data));
    std::vector<int64_t> taps(axes);
    const auto tap_strides = [&](bool first_fastest, int64_t stride) {
      for (size_t i = 0; i < axes; ++i) {
        const size_t axis = first_fastest ? i : axes - 1 - i;
        taps[axis] = stride;
        stride *= test.kernel_size[axis];
      }
      return taps;
    };
    const Buffer apart(machine(), placed(test, data.weight, tap_strides(false, in * out * 6), out * 6, 2,
                                         volume * in * out * 6));
    minuet_array strided = array_of(apart.data(), {volume, in, out}, MINUET_ELEMENT_F32);
    strided.has_strides = 1;
    strided.stride[0] = in * out * 6, strided.stride[1] = out * 6, strided.stride[2] = 2;
    expect_same(strided, MINUET_WEIGHTS_AS_DESCRIBED, "with strides");
    const Buffer minkowski(machine(),
                           placed(test, data.weight, tap_strides(true, in * out), out, 1, volume * in * out));
    expect_same(array_of(minkowski.data(), {volume, in, out}, MINUET_ELEMENT_F32), MINUET_WEIGHTS_MINKOWSKI,
                "MinkowskiEngine's");
    // spconv: [out, kernel, in], here as a permuted view of memory in another order.
    std::vector<int64_t> sizes{out};
    for (size_t a = 0; a < axes; ++a) sizes.push_back(test.kernel_size[a]);
    sizes.push_back(in);
    // The memory of a kernel of one offset is [in, out], whatever its shape says, but in the linear order.
    const bool is_point = volume == 1;
    const Buffer spconv(machine(), is_point ? data.weight
                                            : placed(test, data.weight, tap_strides(false, in), 1,
                                                     volume * in, volume * in * out));
    expect_same(array_of(spconv.data(), sizes, MINUET_ELEMENT_F32), MINUET_WEIGHTS_SPCONV_XYZ, "spconv's");
    minuet_array permuted = array_of(minuet_order.data(), sizes, MINUET_ELEMENT_F32);
    permuted.has_strides = 1;
    permuted.stride[0] = 1;
    tap_strides(false, in * out);
    for (size_t a = 0; a < axes; ++a) permuted.stride[1 + a] = taps[a];
    permuted.stride[1 + axes] = out;
    if (is_point) {
      const int32_t index = 0;
      EXPECT_EQ(minuet_parameters_set(parameters_of(plan.get()).get(), &index, &permuted, 1,
                                      MINUET_WEIGHTS_SPCONV_XYZ, nullptr),
                MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("give a contiguous array"));
    }
    expect_same(permuted, is_point ? MINUET_WEIGHTS_SPCONV2_XYZ_LINEAR : MINUET_WEIGHTS_SPCONV_XYZ,
                "a view in spconv's order");
  }
}

TEST_P(WeightsOrdersTest, RefusesWhatAnotherEngineComputesDifferently) {
  const ConvolutionCase test = case_of({3, ConvolutionKind::Strided, {3, 3, 3, 1}, {2, 2, 2, 1}});
  const Plan plan = bare(test);
  const Parameters parameters = parameters_of(plan.get());
  const Buffer weight(machine(), std::vector<float>(27 * 4 * 8, 1.0F));
  const int32_t index = 0;
  const minuet_array array = array_of(weight.data(), {8, 3, 3, 3, 4}, MINUET_ELEMENT_F32);
  EXPECT_EQ(minuet_parameters_set(parameters.get(), &index, &array, 1, MINUET_WEIGHTS_SPCONV, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("carried over"));
  EXPECT_EQ(minuet_parameters_set(parameters.get(), &index, &array, 1, MINUET_WEIGHTS_MINUET, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("[27, 4, 8]"));
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = options.out_channels = 4;
  options.without_values = 1;
  options.weight_count = 16;
  const float value = 1;
  const auto refused = [&](const char* words) {
    minuet_plan* made = nullptr;
    EXPECT_EQ(minuet_plan_create_convolution(machine().context(), &options, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(made, nullptr);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  options.weight = &value;
  refused("must be null");
  options.weight = nullptr;
  options.weight_count = 15;
  refused("weight_count");
  options.weight_count = 16;
  options.shift_count = 3;
  refused("shift_count");
  options.shift_count = 4;
  refused("only a bias");
}

/// One element for all, and a matrix that could be of a convolution or of a linear layer.
TEST_P(WeightsOrdersTest, RepeatedAndAmbiguousElements) {
  ConvolutionCase test = case_of({3, ConvolutionKind::Submanifold, {1, 1, 1, 1}, {1, 1, 1, 1}});
  test.out_channels = 4;
  const Plan plan = bare(test);
  const Parameters parameters = parameters_of(plan.get());
  const Buffer one(machine(), std::vector<float>{0.5F});
  minuet_array repeated = array_of(one.data(), {1, 4, 4}, MINUET_ELEMENT_F32);
  repeated.has_strides = 1;
  set(parameters, 0, repeated);
  std::vector<float> values(16, -1.0F);
  const minuet_array host = array_of(values.data(), {1, 4, 4}, MINUET_ELEMENT_F32, true);
  check(minuet_parameters_get(parameters.get(), 0, &host, nullptr));
  EXPECT_EQ(values, std::vector<float>(16, 0.5F));
  const Buffer square(machine(), std::vector<float>(16, 1.0F));
  const minuet_array matrix = array_of(square.data(), {4, 4}, MINUET_ELEMENT_F32);
  const int32_t index = 0;
  EXPECT_EQ(minuet_parameters_set(parameters.get(), &index, &matrix, 1, MINUET_WEIGHTS_MINKOWSKI, nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("linear layer"));
  const minuet_array row = array_of(square.data(), {1, 4}, MINUET_ELEMENT_F32);
  set(parameters, 1, row, MINUET_WEIGHTS_MINKOWSKI);
}

MINUET_INSTANTIATE_DEVICE_TEST(WeightsOrdersTest);

}  // namespace
}  // namespace minuet::abi
