// pyramid_bench CLOUD COMMIT: what runs on a pyramid cost beside an execution in capacity mode. Prints JSON
// for tools/bench/results: MinkUNet42 (fp16, 0.1 m) as an execution, as a network on a pyramid, and as 49
// single convolutions on a pyramid. Each is timed as one graph with the sets, the maps and the layers, by the
// GPU's clock, and without a graph by the host's, until all is enqueued and until all is done. Capacities
// are 1.25 times what the cloud needs, and no bounds are declared. All take turns, so that a change of clocks
// meets all alike. What they give is compared.
#include <chrono>
#include <cmath>
#include <functional>

#include "tests/runtime/execution/bench_times.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kWarm = 10, kTimed = 60;
constexpr double kFactor = 1.25;
const std::vector<int32_t> kWidths = {32, 32, 64, 128, 256, 256, 128, 96, 96};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// One way to make an inference, and its times in milliseconds.
struct Way {
  const char* name;
  std::function<void()> enqueue;
  std::unique_ptr<CapturedGraph> graph = nullptr;
  std::vector<double> replay = {}, enqueued = {}, done = {};
};

class Bench {
 public:
  Bench(Machine& machine, const tool::VoxelCloud& voxels)
      : machine_(machine), stream_(machine), file_("pyramid_bench.safetensors"), voxels_(voxels) {
    stream_.make_current();
    oracle::Parameters parameters(1);
    const std::vector<int32_t> scene = make_scene(60, 1);
    oracle::minkunet42(parameters, kWidths, scene,
                       oracle::draw_features(static_cast<int64_t>(scene.size()), 1));
    tensors_ = parameters.all();
    write_safetensors(file_.path(), tensors_);
    NetworkSpec spec{"minkunet42", kWidths, DType::F16, file_.path(), 0};
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    network_ = make_network(machine, spec);
    find_capacities();
  }

  llvm::json::Object measure() {
    const int64_t most = capacities_[0];
    const Buffer coordinates(machine_, most * 16), features(machine_, most * 4 * 2), count(machine_, 4);
    const std::vector<char> bytes = encode(DType::F16, voxels_.features);
    const int32_t rows = static_cast<int32_t>(voxels_.count());
    put(coordinates, voxels_.coordinates.data(), rows * int64_t{16});
    put(features, bytes.data(), static_cast<int64_t>(bytes.size()));
    put(count, &rows, 4);
    Buffer outputs[] = {{machine_, most * kWidths.back() * 2},
                        {machine_, most * kWidths.back() * 2},
                        {machine_, most * kWidths.back() * 2}};
    const minuet_tensor input = tensor(features.data(), most, 4, MINUET_F16);
    const auto output = [&](int way) {
      return tensor(outputs[way].data(), most, kWidths.back(), MINUET_F16);
    };

    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = capacities_.data();
    options.level_count = static_cast<int32_t>(capacities_.size());
    const Execution execution = make_execution(machine_, network_.get(), &options);

    minuet_pyramid_options pyramid_options = MINUET_PYRAMID_OPTIONS_INIT;
    pyramid_options.network = network_.get();
    pyramid_options.level_capacity = capacities_.data();
    pyramid_options.level_count = options.level_count;
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(machine_.context(), &pyramid_options, &made));
    const Handle<minuet_pyramid> pyramid(made, {minuet_pyramid_destroy});
    check(minuet_pyramid_load(made, machine_.device()));
    minuet_run_arguments run = MINUET_RUN_ARGUMENTS_INIT;
    run.pyramid = made;
    int64_t buffer_bytes = 0, build_bytes = 0, run_bytes = 0;
    check(minuet_pyramid_bytes(made, machine_.arch().c_str(), &buffer_bytes, &build_bytes));
    check(minuet_plan_run_bytes(network_.get(), machine_.arch().c_str(), &run, &run_bytes));
    const Buffer buffer(machine_, buffer_bytes), build_workspace(machine_, build_bytes);
    const Buffer run_workspace(machine_, run_bytes);
    minuet_pyramid_arguments build = MINUET_PYRAMID_ARGUMENTS_INIT;
    build.buffer = buffer.data(), build.buffer_bytes = buffer.bytes();
    build.workspace = build_workspace.data(), build.workspace_bytes = build_workspace.bytes();
    build.coordinates = coordinates.integers(), build.most = most, build.count = count.integers();
    const minuet_array in = array_of(input), out = array_of(output(1));
    run.buffer = buffer.data(), run.buffer_bytes = buffer.bytes();
    run.workspace = run_workspace.data(), run.workspace_bytes = run_workspace.bytes();
    run.inputs = &in, run.outputs = &out, run.input_count = run.output_count = 1;

    ByHand by_hand(machine_, DType::F16, kWidths, tensors_, nullptr, stream_.get());
    by_hand.use_pyramid(capacities_);

