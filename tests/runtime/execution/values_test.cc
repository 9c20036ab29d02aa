// Values as users have them: weights that no 16-bit type holds, scales and shifts of any float, one of them
// alone.
#include <cmath>

#include "tests/support/abi.h"
#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

constexpr int kSize = 64;  // channels and rows: row i of the features is one in channel i

/// Bits behind the leading one.
int fraction_bits(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return 23;
    case DType::TF32:
    case DType::F16:
      return 10;
    case DType::BF16:
      return 7;
    case DType::U8:
    case DType::S8:
      break;
  }
  return 0;
}

/// Numbers between two that `dtype` holds: a tie to either side, as near to one as a float can be, and where
/// rounding by way of another type would make a tie of what is none; the smallest and the largest, too.
std::vector<float> awkward_numbers(DType dtype, int64_t count, Random& random) {
  const int bits = fraction_bits(dtype);
  const bool half = dtype == DType::F16;
  std::vector<float> numbers;
  while (static_cast<int64_t>(numbers.size()) < count) {
    const double whole = std::ldexp(1.0, bits) + static_cast<double>(random.below(uint64_t{1} << bits));
    const double between[] = {0, 0.5, 0.5 + 0x1p-12, 0.5 - 0x1p-12, 0.25, 0.75, random.uniform()};
    const int exponent = static_cast<int>(half ? random.between(-26, 15) : random.between(-60, 60));
    const double value = std::ldexp(whole + between[random.below(7)], exponent - bits);
    if (half && value >= 65520) continue;  // infinity, which is refused where it can be
    numbers.push_back(static_cast<float>(random.below(2) == 0 ? value : -value));
  }
  return numbers;
}

/// One row a channel, each its own neighbour only: an output is one weight, whatever the order of sums.
ConvolutionCase one_weight_case(DType dtype) {
  ConvolutionCase test;
  test.dtype = dtype;
  test.points = kSize;
  test.in_channels = test.out_channels = kSize;
  test.seed = 5;
  return test;
}
ConvolutionData one_weight_data(const ConvolutionCase& test) {
  ConvolutionData data = make_coordinates(test);
  data.features.assign(kSize * kSize, 0.0f);
  for (int i = 0; i < kSize; ++i) data.features[i * kSize + i] = 1;
  return data;
}

class ValuesTest : public DeviceTest {
 protected:
  std::vector<float> convolve(const ConvolutionCase& test, const ConvolutionData& data,
                              int64_t scratch_bytes = 0) {
    Convolution convolution(machine(), test, data);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.scratch_bytes = scratch_bytes;
    return decode(test.dtype, convolution.run(convolution.execution(&options).get(),
                                              make_map(machine(), test, data), data));
  }
};

TEST_P(ValuesTest, WeightsAreRoundedOnceToTheNearest) {
  const ConvolutionCase test = one_weight_case(dtype());
  ConvolutionData data = one_weight_data(test);
  Random random(71);
  for (int repeat = 0; repeat < 4; ++repeat) {
    data.weight = awkward_numbers(dtype(), kSize * kSize, random);
    EXPECT_EQ(convolve(test, data), round_to(dtype(), data.weight));
  }
}

TEST_P(ValuesTest, WeightsOfAFileAreRoundedOnceToTheNearest) {
  Random random(72);
  const std::vector<float> weight = awkward_numbers(dtype(), kSize * kSize, random);
  std::map<std::string, FileTensor> tensors{{"a.conv.weight", {{1, kSize, kSize}, weight}}};
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    const bool one = name[0] == 'w' || std::string(name) == "running_var";
    tensors["a.bn." + std::string(name)] = {{kSize}, std::vector<float>(kSize, one ? 1.0f : 0.0f)};
  }
  // The variance has 1e-5 added to it.
  tensors["a.bn.running_var"].values.assign(kSize, static_cast<float>(1 - 1e-5));
  const TemporaryPath file("values.safetensors");
  write_safetensors(file.path(), tensors);
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = R"({"name": "n", "ndim": 3, "in_channels": 64, "channels": [64], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": 1}]})";
  options.dtype = abi_dtype(dtype());
  options.dataflow = tested_dataflow();
  options.weights_path = file.path().c_str();
  minuet_plan* made = nullptr;
  check(minuet_plan_create_network(machine().context(), &options, &made));
  const Plan network(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine().device()));
  const ConvolutionData data = one_weight_data(one_weight_case(dtype()));
  const Execution execution = make_execution(machine(), made);
  const Buffer where(machine(), data.in_coordinates), input(machine(), encode(dtype(), data.features));
  const Buffer output(machine(), kSize * kSize * dtype_bytes(dtype()));
  check(minuet_execution_prepare(execution.get(), where.integers(), kSize, nullptr));
  check(run_tensors(execution.get(), {tensor(input, kSize, kSize, dtype())},
                    tensor(output, kSize, kSize, dtype())));
  std::vector<float> expected = round_to(dtype(), weight);
  for (float& value : expected) value = std::max(value, 0.0f);  // a block ends in a ReLU
  EXPECT_EQ(decode(dtype(), output.read<char>()), expected);
}

