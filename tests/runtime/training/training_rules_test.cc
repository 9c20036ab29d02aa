// Training steps of networks whose strided layers have kernels as large as their strides: by the rules
// "cells" and "reached", levels and maps are the same, and so are all bits.
#include "tests/runtime/training/training_fixture.h"

namespace minuet::abi {
namespace {

std::string network_by(const std::string& rule, const std::string& shape) {
  const std::string strided = R"("kernel_size": 2, "stride": 2, "rule": ")" + rule + R"("},)";
  return R"({"name": "rules", "ndim": 3, "in_channels": 4,)" + shape + R"( "layers": [
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3},
    {"op": "block", "name": "b", "out_channels": 8, )" +
         strided + R"(
    {"op": "block", "name": "c", "out_channels": 16, )" +
         strided + R"(
    {"op": "block", "name": "d", "out_channels": 16, "kernel_size": 3},
    {"op": "inverse", "name": "e", "of": "c", "out_channels": 8},
    {"op": "inverse", "name": "f", "of": "b", "out_channels": 8}]})";
}

class TrainingRulesTest : public DeviceTest {
 protected:
  std::vector<float> draw(int64_t count, uint64_t seed) {
    Random random(seed);
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(round_to(storage_type(dtype()), random.uniform(-1, 1)));
    }
    return values;
  }
};

TEST_P(TrainingRulesTest, BothRulesGiveTheSameBits) {
  for (const std::string& shape : {std::string(), std::string(R"("shape": [32, 16, 20],)")}) {
    StepResult results[2];
    for (const char* const rule : {"cells", "reached"}) {
      TrainingCase test;
      test.description = network_by(rule, shape);
      Random random(5);
      for (int i = 0; i < 60; ++i) {
        // Each point is another one, because the first coordinate and the batch number it.
        test.coordinates.insert(
            test.coordinates.end(),
            {i / 32, i % 32, static_cast<int32_t>(random.below(16)), static_cast<int32_t>(random.below(20))});
      }
      test.inputs = {draw(test.rows() * 4, 1)};
      test.out_gradients = {draw(test.rows() * 8, 2)};
      test.options.input_gradients = 1;
      const TrainingRun run(machine(), dtype(), test);
      results[std::string(rule) == "reached"] = run.step({test.rows() + 17});
    }
    EXPECT_EQ(results[0].status, 0u);
    EXPECT_TRUE(results[0] == results[1]);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(TrainingRulesTest);

}  // namespace
}  // namespace minuet::abi
