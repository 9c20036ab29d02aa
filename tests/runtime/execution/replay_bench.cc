// replay_bench NETWORK COMMIT [CLOUD...]: a network in capacity mode, whose whole inference is one graph.
// Prints JSON for tools/bench/results. Capacities are 1.25 times what other variants of the cloud needed, and
// bounds are declared, an eighth wider than theirs. With the index of voxels it also measures bounds of 2^20
// voxels on each side, and no bounds. Each timed inference is of a variant that nothing has
// seen: its coordinates, features and count are put into the graph's buffers, then one launch of the graph
// and one synchronisation are timed by the host's clock. Beside it the same variants in exact mode, and a
// graph of the maps alone, which is also timed by the GPU's: between two events, one of many in turn. By both
// map methods. The results say how many bytes the graph's execution takes. What a replay gives is compared
// with the exact mode's.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <future>

#include "llvm/Support/JSON.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/bench_times.h"
#include "tests/runtime/execution/present_clouds.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kKnown = 4, kTimed = 20, kWarm = 20;
constexpr int kMapsInTurn = 10;
constexpr double kFactor = 1.25;
// Clouds whose replays are compared with the exact mode: all, but of large outputs, which take a second each.
constexpr int kAlwaysCompared = 3;
constexpr int64_t kMostCompared = 50'000'000;
constexpr double kMostDifference = 0.003;  // of the greatest output; other sums of fp16 are 0.001 apart

using Clock = std::chrono::steady_clock;

/// The bounds that an execution declares.
enum class Range { Tight, Wide, None };
const char* name_of(Range range) {
  return range == Range::Tight ? "tight" : range == Range::Wide ? "2^20" : "none";
}
// As far as the index's keys reach on each of three axes without bounds (minuet.h).
constexpr int32_t kWide = 1 << 20, kGuard = 17;

struct Variant {
  Variant(const tool::BenchCloud& cloud, int number, const tool::Voxelizer& voxelizer)
      : voxels(llvm::cantFail(tool::make_variant(cloud, number, /*thin=*/number >= kKnown, voxelizer))),
        features(encode(DType::F16, voxels.features)) {}
  int64_t count() const { return voxels.count(); }
  tool::VoxelCloud voxels;
  std::vector<char> features;
};

class ReplayBench {
 public:
  ReplayBench(Machine& machine, const std::string& network, const tool::BenchCloud& cloud)
      : machine_(machine),
        stream_(machine),
        network_(make_network(machine, {network, {}, DType::F16, "", 1})) {
    const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
    std::vector<std::future<Variant>> made;
    for (int i = 0; i < kKnown + kTimed; ++i)
      made.push_back(std::async(std::launch::async, [&, i] { return Variant(cloud, i, voxelizer); }));
    for (std::future<Variant>& variant : made) variants_.push_back(variant.get());
    levels_ = info_of(network_.get()).levels;
  }

  llvm::json::Object measure(minuet_map_method method, Range range) {
    minuet_execution_options options = options_within(range);
    options.map_method = method;
    const Execution exact = make_execution(machine_, network_.get(), &options);
    const std::vector<int64_t> capacities = suggest(exact.get());
    const std::vector<double> exact_times = time_exact(exact.get());

    options.level_capacity = capacities.data();
    options.level_count = levels_;
    const Execution within = make_execution(machine_, network_.get(), &options);
    const int64_t most = capacities[0];
    const Buffer coordinates(machine_, most * 16), features(machine_, most * 4 * 2), count(machine_, 4);
    put(variants_[0], coordinates, features, count);
    const auto prepare = [&] {
      check(minuet_execution_prepare_on_device(within.get(), coordinates.integers(), count.integers(),
                                               stream_.get()));
    };
    prepare();
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape(within.get(), &rows, &channels));
    const Buffer output(machine_, rows * channels * 2);
    const CapturedGraph maps(stream_.get(), prepare);
    const CapturedGraph many_maps(stream_.get(), [&] {
      for (int i = 0; i < kMapsInTurn; ++i) prepare();
    });
    const CapturedGraph whole(stream_.get(), [&] {
      prepare();
      check(run_tensors(within.get(), {tensor(features.data(), most, 4, MINUET_F16)},
                        tensor(output.data(), rows, channels, MINUET_F16), stream_.get()));
    });

