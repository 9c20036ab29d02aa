// A network of 8-bit convolutions on every device and in every dtype, against integer arithmetic and the
// fixed steps in fp32, bit by bit: residuals, shortcuts, a concat of different scales, a pooling, tensors
// that are read in both forms; also as a serialized plan, and in capacity mode.
//
// Numbers of the first convolution, which is floating, are small multiples of powers of two, so that every
// dtype computes them exactly.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/runtime/abi/serialize_fixture.h"
#include "tests/runtime/network/constant_tensor.h"
#include "tests/support/network_abi.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSeed = 90210;
constexpr int64_t kVoxels = kSanitized ? 80 : 300;

constexpr const char* kDescription =
    R"({"name": "integers", "ndim": 3, "in_channels": 4, "outputs": ["y", "z"],
  "layers": [
    {"op": "block", "name": "stem", "out_channels": 12, "kernel_size": 3, "norm": "none", "bias": true,
     "output_range": 63.75, "output": "x"},
    {"op": "block", "name": "down", "out_channels": 20, "kernel_size": 2, "stride": 2, "norm": "none",
     "bias": true, "precision": "int8", "output_range": 40},
    {"op": "residual", "name": "r", "out_channels": 20, "norm": "none", "bias": true, "precision": "int8",
     "output_range": 60, "conv1": {"output_range": 30}},
    {"op": "residual", "name": "s", "out_channels": 36, "norm": "none", "precision": "int8", "output_range": 70,
     "conv1": {"output_range": 25, "bias": true}, "shortcut": {"output_range": 33}},
    {"op": "block", "name": "leaky", "out_channels": 16, "kernel_size": 1, "norm": "none", "bias": true,
     "activation": "leaky_relu", "slope": 0.25, "precision": "int8", "output_range": 50},
    {"op": "up", "name": "up", "out_channels": 8, "kernel_size": 2, "stride": 2, "onto": "x", "norm": "none",
     "precision": "int8", "output_range": 21},
    {"op": "concat", "with": "x"},
    {"op": "max_pool", "name": "pool", "kernel_size": 3},
    {"op": "block", "name": "last", "out_channels": 24, "kernel_size": 3, "norm": "none", "bias": true,
     "precision": "int8", "output_range": 100, "output": "y"},
    {"op": "linear", "name": "head", "out_channels": 5, "precision": "int8", "output": "z"}]})";

/// The weights of the network: multiples of 1/4 in the first convolution, and any numbers behind it.
std::map<std::string, FileTensor> make_weights() {
  Random random(kSeed);
  std::map<std::string, FileTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, double deviation) {
    FileTensor tensor{std::move(shape), {}};
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    for (int64_t i = 0; i < count; ++i) {
      const double value =
          deviation > 0 ? deviation * random.normal() : static_cast<double>(random.between(-4, 4)) / 4;
      tensor.values.push_back(static_cast<float>(value));
    }
    tensors[name] = std::move(tensor);
  };
  const auto convolution = [&](const std::string& name, int64_t volume, int64_t in, int64_t out, bool bias) {
    add(name + ".weight", {volume, in, out}, 1.3 / std::sqrt(static_cast<double>(volume * in) / 4));
    if (bias) add(name + ".bias", {out}, 2);
  };
  add("stem.conv.weight", {27, 4, 12}, 0);
  add("stem.conv.bias", {12}, 0);
  convolution("down.conv", 8, 12, 20, true);
  convolution("r.conv1", 27, 20, 20, true), convolution("r.conv2", 27, 20, 20, true);
  convolution("s.conv1", 27, 20, 36, true), convolution("s.conv2", 27, 36, 36, false);
  convolution("s.shortcut.conv", 1, 20, 36, false);
  convolution("leaky.conv", 1, 36, 16, true);
  convolution("up.conv", 8, 16, 8, false);
  convolution("last.conv", 27, 20, 24, true);
  convolution("head", 1, 24, 5, true);
  return tensors;
}

/// A tensor of 8-bit integers on some coordinates. Column c has the scale scales[c].
struct Integers {
  int channels = 0;
  std::vector<float> values, scales;
  bool is_signed = false;
};

/// What the fixed steps make of a convolution.
struct Convolution {
  std::string name;
  int out = 0;
  std::string activation = "relu";
  float range = 0;  // 0: the result is floating
  const Integers* residual = nullptr;
};

