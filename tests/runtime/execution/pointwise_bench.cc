// pointwise_bench COMMIT [ROWS]: how long chains of pointwise steps take on the GPU, as single ops, beside a
// copy of as many bytes. Prints JSON for tools/bench/results. The time is that of a captured run by the GPU's
// clock; matrices are larger than the cache.
#include <cstdio>
#include <cstdlib>

#include "include/minuet/pointwise.h"
#include "tests/runtime/execution/bench_times.h"
#include "tests/support/network_abi.h"

namespace minuet::abi {
namespace {

constexpr int kTimed = 40, kWarm = 10;

struct BenchChain {
  const char* name;
  std::vector<minuet_pointwise_kind> kinds;
};
const BenchChain kChains[] = {
    {"relu", {MINUET_POINTWISE_RELU}},
    {"gelu", {MINUET_POINTWISE_GELU}},
    {"gelu_tanh", {MINUET_POINTWISE_GELU_TANH}},
    {"tanh", {MINUET_POINTWISE_TANH}},
    {"affine, relu", {MINUET_POINTWISE_AFFINE, MINUET_POINTWISE_RELU}},
    {"affine, gelu", {MINUET_POINTWISE_AFFINE, MINUET_POINTWISE_GELU}},
    {"affine, add, relu", {MINUET_POINTWISE_AFFINE, MINUET_POINTWISE_ADD, MINUET_POINTWISE_RELU}},
    {"layer_norm, affine", {MINUET_POINTWISE_LAYER_NORM, MINUET_POINTWISE_AFFINE}},
    {"layer_norm, affine, gelu",
     {MINUET_POINTWISE_LAYER_NORM, MINUET_POINTWISE_AFFINE, MINUET_POINTWISE_GELU}},
    {"softmax", {MINUET_POINTWISE_SOFTMAX}}};

Plan plan_of(Machine& machine, const BenchChain& chain, DType dtype, int32_t channels) {
  std::vector<minuet_pointwise_step> steps;
  for (const minuet_pointwise_kind kind : chain.kinds) {
    steps.push_back({kind, kind == MINUET_POINTWISE_LAYER_NORM ? 1e-5F : 0, nullptr, nullptr});
  }
  minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype);
  options.channels = channels;
  options.steps = steps.data(), options.step_count = static_cast<int32_t>(steps.size());
  minuet_plan* made = nullptr;
  check(minuet_plan_create_pointwise(machine.context(), &options, &made));
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

class PointwiseBench {
 public:
  PointwiseBench(Machine& machine, int64_t rows) : machine_(machine), rows_(rows), stream_(machine) {
    std::vector<int32_t> coordinates;
    for (int64_t row = 0; row < rows; ++row) {
      const auto number = static_cast<int32_t>(row);
      coordinates.insert(coordinates.end(), {0, number % 128, number / 128 % 128, number / (128 * 128)});
    }
    set_ = make_set(machine, 3, coordinates, {1, 1, 1, 1});
    const minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set_.get(), set_.get(), &options, nullptr, &map));
    map_.reset(map);
  }

  llvm::json::Object measure(const BenchChain& chain, DType dtype, int32_t channels) {
    const Plan plan = plan_of(machine_, chain, dtype, channels);
    const int64_t bytes = rows_ * channels * dtype_bytes(dtype);
    const int32_t inputs = info_of(plan.get()).inputs;
    const std::vector<char> zeros(static_cast<size_t>(bytes));
    const Buffer first(machine_, zeros), second(machine_, zeros), output(machine_, bytes);
    std::vector<minuet_tensor> given{tensor(first, rows_, channels, dtype)};
    if (inputs > 1) given.push_back(tensor(second, rows_, channels, dtype));
    const Execution execution = make_execution(machine_, plan.get());
    check(prepare_map(execution.get(), map_.get()));
    const double chain_ms = median_of(machine_, stream_, [&] {
      check(run_tensors(execution.get(), given, tensor(output, rows_, channels, dtype), stream_.get()));
    });
    const auto copy =
        driver_function<CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyAsync");
    const double copy_ms = median_of(machine_, stream_, [&] {
      copy(reinterpret_cast<CUdeviceptr>(output.data()), reinterpret_cast<CUdeviceptr>(first.data()),
           static_cast<size_t>(bytes), stream_.get());
    });
    // A copy moves each byte twice, and a chain moves those of its inputs and its output.
    const double share = copy_ms / 2 * (inputs + 1) / chain_ms;
    std::fprintf(stderr, "%-26s %d channels, %d bytes each: %.3f of copy speed\n", chain.name, channels,
                 dtype_bytes(dtype), share);
    return llvm::json::Object{
        {"chain", chain.name},  {"channels", channels}, {"element_bytes", dtype_bytes(dtype)},
        {"chain_ms", chain_ms}, {"copy_ms", copy_ms},   {"share_of_copy_speed", share}};
  }

 private:
  Machine& machine_;
  const int64_t rows_;
  const Stream stream_;
  Coordinates set_{nullptr, {minuet_coordinates_destroy}};
  KernelMap map_{nullptr, {minuet_kernel_map_destroy}};
};

void bench(const std::string& commit, int64_t rows) {
  Machine& machine = open_gpu();
  PointwiseBench bench(machine, rows);
  llvm::json::Array results;
  for (const BenchChain& chain : kChains) {
    for (const DType dtype : {DType::F16, DType::F32}) {
      for (const int32_t channels : {64, 96, 256}) results.push_back(bench.measure(chain, dtype, channels));
    }
  }
  print_results(machine, commit, llvm::json::Object{{"rows", rows}, {"chains", std::move(results)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: pointwise_bench COMMIT [ROWS]\n");
    return 2;
  }
  return minuet::abi::exit_status_of(
      [&] { minuet::abi::bench(arguments[1], count > 2 ? std::atoll(arguments[2]) : int64_t{1} << 20); });
}
