// batch_norm_bench COMMIT [f16 | bf16 | f32] [ROWS CHANNELS]...: how long batch norms in training take on the
// GPU, as single ops: forward and backward, plain, with a ReLU, and with a residual and a ReLU. By default in
// fp16, for layers of MinkUNet42 on os1 and one that does not fit in the L2 cache. Prints JSON for
// tools/bench/results. Times are by the GPU's clock, of one of kCalls captured calls that run one after the
// other, beside a copy that moves as many bytes: each pass reads its operands twice and writes its results
// once.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/runtime/execution/batch_norm_fixture.h"
#include "tests/runtime/execution/bench_times.h"

namespace minuet::abi {
namespace {

constexpr int kTimed = 20, kWarm = 3, kCalls = 10;

double median_of(Machine& machine, const Stream& stream, const std::function<void()>& enqueue) {
  enqueue();
  check(minuet_device_synchronize(machine.device(), stream.get()));
  const CapturedGraph graph(stream.get(), [&] {
    for (int call = 0; call < kCalls; ++call) enqueue();
  });
  std::vector<double> times;
  times.reserve(kTimed);
  for (int i = -kWarm; i < kTimed; ++i) {
    const double time = time_by_events(machine, stream, graph);
    if (i >= 0) times.push_back(time);
  }
  return *summary(times).getNumber("median_ms") / kCalls;
}

/// Times a copy that reads and writes `bytes` bytes in all.
double copy_of(Machine& machine, const Stream& stream, int64_t bytes) {
  const Buffer source(machine, bytes / 2), target(machine, bytes / 2);
  const auto copy =
      driver_function<CUresult (*)(CUdeviceptr, CUdeviceptr, size_t, CUstream)>("cuMemcpyAsync");
  return median_of(machine, stream, [&] {
    copy(reinterpret_cast<CUdeviceptr>(target.data()), reinterpret_cast<CUdeviceptr>(source.data()),
         static_cast<size_t>(bytes / 2), stream.get());
  });
}

/// Returns numbers for all rows, of which only the first kRandomRows are random, because more would take
/// longer than the measurements.
NormData data_of(const NormCase& of, DType dtype) {
  constexpr int64_t kRandomRows = 1000;
  NormCase some = of;
  some.rows = std::min(of.rows, kRandomRows);
  NormData data(some, dtype);
  const auto elements = static_cast<size_t>(of.rows * of.channels);
  for (std::vector<float>* values : {&data.input, &data.residual, &data.out_gradient}) {
    const size_t given = values->size();
    if (given == 0) continue;
    values->resize(elements);
    for (size_t i = given; i < elements; ++i) (*values)[i] = (*values)[i - given];
  }
  return data;
}

class Bench : public BatchNorm {
 public:
  static llvm::json::Object measure(Machine& machine, const Stream& stream, const NormCase& of, DType dtype) {
    const BatchNormOp op = make_op(machine, of, dtype);
    const Room room(machine, op.get(), of, data_of(of, dtype), dtype);
    check(minuet_device_synchronize(machine.device(), nullptr));
    const double forward = median_of(machine, stream, [&] {
      check(minuet_batch_norm_forward(op.get(), machine.device(), &room.forward, stream.get()));
    });
    const double backward = median_of(machine, stream, [&] {
      check(minuet_batch_norm_backward(op.get(), machine.device(), &room.backward, stream.get()));
    });
    // A residual is read once; with a ReLU, its gradient is written, and read in place of out_gradient.
    const int64_t bytes = of.rows * of.channels * dtype_bytes(dtype);
    const int64_t forward_bytes = bytes * (of.has_residual ? 4 : 3);
    const int64_t backward_bytes = bytes * (of.has_residual ? 7 : 5);
    return llvm::json::Object{{"dtype", kDTypeNames[static_cast<int>(dtype)]},
                              {"rows", of.rows},
                              {"channels", of.channels},
                              {"residual", of.has_residual},
                              {"relu", of.has_relu},
                              {"forward_ms", forward},
                              {"forward_copy_ms", copy_of(machine, stream, forward_bytes)},
                              {"backward_ms", backward},
                              {"backward_copy_ms", copy_of(machine, stream, backward_bytes)},
                              {"workspace_bytes", room.workspace.bytes()}};
  }
  void TestBody() override {}
};

void bench(const std::string& commit, DType dtype, const std::vector<std::pair<int64_t, int>>& sizes) {
  Machine& machine = open_gpu();
  const Stream stream(machine);
  stream.make_current();
  llvm::json::Array layers;
  for (const auto& [rows, channels] : sizes) {
    for (const int options : {0, 1, 2}) {
      NormCase of;
      of.rows = of.capacity = rows, of.channels = channels;
      of.has_running_mean = true, of.has_relu = options > 0, of.has_residual = options > 1;
      layers.push_back(Bench::measure(machine, stream, of, dtype));
    }
  }
  print_results(machine, commit, llvm::json::Object{{"layers", std::move(layers)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  const std::map<std::string, minuet::DType> dtypes{
      {"f16", minuet::DType::F16}, {"bf16", minuet::DType::BF16}, {"f32", minuet::DType::F32}};
  const auto named = count > 2 ? dtypes.find(arguments[2]) : dtypes.end();
  const int first = named == dtypes.end() ? 2 : 3;
  if (count < 2 || (count - first) % 2 != 0) {
    std::fprintf(stderr, "usage: batch_norm_bench COMMIT [f16 | bf16 | f32] [ROWS CHANNELS]...\n");
    return 2;
  }
  const minuet::DType dtype = named == dtypes.end() ? minuet::DType::F16 : named->second;
  std::vector<std::pair<int64_t, int>> sizes;
  for (int i = first; i + 1 < count; i += 2)
    sizes.emplace_back(std::atoll(arguments[i]), std::atoi(arguments[i + 1]));
  if (sizes.empty()) sizes = {{97000, 32}, {97000, 96}, {26000, 64}, {10000, 256}, {400000, 64}};
  return minuet::abi::exit_status_of([&] { minuet::abi::bench(arguments[1], dtype, sizes); });
}
