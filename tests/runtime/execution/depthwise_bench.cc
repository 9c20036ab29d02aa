// depthwise_bench COMMIT [CLOUD...]: how long depthwise convolutions of kernel 3^3 take on the GPU, as single
// ops in fp16, beside the time of a copy of the bytes that they cannot avoid: the rows of the input, those of
// the output, and the neighbours' row numbers that the map has. Beside them is the same convolution without
// groups. Prints JSON for tools/bench/results. The time is that of a captured run by the GPU's clock.
#include <cstdio>

#include "tests/runtime/execution/bench_times.h"
#include "tests/runtime/execution/present_clouds.h"
#include "tests/support/network_abi.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kTimed = 40, kWarm = 10, kOffsets = 27;

Plan plan_of(Machine& machine, int32_t channels, bool is_depthwise) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.dtype = MINUET_F16;
  options.in_channels = options.out_channels = channels;
  options.groups = is_depthwise ? channels : 1;
  for (int a = 0; a < 3; ++a) options.kernel_size[a] = 3;
  options.submanifold = 1;
  options.dataflow = MINUET_DATAFLOW_FUSED;
  const std::vector<float> weight(static_cast<size_t>(kOffsets * channels * (is_depthwise ? 1 : channels)),
                                  0.125f);
  options.weight = weight.data(), options.weight_count = static_cast<int64_t>(weight.size());
  minuet_plan* made = nullptr;
  check(minuet_plan_create_convolution(machine.context(), &options, &made));
  Plan plan(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine.device()));
  return plan;
}

double median_of(Machine& machine, const Stream& stream, const std::function<void()>& enqueue) {
  const CapturedGraph graph(stream.get(), enqueue);
  std::vector<double> times;
  for (int i = -kWarm; i < kTimed; ++i) {
    const double time = time_by_events(machine, stream, graph);
    if (i >= 0) times.push_back(time);
  }
  return *summary(times).getNumber("median_ms");
}

class DepthwiseBench {
 public:
  DepthwiseBench(Machine& machine, const tool::BenchCloud& cloud) : machine_(machine), stream_(machine) {
    const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
    const tool::VoxelCloud voxels = llvm::cantFail(tool::make_variant(cloud, 0, /*thin=*/false, voxelizer));
    rows_ = voxels.count();
    set_ = make_set(machine, 3, voxels.coordinates, {1, 1, 1, 1});
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    for (int a = 0; a < 3; ++a) options.kernel_size[a] = 3;
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set_.get(), set_.get(), &options, nullptr, &map));
    map_.reset(map);
    check(minuet_kernel_map_query_pairs(map, &pairs_));
  }

  llvm::json::Object measure(int32_t channels) {
    const int64_t bytes = rows_ * channels * 2;
    const std::vector<char> zeros(static_cast<size_t>(bytes));
    const Buffer input(machine_, zeros), output(machine_, bytes);
    const auto convolution_ms = [&](bool is_depthwise) {
      const Plan plan = plan_of(machine_, channels, is_depthwise);
      const Execution execution = make_execution(machine_, plan.get());
      check(prepare_map(execution.get(), map_.get()));
      return median_of(machine_, stream_, [&] {
        check(run_tensors(execution.get(), {tensor(input, rows_, channels, DType::F16)},
                          tensor(output, rows_, channels, DType::F16), stream_.get()));
      });
    };
    const double depthwise_ms = convolution_ms(true), dense_ms = convolution_ms(false);
    // A copy reads and writes each byte, so a copy of half of the bytes moves all of them. The map is a row
    // number for each pair and a mask for each row.
    const int64_t moved = 2 * bytes + 4 * (pairs_ + rows_);
    const Buffer from(machine_, std::vector<char>(static_cast<size_t>(moved / 2))), to(machine_, moved / 2);
    const auto copy =
        driver_function<CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyAsync");
    const double copy_ms = median_of(machine_, stream_, [&] {
      copy(reinterpret_cast<CUdeviceptr>(to.data()), reinterpret_cast<CUdeviceptr>(from.data()),
           static_cast<size_t>(moved / 2), stream_.get());
    });
    std::fprintf(stderr, "%d channels, %lld rows: %.1f us, %.2f times a copy, %.2f of the dense one\n",
                 channels, static_cast<long long>(rows_), 1000 * depthwise_ms, depthwise_ms / copy_ms,
                 depthwise_ms / dense_ms);
    return llvm::json::Object{{"channels", channels},
                              {"rows", rows_},
                              {"pairs", pairs_},
                              {"bytes", moved},
                              {"depthwise_ms", depthwise_ms},
                              {"copy_ms", copy_ms},
                              {"times_a_copy", depthwise_ms / copy_ms},
                              {"dense_ms", dense_ms}};
  }

 private:
  Machine& machine_;
  const Stream stream_;
  int64_t rows_ = 0, pairs_ = 0;
  Coordinates set_{nullptr, {minuet_coordinates_destroy}};
  KernelMap map_{nullptr, {minuet_kernel_map_destroy}};
};

void bench(const std::string& commit, const std::vector<std::string>& names) {
  const std::vector<tool::BenchCloud> clouds = present_clouds(names);
  Machine& machine = open_gpu();
  llvm::json::Array layers;
  for (const tool::BenchCloud& cloud : clouds) {
    DepthwiseBench bench(machine, cloud);
    for (const int32_t channels : {64, 256}) {
      llvm::json::Object layer = bench.measure(channels);
      layer["cloud"] = cloud.name;
      layers.push_back(std::move(layer));
    }
  }
  print_results(machine, commit, llvm::json::Object{{"dtype", "fp16"}, {"layers", std::move(layers)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: depthwise_bench COMMIT [CLOUD...]\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] {
    minuet::abi::bench(arguments[1], {arguments + 2, arguments + count});
  });
}
