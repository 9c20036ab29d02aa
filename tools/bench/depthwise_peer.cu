// Times WarpConvNet's depthwise convolution (warpconvnet/csrc/implicit_fma_kernel.cu) in fp16 on the clouds
// of depthwise_bench, and prints JSON.
//
// usage: depthwise_peer OS1.bin
//
// OS1.bin has rows of four float32 numbers, of which the first three are x, y and z. To build this program
// without PyTorch and CUTLASS, put two headers into a folder STUBS. In c10/cuda/CUDAStream.h, the result of
// c10::cuda::getCurrentCUDAStream() has a member stream() that returns cudaStreamPerThread, and
// cutlass/numeric_types.h declares cutlass::half_t and cutlass::bfloat16_t. Then:
//
//   nvcc -std=c++20 -O2 -arch=sm_90 -I STUBS depthwise_peer.cu WARPCONVNET/csrc/implicit_fma_kernel.cu
//
// As in WarpConvNet's sparse_conv_depth.py, the centre offset is one multiplication of all rows, and each
// other offset one launch that adds to the output. WarpConvNet's order of rows and pairs is that of its maps;
// here rows are in the order of the cloud, and the pairs of an offset in the order of their output rows. The
// launches are timed as they are and as a captured graph, which favours them.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "cutlass/numeric_types.h"

namespace warpconvnet::implicit_fma {
template <class A, class B, class C>
int run_implicit_fma_templated(const void* input, const void* weight, void* output, const int* in_rows,
                               const int* out_rows, int pairs, int channels, int in_count, int out_count,
                               const std::string& kernel);
}

namespace {

constexpr int kOffsets = 27, kCentre = 13;

void check(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: error %d\n", what, error);
  std::exit(1);
}

using Voxel = std::array<int, 3>;

std::int64_t key_of(const Voxel& voxel) {
  std::int64_t key = 0;
  for (const int place : voxel) key = key << 20 | (place + (1 << 19));
  return key;
}

struct Cloud {
  std::string name;
  std::vector<Voxel> voxels;
  std::unordered_map<std::int64_t, int> rows;

  void add(const Voxel& voxel) {
    if (rows.emplace(key_of(voxel), static_cast<int>(voxels.size())).second) voxels.push_back(voxel);
  }
};

Cloud read_sweep(const char* path) {
  Cloud cloud{"os1_0.1", {}, {}};
  std::FILE* const file = std::fopen(path, "rb");
  check(file == nullptr, path);
  for (float point[4]; std::fread(point, sizeof(point), 1, file) == 1;) {
    Voxel voxel;
    for (int axis = 0; axis < 3; ++axis) voxel[axis] = static_cast<int>(std::floor(point[axis] / 0.1f));
    if (std::isfinite(point[0] + point[1] + point[2])) cloud.add(voxel);
  }
  std::fclose(file);
  return cloud;
}

Cloud random_cloud() {
  Cloud cloud{"random_1e6", {}, {}};
  std::mt19937_64 random(1);
  const auto place = [&] { return static_cast<int>(random() % 400); };
  while (cloud.voxels.size() < 1'000'000) cloud.add({place(), place(), place()});
  return cloud;
}

template <class T>
T* to_device(const std::vector<T>& values) {
  T* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(values.size(), 1) * sizeof(T)), "cudaMalloc");
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  return memory;
}

struct Pairs {
  int count;
  const int *in_rows, *out_rows;
};

std::vector<Pairs> pairs_of(const Cloud& cloud) {
  std::vector<Pairs> all;
  for (int k = 0; k < kOffsets; ++k) {
    std::vector<int> in_rows, out_rows;
    for (std::size_t row = 0; row < cloud.voxels.size(); ++row) {
      const auto [x, y, z] = cloud.voxels[row];
      const auto found = cloud.rows.find(key_of({x + k / 9 - 1, y + k / 3 % 3 - 1, z + k % 3 - 1}));
      if (found == cloud.rows.end()) continue;
      in_rows.push_back(found->second);
      out_rows.push_back(static_cast<int>(row));
    }
    all.push_back({static_cast<int>(in_rows.size()), to_device(in_rows), to_device(out_rows)});
  }
  return all;
}