/// Computes the network as its description says, on coordinates of two levels.
class Reference {
 public:
  explicit Reference(DType dtype) : dtype_(storage_type(dtype)), weights_(make_weights()) {
    fine_ = make_scene(kVoxels, kSeed);
    coarse_ = oracle::downsample(3, fine_, {2, 2, 2, 1});
    Random random(kSeed + 1);
    for (size_t i = 0; i < fine_.size(); ++i) features_.push_back(static_cast<float>(random.between(-4, 4)));
    run();
  }

  const std::vector<int32_t>& coordinates() const { return fine_; }
  const std::vector<float>& features() const { return features_; }
  const std::map<std::string, FileTensor>& weights() const { return weights_; }
  // The outputs, as the dtype holds them.
  const std::vector<float>& y() const { return y_; }
  const std::vector<float>& z() const { return z_; }

 private:
  using Pairs = std::vector<oracle::Pair>;

  static Integers stored(const std::vector<float>& scaled, int channels, float scale, bool is_signed) {
    Integers result{channels, {}, std::vector<float>(static_cast<size_t>(channels), scale), is_signed};
    for (const float value : scaled) {
      const float least = is_signed ? -127 : 0, most = is_signed ? 127 : 255;
      result.values.push_back(std::clamp(std::nearbyintf(value), least, most));
    }
    return result;
  }
  static float scale_of(float range, bool is_signed) { return range / (is_signed ? 127.0f : 255.0f); }

