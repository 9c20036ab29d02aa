#include "tests/runtime/bindings/xla/calls_on_device.h"

#include <cstdio>
#include <cstdlib>
#include <random>

namespace minuet_xla::testing {

std::vector<float> normal(std::size_t count) {
  static std::mt19937 generator = [] {
    const char* const given = std::getenv("MINUET_TEST_SEED");
    const auto seed = given ? static_cast<unsigned>(std::atol(given)) : std::random_device()();
    std::printf("MINUET_TEST_SEED=%u repeats the inputs\n", seed);
    return std::mt19937(seed);
  }();
  std::normal_distribution<float> distribution;
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

std::string name_of(const ::testing::TestParamInfo<const char*>& info) {
  return std::string(info.param) == "cpu" ? "cpu" : "cuda_f32";
}

}  // namespace minuet_xla::testing
