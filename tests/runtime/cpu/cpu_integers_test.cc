// Convolutions with 8-bit tensors on the CPU: every bit is that of the fused kernel.
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
  for_integer_layers(75, [&](IntegerProblem& layer, const ConvolutionProblem& problem) {
    for (const std::shared_ptr<Device>& device : devices) {
      const std::unique_ptr<Engine> engine = take(device->create_engine(EngineChoice{}));
      expect_integer_layer(*device, *engine, choose_fused(problem, "", 0), layer);
    }
  });
}

}  // namespace
}  // namespace minuet