  /// Returns the fp32 numbers of a convolution before they are stored. With a range, they are in units of the
  /// stored integers.
  std::vector<float> numbers(const Convolution& given, const Integers& in, const Pairs& pairs,
                             int64_t rows) const {
    const std::vector<float>& weight = weights_.at(given.name + ".weight").values;
    const auto bias = weights_.find(given.name + ".bias");
    const bool is_signed = given.activation != "relu";
    const float output_scale = given.range > 0 ? scale_of(given.range, is_signed) : 1;
    const bool commutes = given.activation == "relu" || given.activation == "none";
    std::vector<float> integers(weight.size());
    std::vector<float> factor, shift, residual_factor;
    for (int c = 0; c < given.out; ++c) {
      double largest = 0;
      const auto value_at = [&](size_t i) {
        return static_cast<double>(weight[i]) *
               static_cast<double>(
                   in.scales[i / static_cast<size_t>(given.out) % static_cast<size_t>(in.channels)]);
      };
      for (size_t i = static_cast<size_t>(c); i < weight.size(); i += static_cast<size_t>(given.out))
        largest = std::max(largest, std::abs(value_at(i)));
      const double unit = largest / 127;
      for (size_t i = static_cast<size_t>(c); i < weight.size(); i += static_cast<size_t>(given.out))
        integers[i] = static_cast<float>(std::nearbyint(value_at(i) / unit));
      const double added =
          bias == weights_.end() ? 0 : static_cast<double>(bias->second.values[static_cast<size_t>(c)]);
      factor.push_back(
          static_cast<float>(given.range > 0 && commutes ? unit / static_cast<double>(output_scale) : unit));
      shift.push_back(static_cast<float>(added / unit));
      if (given.residual)
        residual_factor.push_back(
            static_cast<float>(static_cast<double>(given.residual->scales.front()) / unit));
    }
    oracle::Layer layer;
    layer.out_rows = rows, layer.in_channels = in.channels, layer.out_channels = given.out;
    layer.features = &in.values, layer.weight = &integers;
    const std::vector<double> sums = oracle::convolve(layer, pairs);
    std::vector<float> results;
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t c = i % static_cast<size_t>(given.out);
      const float start =
          given.residual ? std::fmaf(given.residual->values[i], residual_factor[c], shift[c]) : shift[c];
      const double sum = sums[i] + static_cast<double>(std::nearbyintf(start));
      float value = static_cast<float>(sum) * factor[c];
      if (given.activation == "relu") value = std::max(value, 0.0f);
      if (given.activation == "leaky_relu" && value < 0) value *= 0.25f;
      if (given.range > 0 && !commutes) value *= 1 / output_scale;
      results.push_back(value);
    }
    return results;
  }

  Integers convolve(const Convolution& given, const Integers& in, const Pairs& pairs, int64_t rows) const {
    const bool is_signed = given.activation != "relu";
    return stored(numbers(given, in, pairs, rows), given.out, scale_of(given.range, is_signed), is_signed);
  }

  static Integers concat(const Integers& left, const Integers& right) {
    Integers both{left.channels + right.channels, {}, left.scales, false};
    both.scales.insert(both.scales.end(), right.scales.begin(), right.scales.end());
    const auto l = static_cast<size_t>(left.channels), r = static_cast<size_t>(right.channels);
    for (size_t row = 0; row < left.values.size() / l; ++row) {
      both.values.insert(both.values.end(), left.values.begin() + static_cast<std::ptrdiff_t>(row * l),
                         left.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * l));
      both.values.insert(both.values.end(), right.values.begin() + static_cast<std::ptrdiff_t>(row * r),
                         right.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * r));
    }
    return both;
  }

  static Integers pooled(const Integers& in, const Pairs& pairs) {
    Integers out =
        in;  // Each row is its own neighbour, so that a maximum of unsigned numbers begins with it.
    const auto channels = static_cast<size_t>(in.channels);
    for (const oracle::Pair& pair : pairs) {
      for (size_t c = 0; c < channels; ++c) {
        float& value = out.values[static_cast<size_t>(pair.out) * channels + c];
        value = std::max(value, in.values[static_cast<size_t>(pair.in) * channels + c]);
      }
    }
    return out;
  }

  void run() {
    const auto map = [](const std::vector<int32_t>& in, const std::vector<int32_t>& out, int size, int stride,
                        bool transposed) {
      oracle::Geometry geometry;
      geometry.kernel_size = {size, size, size, 1};
      geometry.fine_tensor_stride = {stride, stride, stride, 1};
      geometry.transposed = transposed;
      return oracle::find_pairs(geometry, in, out);
    };
    const Pairs fine3 = map(fine_, fine_, 3, 1, false), fine1 = map(fine_, fine_, 1, 1, false);
    const Pairs coarse3 = map(coarse_, coarse_, 3, 2, false), coarse1 = map(coarse_, coarse_, 1, 2, false);
    const Pairs down = map(fine_, coarse_, 2, 1, false), up = map(coarse_, fine_, 2, 1, true);
    const auto fine = static_cast<int64_t>(fine_.size() / 4),
               coarse = static_cast<int64_t>(coarse_.size() / 4);

    oracle::Layer stem;
    stem.out_rows = fine, stem.in_channels = 4, stem.out_channels = 12;
    stem.features = &features_, stem.weight = &weights_.at("stem.conv.weight").values;
    stem.shift = &weights_.at("stem.conv.bias").values;
    const std::vector<float> ones(12, 1.0f);
    stem.scale = &ones;
    stem.activation = "relu";
    std::vector<float> scaled;
    for (const double value : oracle::convolve(stem, fine3))
      scaled.push_back(static_cast<float>(value) * (1 / 0.25f));
    const Integers x = stored(scaled, 12, 0.25f, false);

    const Integers d = convolve({"down.conv", 20, "relu", 40, nullptr}, x, down, coarse);
    const Integers r1 = convolve({"r.conv1", 20, "relu", 30, nullptr}, d, coarse3, coarse);
    const Integers r = convolve({"r.conv2", 20, "relu", 60, &d}, r1, coarse3, coarse);
    const Integers s1 = convolve({"s.conv1", 36, "relu", 25, nullptr}, r, coarse3, coarse);
    const Integers shortcut = convolve({"s.shortcut.conv", 36, "none", 33, nullptr}, r, coarse1, coarse);
    const Integers s = convolve({"s.conv2", 36, "relu", 70, &shortcut}, s1, coarse3, coarse);
    const Integers leaky = convolve({"leaky.conv", 16, "leaky_relu", 50, nullptr}, s, coarse1, coarse);
    const Integers u = convolve({"up.conv", 8, "relu", 21, nullptr}, leaky, up, fine);
    const Integers p = pooled(concat(u, x), fine3);
    // The result is an output too: the integers are those of the stored floating numbers.
    y_ = round_to(dtype_, numbers({"last.conv", 24, "relu", 0, nullptr}, p, fine3, fine));
    const float scale = scale_of(100, false), inverse = 1 / scale;
    std::vector<float> units;
    for (const float value : y_) units.push_back(value * inverse);
    const Integers last = stored(units, 24, scale, false);
    z_ = round_to(dtype_, numbers({"head", 5, "none", 0, nullptr}, last, fine1, fine));
  }

  const DType dtype_;
  const std::map<std::string, FileTensor> weights_;
  std::vector<int32_t> fine_, coarse_;
  std::vector<float> features_, y_, z_;
};

