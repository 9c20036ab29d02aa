// integer_bench COMMIT [--specs[=LEVEL]] [CLOUD...]: how long the fused kernel takes on the GPU for
// submanifold convolutions of kernel 3^3 with the channels of MinkUNet42's levels, in fp16 and with 8-bit
// tensors. The clouds are those of minuet bench, by default os1 and random_1e6, with coarser levels of them.
// Times are those of kCalls captured launches that run one after the other, by the GPU's clock. With --specs
// it compares many Specs for 8-bit tensors with the chosen one. Prints JSON for tools/bench/results.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <numeric>
#include <set>
#include <unordered_map>

#include "runtime/cuda/launcher.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/runtime/execution/bench_times.h"
#include "tests/runtime/execution/present_clouds.h"
#include "tests/support/layer_run.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::abi {
namespace {

constexpr int kTimed = 20, kWarm = 5, kCalls = 20, kOffsets = 27, kLevels = 5;

/// The channels of one level of MinkUNet42.
struct LevelLayer {
  int level;
  i32 in, out;
};
constexpr LevelLayer kLayers[] = {{0, 32, 32},   {0, 96, 96},   {0, 128, 96},  {1, 32, 32},
                                  {1, 96, 96},   {1, 128, 96},  {2, 64, 64},   {2, 128, 128},
                                  {2, 192, 128}, {3, 128, 128}, {3, 256, 128}, {4, 256, 256}};

/// A kernel map of a coordinate set onto itself, in the order of its masks, as the library makes it.
struct Level {
  i64 rows = 0, pairs = 0;
  std::vector<i32> table;  // [kOffsets][rows], in the order
  std::vector<u32> masks;  // in the order
  std::vector<i32> order;
};

u64 key_of(i32 x, i32 y, i32 z) {
  constexpr i32 kMiddle = 1 << 20;
  return static_cast<u64>(x + kMiddle) << 42 | static_cast<u64>(y + kMiddle) << 21 |
         static_cast<u64>(z + kMiddle);
}

Level make_level(const std::vector<std::array<i32, 3>>& voxels) {
  Level level;
  level.rows = static_cast<i64>(voxels.size());
  std::unordered_map<u64, i32> row_of;
  row_of.reserve(voxels.size() * 2);
  for (std::size_t i = 0; i < voxels.size(); ++i)
    row_of.emplace(key_of(voxels[i][0], voxels[i][1], voxels[i][2]), static_cast<i32>(i));
  std::vector<i32> table(voxels.size() * kOffsets, -1);
  std::vector<u32> masks(voxels.size(), 0);
  for (std::size_t i = 0; i < voxels.size(); ++i) {
    for (int k = 0; k < kOffsets; ++k) {
      const auto found = row_of.find(
          key_of(voxels[i][0] + k / 9 - 1, voxels[i][1] + k / 3 % 3 - 1, voxels[i][2] + k % 3 - 1));
      if (found == row_of.end()) continue;
      table[static_cast<std::size_t>(k) * voxels.size() + i] = found->second;
      masks[i] |= 1u << k;
    }
    level.pairs += std::popcount(masks[i]);
  }
  level.order.resize(voxels.size());
  std::iota(level.order.begin(), level.order.end(), 0);
  std::stable_sort(level.order.begin(), level.order.end(), [&](i32 a, i32 b) {
    return masks[static_cast<std::size_t>(a)] > masks[static_cast<std::size_t>(b)];
  });
  level.table.resize(table.size());
  level.masks.resize(masks.size());
  for (std::size_t i = 0; i < voxels.size(); ++i) {
    const auto row = static_cast<std::size_t>(level.order[i]);
    level.masks[i] = masks[row];
    for (std::size_t k = 0; k < kOffsets; ++k)
      level.table[k * voxels.size() + i] = table[k * voxels.size() + row];
  }
  return level;
}

std::vector<std::array<i32, 3>> coarser(const std::vector<std::array<i32, 3>>& voxels) {
  std::set<std::array<i32, 3>> cells;
  for (const auto& [x, y, z] : voxels) cells.insert({x >> 1, y >> 1, z >> 1});
  return {cells.begin(), cells.end()};
}

/// The blocks of a Spec, those with the most offsets first.
std::vector<i32> block_order(const Level& level, i32 height) {
  const i64 blocks = blocks_of_height(level.rows, height);
  std::vector<i32> offsets(static_cast<std::size_t>(blocks)), order(static_cast<std::size_t>(blocks));
  for (i64 b = 0; b < blocks; ++b) {
    u32 mask = 0;
    for (i64 i = b * height; i < std::min(level.rows, (b + 1) * height); ++i)
      mask |= level.masks[static_cast<std::size_t>(i)];
    offsets[static_cast<std::size_t>(b)] = std::popcount(mask);
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) {
    return offsets[static_cast<std::size_t>(a)] > offsets[static_cast<std::size_t>(b)];
  });
  return order;
}

