// Convolutions with 8-bit tensors on the CPU: every bit is that of the fused kernel.
#include <cfenv>
#include <limits>

#include "kernels_templates/shared/integer_functions.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/support/integer_layer.h"

namespace minuet {
namespace {

TEST(CpuIntegers, LayersAreExactInEveryInstructionSet) {
  std::vector<std::shared_ptr<Device>> devices;
  for (const VectorSet vectors : {VectorSet::Baseline, VectorSet::Avx2, VectorSet::Avx512}) {
    if (vector_kernels(vectors) == nullptr) continue;
    CpuOptions options;
    options.threads = 2;
    options.vectors = vectors;
    devices.push_back(take(CpuDevice::create(options)));
  }
  for_integer_layers(
      75, [&](IntegerProblem& layer, const ConvolutionProblem& problem, const IntegerLayerRun& run) {
        for (const std::shared_ptr<Device>& device : devices) {
          const std::unique_ptr<Engine> engine = take(device->create_engine(EngineChoice{}));
          expect_integer_layer(*device, *engine, choose_fused(problem, "", 0), layer, run);
        }
      });
}

TEST(CpuIntegers, RoundInEveryModeOfTheThread) {
  const float infinity = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<float, i32>> cases = {{0.0f, 0},
                                                    {-0.0f, 0},
                                                    {0.5f, 0},
                                                    {-0.5f, 0},
                                                    {0x1.fffffep-2f, 0},
                                                    {0x1.000002p-1f, 1},
                                                    {1.5f, 2},
                                                    {-1.5f, -2},
                                                    {2.5f, 2},
                                                    {-2.5f, -2},
                                                    {2.75f, 3},
                                                    {-3.25f, -3},
                                                    {8388607.5f, 8388608},
                                                    {-8388606.5f, -8388606},
                                                    {16777217.0f, 16777216},
                                                    {0x1.fffffep30f, 2147483520},
                                                    {-0x1.fffffep30f, -2147483520},
                                                    {0x1p31f, 0x7fffffff},
                                                    {-0x1p31f, -0x7fffffff - 1},
                                                    {1e30f, 0x7fffffff},
                                                    {-infinity, -0x7fffffff - 1},
                                                    {infinity, 0x7fffffff},
                                                    {nan, 0}};
  std::vector<i32> found;
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    for (const auto& each : cases) {
      const volatile float value = each.first;
      found.push_back(nearest_integer(value));
    }
  }
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [value, expected] = cases[i % cases.size()];
    EXPECT_EQ(found[i], expected) << value << ", mode " << i / cases.size();
  }
}

}  // namespace
}  // namespace minuet