class IntegerNetwork : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    reference_ = std::make_unique<Reference>(dtype());
    write_safetensors(file_.path(), reference_->weights());
  }
  NetworkSpec spec() const {
    NetworkSpec spec;
    spec.dtype = dtype(), spec.weights = file_.path(), spec.description = kDescription;
    spec.dataflow = MINUET_DATAFLOW_AUTO;
    return spec;
  }
  std::vector<char> features() const { return encode(dtype(), reference_->features()); }
  std::vector<NetworkRun> run(minuet_plan* plan, minuet_execution* execution) {
    return run_graph(machine(), plan, execution, reference_->coordinates(), {features()}, dtype());
  }
  void expect_exact(const std::vector<NetworkRun>& runs) const {
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].coordinates, reference_->coordinates());
    EXPECT_EQ(decode(dtype(), runs[0].bytes), reference_->y());
    EXPECT_EQ(decode(dtype(), runs[1].bytes), reference_->z());
  }

  std::unique_ptr<Reference> reference_;
  TemporaryPath file_{"integers.safetensors"};
};

TEST_P(IntegerNetwork, EqualsIntegerArithmetic) {
  // The numbers are no constants, and few of them are at a limit.
  int64_t zeros = 0, large = 0;
  for (const float value : reference_->y()) zeros += value == 0, large += value > 100;
  const auto count = static_cast<int64_t>(reference_->y().size());
  EXPECT_LT(zeros, count * 4 / 5);
  EXPECT_LT(large, count / 2);
  const Plan plan = make_network(machine(), spec());
  const Execution execution = make_execution(machine(), plan.get());
  const std::vector<NetworkRun> runs = run(plan.get(), execution.get());
  expect_exact(runs);
  EXPECT_EQ(run(plan.get(), execution.get()), runs);
  int32_t layer = 0;
  check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
  EXPECT_EQ(layer, -1);
}

TEST_P(IntegerNetwork, IsTheSameFromASerializedPlan) {
  const Plan plan = make_network(machine(), spec());
  const std::string bytes = serialize(plan.get());
  minuet_plan* read = nullptr;
  check(minuet_plan_deserialize(machine().context(), bytes.data(), bytes.size(), &read));
  const Plan again(read, {minuet_plan_destroy});
  EXPECT_EQ(description_of(again.get()), description_of(plan.get()));
  check(minuet_plan_compile(again.get(), machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(again.get(), machine().device()));
  const Execution execution = make_execution(machine(), again.get());
  expect_exact(run(again.get(), execution.get()));
}

/// Rows past the count are read by no neighbour, and are zeros.
TEST_P(IntegerNetwork, IsTheSameInCapacityMode) {
  const Plan plan = make_network(machine(), spec());
  const auto rows = static_cast<int64_t>(reference_->coordinates().size() / 4);
  const std::vector<int64_t> capacities{rows + 37, rows + 5};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_count = static_cast<int32_t>(capacities.size());
  const Execution execution = make_execution(machine(), plan.get(), &options);
  std::vector<char> padded = features();
  padded.resize(static_cast<size_t>((rows + 37) * 4 * dtype_bytes(dtype())), '\xff');
  std::vector<NetworkRun> runs =
      run_graph(machine(), plan.get(), execution.get(), reference_->coordinates(), {padded}, dtype());
  const std::vector<float>* const wanted[] = {&reference_->y(), &reference_->z()};
  for (size_t i = 0; i < 2; ++i) {
    std::vector<float> given = decode(dtype(), runs[i].bytes);
    ASSERT_GE(given.size(), wanted[i]->size());
    for (size_t n = wanted[i]->size(); n < given.size(); ++n) ASSERT_EQ(given[n], 0.0f);
    given.resize(wanted[i]->size());
    EXPECT_EQ(given, *wanted[i]);
  }
}

/// What depends on values that are set later is refused.
TEST_P(IntegerNetwork, ItsParametersCannotBeSet) {
  NetworkSpec without = spec();
  without.weights.clear(), without.without_values = true, without.seed = 0;
  Plan plan(nullptr, {minuet_plan_destroy});
  EXPECT_EQ(create_network(machine(), without, plan), MINUET_UNIMPLEMENTED);
  EXPECT_THAT(last_error(), HasSubstr("down computes in 8 bits, and its weights are quantized when"));
  const Plan whole = make_network(machine(), spec());
  minuet_parameters* parameters = nullptr;
  EXPECT_EQ(minuet_parameters_create(whole.get(), machine().device(), nullptr, &parameters),
            MINUET_UNIMPLEMENTED);
  size_t needed = 0;
  EXPECT_EQ(
      minuet_plan_serialize(whole.get(), nullptr, 0, MINUET_SERIALIZE_WITHOUT_VALUES, nullptr, 0, &needed),
      MINUET_UNIMPLEMENTED);
}

/// 67500 weights of 127, times 255, are past what a sum of 32 bits holds.
TEST_P(IntegerNetwork, SumsThatCouldOverflowAreRefused) {
  NetworkSpec large = spec();
  large.description = R"({"name": "large", "ndim": 3, "in_channels": 1, "layers": [
      {"op": "linear", "name": "a", "out_channels": 2500, "bias": false, "activation": "relu", "output_range": 1},
      {"op": "block", "name": "b", "out_channels": 1, "kernel_size": 3, "norm": "none", "precision": "int8"}]})";
  write_safetensors(file_.path(),
                    {{"a.weight", constant({1, 1, 2500}, 1)}, {"b.conv.weight", constant({27, 2500, 1}, 1)}});
  Plan plan(nullptr, {minuet_plan_destroy});
  EXPECT_EQ(create_network(machine(), large, plan), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(),
              HasSubstr("the weight \"b.conv.weight\" in 8 bits: a sum of output channel 0 could reach"));
}