__global__ void multiply_rows(const __half2* input, const __half2* weight, __half2* output, std::size_t count,
                              int channels) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) output[i] = __hmul2(input[i], weight[i % channels]);
}

/// Returns the median, the 10th and the 90th percentile of 50 calls as JSON.
std::string timed(const std::function<void()>& call) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<float> times;
  for (int i = -10; i < 50; ++i) {
    check(cudaEventRecord(begin, cudaStreamPerThread), "cudaEventRecord");
    call();
    check(cudaEventRecord(end, cudaStreamPerThread), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end), "cudaEventElapsedTime");
    if (i >= 0) times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  char text[100];
  std::snprintf(text, sizeof(text), R"({"median": %.5f, "p10": %.5f, "p90": %.5f})", times[25], times[5],
                times[45]);
  return text;
}

/// Prints what the depthwise convolution of a kernel 3^3 over the cloud takes.
void measure(const Cloud& cloud, const std::vector<Pairs>& pairs, int channels, bool is_first) {
  using Half = cutlass::half_t;
  const std::size_t numbers = cloud.voxels.size() * channels;
  const int rows = static_cast<int>(cloud.voxels.size());
  const __half *const input = to_device(std::vector<__half>(numbers, __float2half(0.5f))),
                      *const weight =
                          to_device(std::vector<__half>(kOffsets * channels, __float2half(0.25f)));
  __half* const output = to_device(std::vector<__half>(numbers));
  const auto run = [&] {
    const std::size_t count = numbers / 2;
    multiply_rows<<<static_cast<unsigned>((count + 255) / 256), 256, 0, cudaStreamPerThread>>>(
        reinterpret_cast<const __half2*>(input),
        reinterpret_cast<const __half2*>(weight + kCentre * channels), reinterpret_cast<__half2*>(output),
        count, channels / 2);
    for (int k = 0; k < kOffsets; ++k) {
      if (k == kCentre || pairs[k].count == 0) continue;
      check(warpconvnet::implicit_fma::run_implicit_fma_templated<Half, Half, Half>(
                input, weight + k * channels, output, pairs[k].in_rows, pairs[k].out_rows, pairs[k].count,
                channels, rows, rows, "basic"),
            "run_implicit_fma_templated");
    }
  };
  run();
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeThreadLocal), "capture");
  run();
  check(cudaStreamEndCapture(cudaStreamPerThread, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  std::int64_t total = 0;
  for (const Pairs& each : pairs) total += each.count;
  std::printf(R"(%s  {"cloud": "%s", "rows": %d, "pairs": %lld, "channels": %d, "ms": %s, "graph_ms": %s})",
              is_first ? "" : ",\n", cloud.name.c_str(), rows, static_cast<long long>(total), channels,
              timed(run).c_str(),
              timed([&] { check(cudaGraphLaunch(replay, cudaStreamPerThread), "launch"); }).c_str());
  for (const void* const memory : {input, weight, static_cast<const __half*>(output)}) {
    check(cudaFree(const_cast<void*>(memory)), "cudaFree");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: depthwise_peer OS1.bin\n");
    return 2;
  }
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf("{\"peer\": \"WarpConvNet implicit_fma\", \"device\": \"%s\", \"layers\": [\n", device.name);
  bool is_first = true;
  for (const Cloud& cloud : {read_sweep(arguments[1]), random_cloud()}) {
    const std::vector<Pairs> pairs = pairs_of(cloud);
    for (const int channels : {64, 256}) {
      measure(cloud, pairs, channels, is_first);
      is_first = false;
    }
  }
  std::printf("\n]}\n");
  return 0;
}
