// by_hand_bench CLOUD COMMIT: what single convolutions cost beside a network that is one plan. Prints JSON
// for tools/bench/results: MinkUNet42 (fp16, 0.1 m) whole and of single convolutions on one queue, in turn;
// and one convolution of 27 offsets, 64 to 64 channels, from coordinates to output: set, map, prepare, run
// and one synchronisation. By the host's clock, until all is enqueued and until all is done; the same cloud
// each time, all of it warm.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"
#include "tools/minuet/cloud/readers/cloud.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kWarm = 5, kRepeats = 60;
const std::vector<int32_t> kWidths = {32, 32, 64, 128, 256, 256, 128, 96, 96};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct Times {
  std::vector<double> total, enqueued;  // milliseconds of each repeat
};

llvm::json::Object summary(Times times) {
  std::vector<double>& total = times.total;
  std::sort(total.begin(), total.end());
  std::sort(times.enqueued.begin(), times.enqueued.end());
  return llvm::json::Object{{"median_ms", total[total.size() / 2]},
                            {"p10_ms", total[total.size() / 10]},
                            {"p90_ms", total[total.size() * 9 / 10]},
                            {"enqueued_ms", times.enqueued[times.enqueued.size() / 2]},
                            {"repeats", static_cast<int64_t>(total.size())}};
}

/// Each call followed by a synchronisation; in turn, so that a change of clocks meets all alike.
std::vector<llvm::json::Object> time_in_turn(Machine& machine,
                                             const std::vector<std::function<void()>>& calls) {
  std::vector<Times> times(calls.size());
  for (int i = 0; i < kWarm + kRepeats; ++i) {
    for (size_t c = 0; c < calls.size(); ++c) {
      const Clock::time_point start = Clock::now();
      calls[c]();
      const double enqueued = milliseconds_since(start);
      check(minuet_device_synchronize(machine.device(), nullptr));
      if (i < kWarm) continue;
      times[c].enqueued.push_back(enqueued);
      times[c].total.push_back(milliseconds_since(start));
    }
  }
  std::vector<llvm::json::Object> summaries;
  for (Times& each : times) summaries.push_back(summary(std::move(each)));
  return summaries;
}

/// One convolution from coordinates to output.
class OneLayer {
 public:
  OneLayer(Machine& machine, minuet_queue* queue, int64_t rows)
      : machine_(machine),
        queue_(queue),
        convolution_(machine, test(), make_data(test())),
        output_(machine, rows * 64 * 2) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue;
    execution_ = convolution_.execution(&options);
  }
  void run(const int32_t* coordinates, int64_t count, void* features) {
    minuet_coordinates_options set_options = MINUET_COORDINATES_OPTIONS_INIT;
    set_options.queue = queue_;
    minuet_coordinates* made = nullptr;
    check(minuet_coordinates_create(machine_.device(), &set_options, coordinates, count, nullptr, &made));
    const Coordinates set(made, {minuet_coordinates_destroy});
    minuet_kernel_map_options map_options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(map_options.kernel_size, 3, 3);
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set.get(), set.get(), &map_options, nullptr, &map));
    const KernelMap owned(map, {minuet_kernel_map_destroy});
    check(prepare_map(execution_.get(), map));
    check(run_tensors(execution_.get(), {tensor(features, count, 64, MINUET_F16)},
                      tensor(output_.data(), count, 64, MINUET_F16)));
  }

 private:
  static ConvolutionCase test() {
    ConvolutionCase test;
    test.dtype = DType::F16;
    test.kernel_size = {3, 3, 3, 1};
    test.in_channels = test.out_channels = 64;
    test.points = 100;
    return test;
  }
  Machine& machine_;
  minuet_queue* queue_;
  Convolution convolution_;
  Buffer output_;
  Execution execution_{nullptr, {minuet_execution_destroy}};
};

int bench(const std::string& path, const std::string& commit) {
  std::string reason;
  Machine* const machine = Machine::open("cuda:0", reason);
  if (!machine) {
    std::fprintf(stderr, "%s\n", reason.c_str());
    return 1;
  }
  const tool::Cloud points = llvm::cantFail(tool::read_cloud(path, {}));
  const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
  const tool::VoxelCloud voxels =
      llvm::cantFail(tool::voxelize(points.points, tool::cubic(0.1), true, voxelizer));
  const int64_t count = voxels.count();
  oracle::Parameters parameters(1);
  const std::vector<int32_t> scene = make_scene(60, 1);
  oracle::minkunet42(parameters, kWidths, scene,
                     oracle::draw_features(static_cast<int64_t>(scene.size()), 1));
  const TemporaryPath file("by_hand_bench.safetensors");
  write_safetensors(file.path(), parameters.all());

  const Buffer coordinates(*machine, voxels.coordinates);
  const Buffer features(*machine, encode(DType::F16, voxels.features));
  const Buffer wide(*machine, encode(DType::F16, oracle::draw_features(count * 64, 2)));
  const Buffer output(*machine, count * kWidths.back() * 2), by_hand_output(*machine, output.bytes());
  const Plan network = make_network(*machine, {"minkunet42", kWidths, DType::F16, file.path(), 0});
  const Execution execution = make_execution(*machine, network.get());
  const Queue queue = make_queue(*machine);
  ByHand by_hand(*machine, DType::F16, kWidths, parameters.all(), queue.get());
  OneLayer layer(*machine, queue.get(), count);

  std::vector<llvm::json::Object> times = time_in_turn(
      *machine,
      {[&] {
         check(minuet_execution_prepare(execution.get(), coordinates.integers(), count, nullptr));
         check(run_tensors(execution.get(), {tensor(features.data(), count, 4, MINUET_F16)},
                           tensor(output.data(), count, kWidths.back(), MINUET_F16)));
       },
       [&] { by_hand.infer(coordinates.integers(), count, features.data(), by_hand_output.data()); },
       [&] { layer.run(coordinates.integers(), count, wide.data()); }});
  const bool equal = output.read<char>() == by_hand_output.read<char>();

  minuet_device_info device{};
  device.struct_size = sizeof(device);
  check(minuet_device_query(machine->device(), &device));
  minuet_system_info system{};
  system.struct_size = sizeof(system);
  check(minuet_query_system(&system));
  const double ratio = *times[1].getNumber("median_ms") / *times[0].getNumber("median_ms");
  llvm::outs() << llvm::formatv("{0:2}", llvm::json::Value(llvm::json::Object{
                                             {"device", std::string(device.description)},
                                             {"driver", std::string(system.driver)},
                                             {"toolkit", std::string(system.nvrtc)},
                                             {"commit", commit},
                                             {"cloud", path},
                                             {"voxels", count},
                                             {"dtype", "fp16"},
                                             {"layers", static_cast<int64_t>(by_hand.layers())},
                                             {"minkunet42", std::move(times[0])},
                                             {"minkunet42_by_hand", std::move(times[1])},
                                             {"ratio", ratio},
                                             {"equal_bits", equal},
                                             {"one_layer_64_64", std::move(times[2])},
                                         }))
               << "\n";
  return equal ? 0 : 1;
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: by_hand_bench CLOUD COMMIT\n");
    return 2;
  }
  return minuet::abi::bench(arguments[1], arguments[2]);
}