/// NaN is stored as 0, and infinite numbers as the limits of the type. The layer that computes them in
/// floating numbers is found. The numbers become infinite by the scale of a batch norm, because a kernel of
/// fp32 on a GPU makes NaN of infinite inputs.
TEST_P(IntegerNetwork, NumbersThatAreNotFiniteAreStoredAsNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<int32_t> coordinates{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
  const std::vector<float> given{nan, 100, -100, 0, -nan};
  struct Case {
    const char* activation;
    int range;
    std::vector<float> wanted;  // For each number, what is stored with a scale of 1e38, and of 1.
  };
  const Case cases[] = {{"relu", 255, {0, 0, 255, 100, 0, 0, 0, 0, 0, 0}},
                        {"none", 127, {0, 0, 127, 100, -127, -100, 0, 0, 0, 0}},
                        {"leaky_relu", 127, {0, 0, 127, 100, -127, -1, 0, 0, 0, 0}},
                        {"silu", 127, {0, 0, 127, 100, 0, 0, 0, 0, 0, 0}},
                        {"gelu", 127, {0, 0, 127, 100, 0, 0, 0, 0, 0, 0}}};
  write_safetensors(file_.path(), {{"a.conv.weight", constant({1, 1, 2}, 1)},
                                   {"a.bn.weight", {{2}, {1e38f, 1}}},
                                   {"a.bn.bias", constant({2}, 0)},
                                   {"a.bn.running_mean", constant({2}, 0)},
                                   {"a.bn.running_var", constant({2}, 1)},
                                   {"b.conv.weight", {{1, 2, 2}, {1, 0, 0, 1}}}});
  for (const Case& each : cases) {
    NetworkSpec small = spec();
    small.description = R"({"name": "small", "ndim": 3, "in_channels": 1, "layers": [
      {"op": "block", "name": "a", "out_channels": 2, "kernel_size": 1, "activation": ")" +
                        std::string(each.activation) + R"(", "output_range": )" + std::to_string(each.range) +
                        R"(},
      {"op": "block", "name": "b", "out_channels": 2, "kernel_size": 1, "norm": "none", "activation": "none",
       "precision": "int8"}]})";
    const Plan plan = make_network(machine(), small);
    const Execution execution = make_execution(machine(), plan.get());
    const std::vector<NetworkRun> runs =
        run_graph(machine(), plan.get(), execution.get(), coordinates, {encode(dtype(), given)}, dtype());
    const std::vector<float> results = decode(dtype(), runs[0].bytes);
    ASSERT_EQ(results.size(), each.wanted.size());
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_NEAR(results[i], each.wanted[i], 1e-2 * std::abs(each.wanted[i])) << each.activation << " " << i;
    int32_t layer = -1;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, 0);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(IntegerNetwork);

}  // namespace
}  // namespace minuet::abi