ConvolutionProblem problem_of(const LevelLayer& layer, bool integers) {
  ConvolutionProblem problem;
  problem.dtype = DType::F16;
  problem.in_channels = layer.in, problem.out_channels = layer.out;
  problem.kernel_size = {3, 3, 3, 1};
  problem.input = {layer.in, 0};
  problem.output = problem.residual_input = {layer.out, 0};
  problem.scale_shift = true;
  problem.residual = layer.in == layer.out;
  problem.activation = Activation::ReLU;
  if (integers) problem.input_type = problem.output_type = DType::U8;
  if (integers && problem.residual) problem.residual_type = DType::U8;
  return problem;
}

/// The chosen Spec, and others that differ from it in what matters for 8-bit tensors.
std::vector<FusedSpec> specs_of(const LevelLayer& layer, const std::string& arch, i64 rows, bool compares) {
  const FusedSpec chosen = choose_fused(problem_of(layer, true), arch, rows).fused;
  std::vector<FusedSpec> specs{chosen};
  if (!compares) return specs;
  const auto add = [&](const FusedSpec& spec) {
    const StatusError status = take_status(validate_spec(spec));
    if (status.message().empty() && std::find(specs.begin(), specs.end(), spec) == specs.end())
      specs.push_back(spec);
  };
  for (const i32 warps : {1, 2, 4}) {
    for (const i32 prefetch : {1, 2, 3, 4}) {
      for (const i32 row_tiles : {1, 2, 4}) {
        for (const WeightRoad road : {WeightRoad::Cached, WeightRoad::BulkCopy}) {
          FusedSpec spec = chosen;
          spec.unit = MmaUnit::Warp, spec.cluster = 1, spec.split = 1, spec.weights = road;
          spec.warps = warps, spec.prefetch = prefetch, spec.row_tiles = row_tiles;
          if (road == WeightRoad::Cached && layer.in > 64) continue;
          if (road != WeightRoad::Cached && warps == 1) continue;
          spec.step = layer.in <= 128 ? layer.in : 128;
          spec.columns = layer.out % 96 == 0 ? 96 : std::min(layer.out, 64);
          spec.stages = road == WeightRoad::Cached ? 1 : 4;
          for (const i32 blocks : {2, 3, 4, 6, 8}) {
            spec.blocks = blocks;
            if (fused_threads(spec) * blocks <= 1024 && spec.row_tiles * spec.columns / 4 < 100) add(spec);
          }
        }
      }
    }
  }
  if (arch != "sm_90a" || layer.in < 64) return specs;
  for (const i32 warps : {4, 8, 12}) {
    for (const WeightRoad road : {WeightRoad::BulkCopy, WeightRoad::BulkRefill}) {
      for (const i32 cluster : {1, 2, 4}) {
        for (const i32 step : {64, 128, 256}) {
          for (const i32 prefetch : {1, 2}) {
            for (const bool early : {false, true}) {
              FusedSpec spec = chosen;
              spec.unit = MmaUnit::Warpgroup, spec.row_tiles = 2, spec.split = 1, spec.warps = warps;
              spec.weights = road, spec.cluster = cluster, spec.step = step, spec.prefetch = prefetch;
              spec.early_loads = early, spec.columns = layer.out;
              if (layer.out > 128) spec.columns = 128;
              if (step >= 2 * layer.in) continue;
              spec.stages = step == 256 ? 3 : 6;
              for (const i32 blocks : warps == 4 ? std::vector<i32>{2, 3, 4, 5} : std::vector<i32>{1, 2}) {
                spec.blocks = blocks;
                if (blocks * fused_shared_bytes(spec) <= 220 << 10) add(spec);
              }
            }
          }
        }
      }
    }
  }
  return specs;
}

