// One submanifold convolution in C++: a 3x3x3 box filter that counts each voxel's neighbours.
#include <cstdio>
#include <minuet/minuet.hpp>

int main() try {
  const minuet::Context context;
  const minuet::Device device(context);

  const std::vector<std::int32_t> voxels{0, 0, 0, 0, /**/ 0, 0, 0, 1, /**/ 0, 1, 0, 0, /**/ 0, 9, 9, 9};
  const minuet::Buffer<std::int32_t> coordinates(device, voxels);
  const minuet::Coordinates set(device, MINUET_COORDINATES_OPTIONS_INIT, coordinates.get(), 4);
  minuet_kernel_map_options box = MINUET_KERNEL_MAP_OPTIONS_INIT;
  box.kernel_size[0] = box.kernel_size[1] = box.kernel_size[2] = 3;
  const minuet::KernelMap map(set, set, box);

  const std::vector<float> ones(27, 1.0f);
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.dtype = MINUET_F32;
  options.in_channels = options.out_channels = 1;
  options.kernel_size[0] = options.kernel_size[1] = options.kernel_size[2] = 3;
  options.submanifold = 1;
  options.weight = ones.data();
  options.weight_count = static_cast<std::int64_t>(ones.size());
  const minuet::Plan convolution = minuet::Plan::convolution(context, options);
  convolution.load(device);

  const minuet::Execution execution(convolution, device);
  const std::int64_t rows = execution.prepare_maps({map});
  const minuet::Buffer<float> input(device, std::vector<float>(4, 1.0f));
  const minuet::Buffer<float> output(device, 4);
  execution.run({minuet::tensor(input.get(), 4, 1, MINUET_F32)},
                minuet::tensor(output.get(), rows, 1, MINUET_F32));
  device.synchronize();

  const std::vector<float> expected{3, 3, 3, 1};
  const std::vector<float> counts = output.download();
  std::printf("%s: %lld pairs; neighbours, itself counted: %g %g %g %g\n", device.info().name,
              static_cast<long long>(map.pairs()), counts[0], counts[1], counts[2], counts[3]);
  return counts == expected ? 0 : 1;
} catch (const minuet::Exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