    std::vector<double> times, map_times, gpu_map_times;
    double error = 0;
    for (int i = -kWarm; i < kTimed; ++i) {
      const Variant& variant = variants_[i < 0 ? (i + kWarm) % kKnown : kKnown + i];
      put(variant, coordinates, features, count);
      const double time = time_launch(whole);
      uint32_t status = ~0u;
      check(minuet_execution_read_cloud(within.get(), &status, nullptr, 0, stream_.get()));
      if (status != 0) throw std::runtime_error("a cloud did not fit: status " + std::to_string(status));
      if (i < 0) continue;
      times.push_back(time);
      const bool compares = i < kAlwaysCompared || rows * channels < kMostCompared;
      if (compares) error = std::max(error, difference(exact.get(), variant, output));
      if (!(error < kMostDifference))
        throw std::runtime_error(llvm::formatv("a replay is {0} from the exact mode", error).str());
      map_times.push_back(time_launch(maps));
      gpu_map_times.push_back(time_by_events(machine_, stream_, many_maps) / kMapsInTurn);
    }
    minuet_level_info level{};
    level.struct_size = sizeof(level);
    check(minuet_execution_query_level(exact.get(), 0, &level));
    return llvm::json::Object{
        {"maps", level.map_method == MINUET_MAPS_INDEXED ? "indexed" : "sorted"},
        {"bounds", name_of(range)},
        {"voxels", variants_[0].count()},
        {"capacities", llvm::json::Array(capacities)},
        {"replay", summary(times)},
        {"replay_maps_alone", summary(map_times)},
        {"replay_maps_alone_gpu", summary(gpu_map_times)},
        {"exact", summary(exact_times)},
        {"workspace_bytes_exact", counters_of(exact.get()).workspace_bytes},
        {"workspace_bytes_replay", counters_of(within.get()).workspace_bytes},
        {"greatest_relative_difference", error},
    };
  }

 private:
  minuet_execution_options options_within(Range range) const {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    if (range == Range::None) return options;
    options.has_bounds = 1;
    for (int f = 0; f < 4; ++f) {
      int32_t least = INT32_MAX, greatest = INT32_MIN;
      for (int i = 0; i < kKnown; ++i) {
        for (int64_t row = 0; row < variants_[i].count(); ++row) {
          const int32_t value = variants_[i].voxels.coordinates[4 * row + f];
          least = std::min(least, value), greatest = std::max(greatest, value);
        }
      }
      const int32_t more = f == 0 ? 0 : (greatest - least) / 8 + 1;
      options.least[f] = least - more, options.greatest[f] = greatest + more;
      if (range == Range::Wide && f > 0) options.least[f] = -kWide, options.greatest[f] = kWide - kGuard;
    }
    return options;
  }
  std::vector<int64_t> suggest(minuet_execution* exact) {
    std::vector<int64_t> most(levels_), capacities(levels_);
    for (int i = 0; i < kKnown; ++i) {
      check(abi::prepare(machine_, exact, variants_[i].voxels.coordinates));
      check(minuet_execution_suggest_capacities(exact, kFactor, capacities.data(), levels_));
      for (int32_t l = 0; l < levels_; ++l) most[l] = std::max(most[l], capacities[l]);
    }
    return most;
  }
  std::vector<double> time_exact(minuet_execution* exact) {
    std::vector<double> times;
    for (int i = -kWarm; i < kTimed; ++i) {
      const Variant& variant = variants_[i < 0 ? (i + kWarm) % kKnown : kKnown + i];
      const Buffer coordinates(machine_, variant.voxels.coordinates), features(machine_, variant.features);
      const Buffer output(machine_, variant.count() * 256 * 2);
      check(minuet_device_synchronize(machine_.device(), nullptr));
      const Clock::time_point start = Clock::now();
      infer(exact, variant, coordinates, features, output);
      check(minuet_device_synchronize(machine_.device(), nullptr));
      if (i >= 0) times.push_back(milliseconds_since(start));
    }
    return times;
  }
  /// Returns the output's rows and channels: at most 256, and rows of a level no finer than the
  /// input's.
  std::pair<int64_t, int32_t> infer(minuet_execution* exact, const Variant& variant,
                                    const Buffer& coordinates, const Buffer& features, const Buffer& output) {
    check(minuet_execution_prepare(exact, coordinates.integers(), variant.count(), nullptr));
    std::pair<int64_t, int32_t> shape;
    check(minuet_execution_output_shape(exact, &shape.first, &shape.second));
    check(run_tensors(exact, {tensor(features.data(), variant.count(), 4, MINUET_F16)},
                      tensor(output.data(), shape.first, shape.second, MINUET_F16)));
    return shape;
  }
  double difference(minuet_execution* exact, const Variant& variant, const Buffer& replayed) {
    const Buffer coordinates(machine_, variant.voxels.coordinates), features(machine_, variant.features);
    const Buffer output(machine_, variant.count() * 256 * 2);
    const auto [rows, channels] = infer(exact, variant, coordinates, features, output);
    const std::vector<float> wanted = decode(DType::F16, output.read<char>()),
                             given = decode(DType::F16, replayed.read<char>());
    double greatest = 0, error = 0;
    for (int64_t i = 0; i < rows * channels; ++i) {
      greatest = std::max<double>(greatest, std::abs(wanted[i]));
      error = std::max<double>(error, std::abs(wanted[i] - given[i]));
    }
    return error / greatest;
  }
  void put(const Variant& variant, const Buffer& coordinates, const Buffer& features, const Buffer& count) {
    const auto copy = [&](const Buffer& target, const void* source, int64_t bytes) {
      check(minuet_device_copy(machine_.device(), target.data(), source, bytes, 0));
    };
    const int32_t rows = static_cast<int32_t>(variant.count());
    copy(coordinates, variant.voxels.coordinates.data(), int64_t{rows} * 16);
    copy(features, variant.features.data(), static_cast<int64_t>(variant.features.size()));
    copy(count, &rows, 4);
    check(minuet_device_synchronize(machine_.device(), nullptr));
  }
  double time_launch(const CapturedGraph& graph) {
    const Clock::time_point start = Clock::now();
    if (graph.launch() != CUDA_SUCCESS) throw std::runtime_error("the graph was not launched");
    check(minuet_device_synchronize(machine_.device(), stream_.get()));
    return milliseconds_since(start);
  }
  static double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  Machine& machine_;
  const Stream stream_;
  const Plan network_;
  std::vector<Variant> variants_;
  int32_t levels_ = 0;
};