class LayerBench {
 public:
  LayerBench(Machine& machine, const Level& level, const LevelLayer& layer)
      : machine_(machine),
        level_(level),
        layer_(layer),
        device_(*Gpu::get().device),
        table_(device_, level.table),
        masks_(device_, level.masks),
        order_(device_, level.order),
        words_(device_, std::vector<i32>{static_cast<i32>(level.rows), 0}),
        input_(device_, random_halves(level.rows * layer.in)),
        residual_(device_, random_halves(level.rows * layer.out)),
        output_(device_, level.rows * layer.out * 2),
        factors_(device_, std::vector<float>(static_cast<std::size_t>(layer.out), 0.001f)) {}

  double measure(const FusedSpec& spec, const Stream& stream) {
    Gpu::get().load({emit(spec)});
    const std::unique_ptr<Launcher> launcher = take(Launcher::create(Gpu::get().device, nullptr));
    const Kernel<FusedParams> kernel = take(device_.kernel(spec));
    std::vector<char> image(static_cast<std::size_t>(fused_image_bytes(image_of(spec))), 1);
    const TestBuffer weights(device_, image);
    const TestBuffer blocks(device_, block_order(level_, fused_block_rows(spec)));
    FusedParams p{};
    p.input = input_.as<>(), p.input_ld = layer_.in;
    p.rows = table_.as<const i32>(), p.masks = masks_.as<const u32>();
    p.row_stride = static_cast<i32>(level_.rows);
    p.order = order_.as<const i32>(), p.ordered_views = 1, p.block_order = blocks.as<const i32>();
    p.query_count = words_.as<const i32>();
    p.weights = weights.as<>();
    p.scale = p.shift = p.residual_factor = factors_.as<const float>();
    p.residual = residual_.as<>(), p.residual_ld = layer_.out;
    p.output = output_.as<>(), p.output_ld = layer_.out;
    p.overflow = words_.as<u32>() + 1, p.overflow_mark = 1;
    const auto enqueue = [&] {
      take(launcher->begin(stream.get()));
      for (int call = 0; call < kCalls; ++call)
        take(launcher->launch(kernel, fused_grid(spec, level_.rows), p));
      take(launcher->end());
    };
    enqueue();
    check(minuet_device_synchronize(machine_.device(), stream.get()));
    const CapturedGraph graph(stream.get(), enqueue);
    std::vector<double> times;
    for (int i = -kWarm; i < kTimed; ++i) {
      const double time = time_by_events(machine_, stream, graph);
      if (i >= 0) times.push_back(time);
    }
    return 1000 * *summary(times).getNumber("median_ms") / kCalls;
  }

 private:
  /// Small numbers, of which each byte is also one of U8.
  static std::vector<u16> random_halves(i64 count) {
    Random random(5);
    std::vector<u16> halves;
    for (i64 i = 0; i < count; ++i) halves.push_back(static_cast<u16>(random.below(0x3c00)));
    return halves;
  }

  Machine& machine_;
  const Level& level_;
  const LevelLayer layer_;
  CudaDevice& device_;
  const TestBuffer table_, masks_, order_, words_, input_, residual_, output_, factors_;
};