    std::vector<Way> ways;
    ways.push_back({"execution", [&] {
                      check(minuet_execution_prepare_on_device(execution.get(), coordinates.integers(),
                                                               count.integers(), stream_.get()));
                      check(run_tensors(execution.get(), {input}, output(0), stream_.get()));
                    }});
    ways.push_back({"network_on_pyramid", [&] {
                      check(minuet_pyramid_build(made, machine_.device(), &build, stream_.get()));
                      check(minuet_plan_run(network_.get(), machine_.device(), &run, stream_.get()));
                    }});
    ways.push_back({"single_ops_on_pyramid", [&] {
                      by_hand.build_pyramid(coordinates.integers(), count.integers());
                      by_hand.run_on_pyramid(features.data(), outputs[2].data());
                    }});
    for (Way& way : ways) {
      way.enqueue();
      check(minuet_device_synchronize(machine_.device(), stream_.get()));
      way.graph = std::make_unique<CapturedGraph>(stream_.get(), way.enqueue);
    }
    for (int i = -kWarm; i < kTimed; ++i) {
      for (Way& way : ways) time(way, i >= 0);
    }
    llvm::json::Object results{{"voxels", voxels_.count()},
                               {"capacities", llvm::json::Array(capacities_)},
                               {"dtype", "fp16"},
                               {"layers", static_cast<int64_t>(by_hand.layers())},
                               {"workspace_bytes_execution", counters_of(execution.get()).workspace_bytes},
                               {"buffer_bytes", buffer_bytes},
                               {"build_workspace_bytes", build_bytes},
                               {"run_workspace_bytes", run_bytes}};
    const std::vector<char> first = outputs[0].read<char>();
    results["network_has_equal_bits"] = outputs[1].read<char>() == first;
    results["greatest_relative_difference"] = difference(first, outputs[2].read<char>());
    const double alone = *summary(ways[0].replay).getNumber("median_ms");
    for (Way& way : ways) {
      const double ratio = *summary(way.replay).getNumber("median_ms") / alone;
      results[way.name] = llvm::json::Object{{"replay_gpu", summary(way.replay)},
                                             {"replay_ratio", ratio},
                                             {"enqueued", summary(way.enqueued)},
                                             {"done", summary(way.done)}};
    }
    return results;
  }

 private:
  void find_capacities() {
    const Execution exact = make_execution(machine_, network_.get());
    const Buffer coordinates(machine_, voxels_.coordinates);
    check(minuet_execution_prepare(exact.get(), coordinates.integers(), voxels_.count(), stream_.get()));
    capacities_.resize(static_cast<size_t>(info_of(network_.get()).levels));
    check(minuet_execution_suggest_capacities(exact.get(), kFactor, capacities_.data(),
                                              static_cast<int32_t>(capacities_.size())));
  }
  void put(const Buffer& target, const void* values, int64_t bytes) {
    check(minuet_device_copy(machine_.device(), target.data(), values, bytes, 0));
  }
  void time(Way& way, bool counts) {
    const double replay = time_by_events(machine_, stream_, *way.graph);
    const Clock::time_point start = Clock::now();
    way.enqueue();
    const double enqueued = milliseconds_since(start);
    check(minuet_device_synchronize(machine_.device(), stream_.get()));
    const double done = milliseconds_since(start);
    if (!counts) return;
    way.replay.push_back(replay), way.enqueued.push_back(enqueued), way.done.push_back(done);
  }
  /// By the greatest number of the first output.
  static double difference(const std::vector<char>& first, const std::vector<char>& second) {
    const std::vector<float> a = decode(DType::F16, first), b = decode(DType::F16, second);
    float greatest = 0, apart = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      greatest = std::max(greatest, std::abs(a[i]));
      apart = std::max(apart, std::abs(a[i] - b[i]));
    }
    return apart / greatest;
  }

  Machine& machine_;
  const Stream stream_;
  const TemporaryPath file_;
  const tool::VoxelCloud& voxels_;
  std::map<std::string, FileTensor> tensors_;
  Plan network_{nullptr, {minuet_plan_destroy}};
  std::vector<int64_t> capacities_;
};

void bench(const std::string& path, const std::string& commit) {
  Machine& machine = open_gpu();
  const tool::Cloud points = llvm::cantFail(tool::read_cloud(path, {}));
  const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
  const tool::VoxelCloud voxels =
      llvm::cantFail(tool::voxelize(points.points, tool::cubic(0.1), true, voxelizer));
  llvm::json::Object results = Bench(machine, voxels).measure();
  results["cloud"] = path;
  print_results(machine, commit, std::move(results));
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: pyramid_bench CLOUD COMMIT\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] { minuet::abi::bench(arguments[1], arguments[2]); });
}