/// Either alone and both. Scales and shifts stay floats: with these digits, products and sums are exact in
/// fp32, and the output is rounded once.
TEST_P(ValuesTest, AScaleOrAShiftAlone) {
  const ConvolutionCase test = one_weight_case(dtype());
  Random random(73);
  for (const auto& [scaled, shifted] :
       {std::pair{true, false}, {false, true}, {true, true}, {false, false}}) {
    ConvolutionData data = one_weight_data(test);
    const int bits = fraction_bits(dtype()) < 10 ? 7 : 10;
    for (int i = 0; i < kSize * kSize; ++i) {
      data.weight.push_back(std::ldexp(static_cast<float>(random.between(-(1 << bits), 1 << bits)), -bits));
    }
    for (int c = 0; c < kSize; ++c) {
      if (scaled) data.scale.push_back(1 + std::ldexp(static_cast<float>(random.between(-4095, 4095)), -12));
      if (shifted)
        data.shift.push_back(std::ldexp(static_cast<float>(random.between(-(1 << 20), 1 << 20)), -21));
    }
    std::vector<float> expected;
    for (int i = 0; i < kSize * kSize; ++i) {
      const double scale = scaled ? data.scale[i % kSize] : 1.0,
                   shift = shifted ? data.shift[i % kSize] : 0.0;
      expected.push_back(round_to(storage_type(dtype()), data.weight[i] * scale + shift));
    }
    EXPECT_EQ(convolve(test, data), expected) << "scale " << scaled << ", shift " << shifted;
  }
}

/// Whole problems of every kind. The oracle has the weights rounded, the library not.
TEST_P(ValuesTest, WholeProblemsWithWeightsThatNeedRounding) {
  std::vector<ConvolutionCase> cases;
  for (ConvolutionKind kind : all_kinds()) {
    for (auto [in, out] : {std::pair{4, 32}, {3, 5}, {48, 256}})
      cases.push_back(small_case(dtype(), kind, in, out, 700));
  }
  compile_ahead(machine(), cases);
  for (const ConvolutionCase& test : cases) {
    SCOPED_TRACE(test.name());
    ConvolutionData data = make_data(test);
    Random random(74 + static_cast<uint64_t>(test.in_channels));
    for (float& weight : data.weight) {
      weight = static_cast<float>(random.uniform(-1.7, 1.7) / std::sqrt(5.0 * test.in_channels));
    }
    // As users have them: a bias, no batch norm.
    if (test.kind == ConvolutionKind::Strided) data.scale.clear();
    const std::vector<float> output = convolve(test, data);
    data.weight = round_to(dtype(), data.weight);
    std::vector<double> magnitudes;
    const std::vector<double> expected = expected_output(test, data, &magnitudes);
    EXPECT_TRUE(is_close(output, expected, magnitudes, test.out_channels, dtype()));
  }
}

/// Sums of two offsets that cancel each other. At one offset they have more digits than 16 bits hold, or are
/// past fp16's largest number; the output has not, and is exact.
TEST_P(ValuesTest, SumsAreFp32FromTheFirstProductToTheLast) {
  constexpr int kIn = 64, kOut = 8;
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, kIn, kOut, 400);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  ConvolutionData data = make_coordinates(test);
  const auto pairs = oracle::find_pairs(data.geometry, data.in_coordinates, data.out_coordinates);
  struct Sum {
    float feature, weight, first_weight, other_weight;  // first_weight: of channel 0
  };
  for (const Sum& sum : {Sum{1, 64, 65, -64}, Sum{60, 20, 20, -20}}) {
    for (const auto& [one, other] : {std::pair{13, 14}, {12, 14}, {14, 13}, {4, 22}}) {  // 13: the centre
      data.features.assign(data.in_rows() * kIn, sum.feature);
      data.weight.assign(27 * kIn * kOut, 0.0f);
      for (int i = 0; i < kIn * kOut; ++i) {
        data.weight[one * kIn * kOut + i] = i < kOut ? sum.first_weight : sum.weight;
        data.weight[other * kIn * kOut + i] = sum.other_weight;
      }
      std::vector<int> terms(data.out_rows(), 0);
      for (const oracle::Pair& pair : pairs) terms[pair.out] += pair.k == one ? 1 : pair.k == other ? 2 : 0;
      const float left = sum.feature * (sum.first_weight + (kIn - 1) * sum.weight + kIn * sum.other_weight);
      const std::vector<float> output = convolve(test, data);
      int both = 0;
      for (int64_t row = 0; row < data.out_rows(); ++row) {
        if (terms[row] != 3) continue;
        ++both;
        for (int c = 0; c < kOut; ++c) EXPECT_EQ(output[row * kOut + c], left) << one << " " << other;
      }
      EXPECT_GT(both, 0);
    }
  }
}

/// Layers go through their buffers in slices of one offset, or of a few.
TEST_P(ValuesTest, WholeProblemsInLittleScratch) {
  std::vector<ConvolutionCase> cases;
  for (ConvolutionKind kind : all_kinds()) cases.push_back(small_case(dtype(), kind, 24, 40, 500));
  compile_ahead(machine(), cases);
  for (const ConvolutionCase& test : cases) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    std::vector<double> magnitudes;
    const std::vector<double> expected = expected_output(test, data, &magnitudes);
    for (const int64_t scratch_bytes : {int64_t{1}, int64_t{300000}, int64_t{1} << 40}) {
      const std::vector<float> output = convolve(test, data, scratch_bytes);
      EXPECT_TRUE(is_close(output, expected, magnitudes, test.out_channels, dtype())) << scratch_bytes;
      EXPECT_EQ(convolve(test, data, scratch_bytes), output) << "bits repeat";
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(ValuesTest);

}  // namespace
}  // namespace minuet::abi
