// Both networks at full width, on every device and in every dtype, against the fp64 oracle.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr int64_t kVoxels = kSanitized ? 300 : 3000;
constexpr uint64_t kSeed = 20260;

const std::vector<int32_t>& full_widths(const std::string& name) {
  static const std::vector<int32_t> minkunet = {32, 32, 64, 128, 256, 256, 128, 96, 96};
  static const std::vector<int32_t> sparseresnet = {16, 32, 64, 128};
  return name == "minkunet42" ? minkunet : sparseresnet;
}

/// One network on one cloud: evaluated once in fp64, for every dtype and device.
struct Reference {
  Reference(const std::string& network, const std::vector<int32_t>& widths, int64_t voxels, int64_t classes)
      : name(network), channels(widths), file(network + ".safetensors") {
    std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    coordinates = make_scene(voxels, kSeed);
    features = oracle::draw_features(static_cast<int64_t>(coordinates.size()), kSeed);  // 4 channels too
    oracle::Parameters parameters(kSeed);
    expected = network == "minkunet42"
                   ? oracle::minkunet42(parameters, widths, coordinates, features, classes)
                   : oracle::sparseresnet21d(parameters, widths, coordinates, features);
    write_safetensors(file.path(), parameters.all());
  }
  NetworkSpec spec(DType dtype) const { return {name, channels, dtype, file.path(), 0}; }

  std::string name;
  std::vector<int32_t> channels;
  std::vector<int32_t> coordinates;
  std::vector<float> features;
  oracle::NetworkOutput expected;
  TemporaryPath file;
};

const Reference& full_reference(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Reference>> made;
  std::unique_ptr<Reference>& reference = made[name];
  if (!reference) reference = std::make_unique<Reference>(name, full_widths(name), kVoxels, 0);
  return *reference;
}

class NetworkTest : public DeviceTest {
 protected:
  NetworkRun run_once(Machine& machine, const Reference& reference) {
    const Plan network = make_network(machine, reference.spec(dtype()));
    const Execution execution = make_execution(machine, network.get());
    return in_oracle_order(network.get(), run_network(machine, execution.get(), reference.coordinates,
                                                      encode(dtype(), reference.features), dtype()));
  }

  void check_output(const NetworkRun& run, const Reference& reference) {
    EXPECT_EQ(run.coordinates, reference.expected.coordinates);
    ASSERT_EQ(run.channels, reference.expected.channels);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), reference.expected.features, run.channels,
                         error_bound(dtype(), true)));
  }

  /// On a GPU machine the CPU device must agree too, and both with each other.
  void check_full(const std::string& name) {
    if (machine().is_software()) {
      GTEST_SKIP() << "takes long on the software device; narrow networks take the same paths";
    }
    const Reference& reference = full_reference(name);
    ASSERT_GT(reference.expected.largest, 1e-2);
    ASSERT_LT(reference.expected.largest, 6e4 / 16) << "too near to what fp16 holds";
    const NetworkRun run = run_once(machine(), reference);
    check_output(run, reference);
    if (machine().is_cpu()) return;
    std::string reason;
    Machine* cpu = Machine::open("cpu", reason);
    ASSERT_NE(cpu, nullptr) << reason;
    const NetworkRun other = run_once(*cpu, reference);
    check_output(other, reference);
    const std::vector<float> values = decode(dtype(), other.bytes);
    EXPECT_TRUE(is_close(decode(dtype(), run.bytes), {values.begin(), values.end()}, run.channels,
                         2 * error_bound(dtype(), true)));
  }

  void check_repeats(const std::string& name, const std::vector<int32_t>& narrow) {
    const Plan network = make_network(
        machine(),
        {name, kSanitized || machine().is_software() ? narrow : full_widths(name), dtype(), "", 7});
    // On a GPU as many as fill it, and often: what depends on who comes first shows rarely.
    const bool on_gpu = !machine().is_cpu() && !machine().is_software();
    const std::vector<int32_t> coordinates = make_scene(on_gpu ? 80000 : kVoxels / 4, kSeed + 3);
    const std::vector<char> features = encode(dtype(), oracle::draw_features(coordinates.size(), kSeed));
    const Execution execution = make_execution(machine(), network.get());
    const NetworkRun first = run_network(machine(), execution.get(), coordinates, features, dtype());
    const int repeats = on_gpu ? 100 : machine().is_software() ? 3 : 20;
    for (int repeat = 1; repeat < repeats; ++repeat) {
      ASSERT_EQ(run_network(machine(), execution.get(), coordinates, features, dtype()), first)
          << "run " << repeat;
    }
    const Execution fresh = make_execution(machine(), network.get());
    EXPECT_EQ(run_network(machine(), fresh.get(), coordinates, features, dtype()), first)
        << "a fresh execution";
  }
};