void bench(const std::string& network, const std::string& commit, const std::vector<std::string>& names) {
  const std::vector<tool::BenchCloud> scenes = present_clouds(names);
  Machine& machine = open_gpu();
  llvm::json::Array clouds;
  for (const tool::BenchCloud& cloud : scenes) {
    ReplayBench bench(machine, network, cloud);
    const std::pair<minuet_map_method, Range> measured[] = {{MINUET_MAPS_SORTED, Range::Tight},
                                                            {MINUET_MAPS_INDEXED, Range::Tight},
                                                            {MINUET_MAPS_INDEXED, Range::Wide},
                                                            {MINUET_MAPS_INDEXED, Range::None}};
    for (const auto& [method, range] : measured) {
      llvm::json::Object entry = bench.measure(method, range);
      entry["cloud"] = cloud.name;
      std::fprintf(stderr, "%s %s, bounds %s: replay %.3f ms, maps alone %.3f ms (GPU %.3f), exact %.3f ms\n",
                   cloud.name.c_str(), entry.getString("maps")->str().c_str(), name_of(range),
                   *entry.getObject("replay")->getNumber("median_ms"),
                   *entry.getObject("replay_maps_alone")->getNumber("median_ms"),
                   *entry.getObject("replay_maps_alone_gpu")->getNumber("median_ms"),
                   *entry.getObject("exact")->getNumber("median_ms"));
      clouds.push_back(std::move(entry));
    }
  }
  print_results(machine, commit,
                llvm::json::Object{{"network", network},
                                   {"dtype", "fp16"},
                                   {"capacity_factor", kFactor},
                                   {"clouds", std::move(clouds)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: replay_bench NETWORK COMMIT [CLOUD...]\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] {
    minuet::abi::bench(arguments[1], arguments[2], {arguments + 3, arguments + count});
  });
}
