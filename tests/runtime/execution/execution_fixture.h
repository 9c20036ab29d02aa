// What tests of network executions share: a narrow MinkUNet42 whose parameters the oracle knows too.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

inline constexpr uint64_t kSeed = 311;
inline const std::vector<int32_t> kWidths = {8, 8, 8, 16, 24, 24, 16, 8, 8};

/// Parameters for the library's file and the oracle alike.
struct Weights {
  Weights() : parameters(kSeed), file("execution.safetensors") {
    const std::vector<int32_t> scene = make_scene(200, kSeed);
    oracle::minkunet42(parameters, kWidths, scene, oracle::draw_features(scene.size(), kSeed));
    write_safetensors(file.path(), parameters.all());
  }
  oracle::Parameters parameters;
  TemporaryPath file;
};

inline Weights& weights() {
  static Weights made;
  return made;
}

struct Cloud {
  Cloud(std::vector<int32_t> where, DType dtype, uint64_t seed = kSeed)
      : coordinates(std::move(where)),
        features(oracle::draw_features(static_cast<int64_t>(coordinates.size()), seed)),
        bytes(encode(dtype, features)) {}

  int64_t count() const { return static_cast<int64_t>(coordinates.size()) / 4; }

  std::vector<int32_t> coordinates;  // [n, 4]
  std::vector<float> features;       // [n, 4]
  std::vector<char> bytes;
};

/// `count` voxels of the 9 x 9 x 9 that begin at `least`.
inline void add_cluster(std::vector<int32_t>& coordinates, const std::array<int32_t, 3>& least, int64_t count,
                        int32_t batch, uint64_t seed) {
  Random random(seed);
  std::map<std::array<int32_t, 4>, bool> seen;
  while (static_cast<int64_t>(seen.size()) < count) {
    std::array<int32_t, 4> point{batch};
    for (int a = 0; a < 3; ++a) point[a + 1] = least[a] + static_cast<int32_t>(random.below(9));
    if (!seen.emplace(point, true).second) continue;
    coordinates.insert(coordinates.end(), point.begin(), point.end());
  }
}

class ExecutionTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    network_ = network(spec());
  }
  virtual NetworkSpec spec() const { return {"minkunet42", kWidths, dtype(), weights().file.path(), 0}; }
  /// Compiled and loaded once for all tests of a process, which leave it as it is.
  std::shared_ptr<minuet_plan> network(const NetworkSpec& wanted) {
    static std::map<std::tuple<Machine*, DType, minuet_dataflow>, std::shared_ptr<minuet_plan>> made;
    std::shared_ptr<minuet_plan>& one = made[{&machine(), wanted.dtype, wanted.dataflow}];
    if (!one) one = make_network(machine(), wanted);
    return one;
  }

  /// A few voxels on the software device.
  Cloud scene(int64_t voxels, uint64_t seed = kSeed) {
    return Cloud(make_scene(machine().is_software() ? 5 + voxels / 5 : voxels, seed), dtype(), seed);
  }
  Execution execution(const minuet_execution_options* options = nullptr) {
    return make_execution(machine(), network_.get(), options);
  }
  NetworkRun run(const Execution& execution, const Cloud& cloud) {
    return run_network(machine(), execution.get(), cloud.coordinates, cloud.bytes, dtype());
  }
  NetworkRun fresh(const Cloud& cloud) { return run(execution(), cloud); }

  /// Sets and maps of single convolutions, with a queue or none.
  Coordinates set_on(minuet_queue* queue, const std::vector<int32_t>& coordinates,
                     bool keeps_duplicates = false) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue;
    options.keep_first_duplicate = keeps_duplicates;
    return make_set(machine(), 3, coordinates, {1, 1, 1, 1}, options);
  }
  /// Of 27 offsets onto the set itself.
  static KernelMap map_of(minuet_coordinates* set) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(options.kernel_size, 3, 3);
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set, set, &options, nullptr, &map));
    return {map, {minuet_kernel_map_destroy}};
  }

  minuet_tensor features_of(void* data, int64_t rows) const {
    return tensor(data, rows, 4, abi_dtype(dtype()));
  }
  /// minuet_execution_run for MinkUNet42, whose output has the cloud's rows.
  minuet_status enqueue(minuet_execution* execution, const Cloud& cloud, void* features, void* output,
                        void* stream = nullptr) const {
    return run_tensors(execution, {features_of(features, cloud.count())},
                       tensor(output, cloud.count(), kWidths.back(), abi_dtype(dtype())), stream);
  }

  void expect_oracle(const NetworkRun& run, const Cloud& cloud) {
    const oracle::NetworkOutput expected =
        oracle::minkunet42(weights().parameters, kWidths, cloud.coordinates, cloud.features);
    EXPECT_EQ(run.coordinates, expected.coordinates);
    EXPECT_TRUE(
        is_close(decode(dtype(), run.bytes), expected.features, run.channels, error_bound(dtype(), true)));
  }
  /// Refused with this status and these words; and a good cloud works right after.
  void expect_refused(const Execution& execution, const std::vector<int32_t>& coordinates,
                      minuet_status status, const std::string& words) {
    EXPECT_EQ(prepare(machine(), execution.get(), coordinates), status);
    EXPECT_THAT(last_error(), testing::HasSubstr(words));
    const Cloud good = scene(120, kSeed + 9);
    const Buffer input(machine(), good.bytes), output(machine(), int64_t{1} << 16);
    EXPECT_EQ(enqueue(execution.get(), good, input.data(), output.data()), MINUET_FAILED_PRECONDITION);
    EXPECT_EQ(run(execution, good), fresh(good)) << "after a refused cloud";
  }

  std::shared_ptr<minuet_plan> network_;
};

/// One instance a device and dtype of a suite derived from ExecutionTest.
#define MINUET_INSTANTIATE_EXECUTION_TEST(Suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      Devices, Suite,                                                                              \
      testing::Combine(testing::Values("cpu", "cuda:0"), testing::Values(DType::F32, DType::F16)), \
      device_test_name)

}  // namespace minuet::abi
