// Runs a network over three voxels, on the GPU if there is one, otherwise on the CPU.
#include <cstdio>
#include <minuet/minuet.hpp>

int main() try {
  const minuet::Context context;
  const minuet::Device device(context);
  const minuet::Plan network = minuet::Plan::network(context, "minkunet42", MINUET_F32);
  network.load(device);
  const minuet::Execution execution(network, device);

  const std::vector<std::int32_t> voxels{0, 0, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, -7, 2, 5};  // batch, x, y, z
  const minuet::Buffer<std::int32_t> coordinates(device, voxels);
  const minuet::Buffer<float> in(device, std::vector<float>(3 * 4, 1.0f)), out(device, 3 * 96);
  execution.prepare(coordinates.get(), 3);
  execution.run({minuet::tensor(in.get(), 3, 4, MINUET_F32)}, minuet::tensor(out.get(), 3, 96, MINUET_F32));
  device.synchronize();
  std::printf("%s: the first of 96 features is %g\n", device.info().name, out.download()[0]);
} catch (const minuet::Exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
