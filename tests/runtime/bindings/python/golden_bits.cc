// Runs a golden problem through the C++ header: the twin of golden_bits.c, with the same files.
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <minuet/generate.hpp>
#include <minuet/minuet.hpp>
#include <string>
#include <vector>

#include "tests/runtime/bindings/python/golden_problem.h"

namespace {

template <class T>
std::vector<T> read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Copies what kernel maps, convolutions and poolings have in common.
template <class Options>
void set_window(Options& options, const golden_problem& p) {
  std::memcpy(options.kernel_size, p.kernel_size, sizeof(p.kernel_size));
  std::memcpy(options.dilation, p.dilation, sizeof(p.dilation));
  std::memcpy(options.padding, p.padding, sizeof(p.padding));
  options.dense_offsets = p.dense_offsets;
  SET_GOLDEN_OFFSETS(options, p);
}

template <class Options>
void set_layer(Options& options, const golden_problem& p) {
  set_window(options, p);
  std::memcpy(options.stride, p.stride, sizeof(p.stride));
  options.ndim = p.ndim, options.dtype = p.dtype;
  options.submanifold = p.submanifold, options.transposed = p.transposed;
}

minuet::Plan make_plan(const minuet::Context& context, const golden_problem& p, const std::string& folder) {
  if (p.reduction != GOLDEN_CONVOLUTION) {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    set_layer(options, p);
    options.channels = p.in_channels, options.reduction = p.reduction;
    return minuet::Plan::pooling(context, options);
  }
  const auto weight = read<float>(folder + "weight");
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  set_layer(options, p);
  options.in_channels = p.in_channels, options.out_channels = p.out_channels, options.groups = p.groups;
  options.weight = weight.data(), options.weight_count = p.weights;
  return minuet::Plan::convolution(context, options);
}

minuet::Coordinates make_set(const minuet::Device& device, const std::string& path, const golden_problem& p,
                             const std::int32_t* tensor_stride) {
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.ndim = p.ndim;
  std::memcpy(options.tensor_stride, tensor_stride, sizeof(options.tensor_stride));
  const auto points = read<std::int32_t>(path);
  const minuet::Buffer<std::int32_t> memory(device, points);
  minuet::Coordinates set(device, options, memory.get(),
                          static_cast<std::int64_t>(points.size()) / (1 + p.ndim));
  minuet::check(minuet_device_synchronize(device.get(), nullptr));
  return set;
}

minuet::Coordinates make_coarse(const minuet::Device& device, const std::string& folder,
                                const golden_problem& p, const minuet::Coordinates& fine) {
  if (p.coarse_is == GOLDEN_GIVEN) return make_set(device, folder + "coarse", p, p.coarse_stride);
  if (p.coarse_is == GOLDEN_DOWNSAMPLED) return fine.downsample(p.stride);
  minuet_reach_options options = MINUET_REACH_OPTIONS_INIT;
  std::memcpy(options.kernel_size, p.kernel_size, sizeof(p.kernel_size));
  std::memcpy(options.stride, p.stride, sizeof(p.stride));
  std::memcpy(options.dilation, p.dilation, sizeof(p.dilation));
  std::memcpy(options.padding, p.padding, sizeof(p.padding));
  std::memcpy(options.shape, p.shape, sizeof(p.shape));
  return fine.reach(options);
}

/// The fine set, and the coarse one if it is another.
using Sets = std::vector<minuet::Coordinates>;

Sets make_sets(const minuet::Device& device, const std::string& folder, const golden_problem& p) {
  Sets sets;
  if (p.coarse_is == GOLDEN_GENERATED) {
    minuet::Coordinates coarse = make_set(device, folder + "coarse", p, p.coarse_stride);
    minuet_generate_options options = MINUET_GENERATE_OPTIONS_INIT;
    std::memcpy(options.kernel_size, p.kernel_size, sizeof(p.kernel_size));
    std::memcpy(options.stride, p.stride, sizeof(p.stride));
    std::memcpy(options.dilation, p.dilation, sizeof(p.dilation));
    sets.push_back(minuet::generate(coarse, options));
    sets.push_back(std::move(coarse));
    return sets;
  }
  sets.push_back(make_set(device, folder + "fine", p, p.tensor_stride));
  if (p.coarse_is != GOLDEN_SAME) sets.push_back(make_coarse(device, folder, p, sets[0]));
  return sets;
}

void run(const std::string& folder, const std::string& name) {
  const golden_problem p = read<golden_problem>(folder + "numbers").at(0);
  const minuet::Context context;
  const minuet::Device device(context, name);
  const Sets sets = make_sets(device, folder, p);
  const minuet::Coordinates &fine = sets[0], &coarse = sets.back();
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  set_window(options, p);
  minuet::KernelMap map(fine, coarse, options);
  if (p.transposed) map = map.transpose();
  const minuet::Plan plan = make_plan(context, p, folder);
  plan.load(device);
  const minuet::Execution execution(plan, device);
  execution.prepare_maps({map});
  const std::int64_t rows = p.transposed ? p.coarse_rows : p.fine_rows;
  const std::int64_t result_rows = p.transposed ? p.fine_rows : p.coarse_rows;
  const std::int64_t element = p.dtype == MINUET_F16 || p.dtype == MINUET_BF16 ? 2 : 4;
  const minuet::Buffer<char> input(device, read<char>(folder + "features"));
  const minuet::Buffer<char> output(device, static_cast<std::size_t>(result_rows * p.out_channels * element));
  minuet_tensor from{}, to{};
  from.data = input.get(), from.rows = rows, from.channels = p.in_channels, from.dtype = p.dtype;
  to.data = output.get(), to.rows = result_rows, to.channels = p.out_channels, to.dtype = p.dtype;
  execution.run({from}, to);
  minuet::check(minuet_device_synchronize(device.get(), nullptr));
  const std::vector<char> bytes = output.download();
  std::ofstream(folder + "output", std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    run(std::string(arguments[1]) + "/", arguments[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