TEST_P(NetworkTest, MinkUNet42AtFullWidth) { check_full("minkunet42"); }
TEST_P(NetworkTest, SparseResNet21DAtFullWidth) { check_full("sparseresnet21d"); }

TEST_P(NetworkTest, WithASegmentationHead) {
  static const Reference reference("minkunet42", {8, 8, 16, 24, 32, 32, 24, 16, 20}, 500, 19);
  check_output(run_once(machine(), reference), reference);
}

/// Widths that no power of two divides.
TEST_P(NetworkTest, OddWidths) {
  static const Reference reference("sparseresnet21d", {3, 7, 5, 9}, 500, 0);
  check_output(run_once(machine(), reference), reference);
}

TEST_P(NetworkTest, MinkUNet42RepeatsBitByBit) {
  check_repeats("minkunet42", {8, 8, 16, 24, 32, 32, 24, 16, 16});
}
TEST_P(NetworkTest, SparseResNet21DRepeatsBitByBit) { check_repeats("sparseresnet21d", {8, 16, 24, 32}); }

/// The rows of `values`, `width` a row, in the order of `order`.
template <class T>
std::vector<T> reorder(const std::vector<T>& values, const std::vector<int64_t>& order, int64_t width) {
  std::vector<T> result;
  for (int64_t row : order) {
    result.insert(result.end(), values.begin() + row * width, values.begin() + (row + 1) * width);
  }
  return result;
}

/// Row i of the output belongs to row i of the input, whatever the order; the bits do not change.
TEST_P(NetworkTest, RowsAreInTheCallersOrder) {
  for (const char* name : {"minkunet42", "sparseresnet21d"}) {
    const bool caller_order = std::string(name) == "minkunet42";
    const std::vector<int32_t> widths = caller_order ? std::vector<int32_t>{8, 8, 16, 24, 32, 32, 24, 16, 16}
                                                     : std::vector<int32_t>{8, 16, 24, 32};
    const Plan network = make_network(machine(), {name, widths, dtype(), "", 5});
    const Execution execution = make_execution(machine(), network.get());
    const std::vector<int32_t> coordinates = make_scene(kVoxels / 2, kSeed + 1);
    const std::vector<float> features = oracle::draw_features(coordinates.size(), kSeed + 1);
    const NetworkRun straight =
        run_network(machine(), execution.get(), coordinates, encode(dtype(), features), dtype());
    std::vector<int64_t> order(coordinates.size() / 4);
    std::iota(order.begin(), order.end(), 0);
    Random random(kSeed + 2);
    for (int shuffle = 0; shuffle < 3; ++shuffle) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
      const NetworkRun run = run_network(machine(), execution.get(), reorder(coordinates, order, 4),
                                         encode(dtype(), reorder(features, order, 4)), dtype());
      if (caller_order) {
        EXPECT_EQ(run.coordinates, reorder(straight.coordinates, order, 4));
        EXPECT_EQ(run.bytes, reorder(straight.bytes, order, run.channels * dtype_bytes(dtype())));
      } else {
        EXPECT_EQ(run, straight);  // the order of a coarser level depends on the set alone
      }
    }
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(NetworkTest);

/// The oracle itself, against the network of an independent program.
TEST(NetworkOracle, AgreesWithTheGoldenNetworks) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  for (const char* name : {"minkunet42", "sparseresnet21d"}) {
    const GoldenFile file = read_golden(std::string("network_") + name);
    const GoldenFile weights = read_golden(std::string("network_") + name + "_weights");
    std::map<std::string, FileTensor> tensors;
    for (const auto& [tensor, values] : weights.floats) tensors[tensor] = {weights.shapes.at(tensor), values};
    oracle::Parameters parameters(std::move(tensors));
    const std::vector<int32_t> channels = file.list("channels");
    const std::vector<int32_t>& coordinates = file.integers.at("in_coordinates");
    const std::vector<float>& features = file.floats.at("in_features");
    const oracle::NetworkOutput output =
        name == std::string("minkunet42")
            ? oracle::minkunet42(parameters, channels, coordinates, features)
            : oracle::sparseresnet21d(parameters, channels, coordinates, features);
    EXPECT_EQ(output.coordinates, file.integers.at("out_coordinates"));
    const std::vector<double>& expected = file.doubles.at("out_features");
    ASSERT_EQ(output.features.size(), expected.size());
    double distance = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      distance += (output.features[i] - expected[i]) * (output.features[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    EXPECT_LT(distance, norm * 1e-24) << name;
  }
}

}  // namespace
}  // namespace minuet::abi