/// `only`: the number of the level whose layers are measured, or -1.
llvm::json::Array measure(Machine& machine, const tool::BenchCloud& cloud, bool compares, int only) {
  const Stream stream(machine);
  stream.make_current();
  const tool::Voxelizer voxelizer = llvm::cantFail(tool::make_voxelizer());
  const tool::VoxelCloud given = llvm::cantFail(tool::make_variant(cloud, 0, /*thin=*/false, voxelizer));
  std::vector<std::array<i32, 3>> voxels;
  for (std::size_t i = 0; i + 4 <= given.coordinates.size(); i += 4)
    voxels.push_back({given.coordinates[i + 1], given.coordinates[i + 2], given.coordinates[i + 3]});
  std::sort(voxels.begin(), voxels.end());
  std::vector<Level> levels;
  for (int level = 0; level < kLevels; ++level) {
    levels.push_back(make_level(voxels));
    voxels = coarser(voxels);
  }
  llvm::json::Array results;
  const std::string arch = machine.arch();
  for (const LevelLayer& layer : kLayers) {
    if (only >= 0 && layer.level != only) continue;
    const Level& level = levels[static_cast<std::size_t>(layer.level)];
    LayerBench bench(machine, level, layer);
    const FusedSpec half = choose_fused(problem_of(layer, false), arch, level.rows).fused;
    const double half_us = bench.measure(half, stream);
    double chosen_us = 0, best_us = 0;
    std::string best;
    const std::vector<FusedSpec> specs = specs_of(layer, arch, level.rows, compares);
    std::vector<KernelSource> sources;
    for (const FusedSpec& spec : specs) sources.push_back(emit(spec));
    Gpu::get().load(sources);
    for (const FusedSpec& spec : specs) {
      double us = 0;
      try {
        us = bench.measure(spec, stream);
      } catch (const std::exception& error) {
        // A Spec of the comparison may not fit on the GPU.
        std::fprintf(stderr, "    %s does not run: %s\n", display_name(spec).c_str(), error.what());
        continue;
      }
      if (chosen_us == 0) chosen_us = us;
      if (best_us == 0 || us < best_us) best_us = us, best = display_name(spec);
      if (compares) std::fprintf(stderr, "    %8.2f us %s\n", us, display_name(spec).c_str());
    }
    std::fprintf(stderr,
                 "%s level %d, %lld rows, %lld pairs, %d to %d: fp16 %.2f us, u8 %.2f us, best %.2f us %s\n",
                 cloud.name.c_str(), layer.level, level.rows, level.pairs, layer.in, layer.out, half_us,
                 chosen_us, best_us, best.c_str());
    results.push_back(llvm::json::Object{{"cloud", cloud.name},
                                         {"level", layer.level},
                                         {"rows", level.rows},
                                         {"pairs", level.pairs},
                                         {"in_channels", layer.in},
                                         {"out_channels", layer.out},
                                         {"fp16_us", half_us},
                                         {"u8_us", chosen_us},
                                         {"best_us", best_us},
                                         {"best", best}});
  }
  return results;
}

void bench(const std::string& commit, std::vector<std::string> names) {
  const bool compares = !names.empty() && names.front().rfind("--specs", 0) == 0;
  const int only = compares && names.front().size() > 8 ? std::stoi(names.front().substr(8)) : -1;
  if (compares) names.erase(names.begin());
  const std::vector<tool::BenchCloud> clouds = present_clouds(names);
  Machine& machine = open_gpu();
  llvm::json::Array layers;
  for (const tool::BenchCloud& cloud : clouds) {
    for (llvm::json::Value& layer : measure(machine, cloud, compares, only))
      layers.push_back(std::move(layer));
  }
  print_results(machine, commit, llvm::json::Object{{"layers", std::move(layers)}});
}

}  // namespace
}  // namespace minuet::abi

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: integer_bench COMMIT [--specs[=LEVEL]] [CLOUD...]\n");
    return 2;
  }
  return minuet::abi::exit_status_of([&] {
    minuet::abi::bench(arguments[1], {arguments + 2, arguments + count});
  });
}
