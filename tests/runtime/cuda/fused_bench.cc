// fused_bench CLOUD VOXEL < LINES: what the fused kernel alone takes for one layer, its map given, and how
// far some of its rows are from sums in fp64. fp16; the cloud's voxels, halved `level` times; 27 offsets. A
// line:
//   level in out step columns row_tiles warps split cluster prefetch stages blocks road unit early order
// where road is 0 cached, 1 async copies, 2 bulk copies, 3 bulk copies by a thread of the products, unit 0
// warps, 1 warpgroups, early 1 loads in front of a warpgroup's products, and order 0 the queries as they
// come, 1 by mask, 2 by mask and blocks with most offsets first. Or: level in out rows means order, the
// Spec that is chosen for so many rows, with means 1 by warpgroups.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "codegen/candidates.h"
#include "runtime/cuda/launcher.h"
#include "tests/kernels_templates/fused_problem.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/compare.h"
#include "tests/support/layer_run.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tools/minuet/readers/cloud.h"
#include "tools/minuet/voxelize.h"

namespace minuet {
namespace {

constexpr i32 kVolume = 27;

struct Line {
  i32 level, in, out, order;
  FusedSpec spec;
};

FusedSpec chosen_spec(i32 in, i32 out, i64 rows, bool warpgroups) {
  ConvolutionProblem problem;
  problem.dtype = DType::F16;
  problem.in_channels = in;
  problem.out_channels = out;
  problem.kernel_size = {3, 3, 3, 1};
  problem.input = {in, 0};
  problem.output = {out, 0};
  problem.scale_shift = true;
  problem.activation = Activation::ReLU;
  return choose_fused(problem, Gpu::get().device->info().arch, rows, {.warpgroups = warpgroups}).fused;
}

/// Nothing where the text is no line.
std::optional<Line> parse_line(const std::string& text) {
  std::istringstream words(text);
  std::vector<i32> n;
  for (i32 number = 0; words >> number;) n.push_back(number);
  if (n.size() == 6) return Line{n[0], n[1], n[2], n[5], chosen_spec(n[1], n[2], n[3], n[4] != 0)};
  if (n.size() != 16) return std::nullopt;
  Line line{n[0], n[1], n[2], n[15], {}};
  FusedSpec& spec = line.spec;
  spec.in_channels = line.in;
  spec.out_channels = line.out;
  spec.step = n[3];
  spec.columns = n[4];
  spec.row_tiles = n[5];
  spec.warps = n[6];
  spec.split = n[7];
  spec.cluster = n[8];
  spec.prefetch = n[9];
  spec.stages = n[10];
  spec.blocks = n[11];
  spec.weights = static_cast<WeightRoad>(n[12]);
  spec.unit = static_cast<MmaUnit>(n[13]);
  spec.early_loads = n[14] != 0;
  spec.input_bytes = std::min(16, line.in * 2);
  return line;
}

using Voxel = std::array<i32, 3>;

u64 key_of(const Voxel& v) {
  u64 key = 0;
  for (i32 axis = 0; axis < 3; ++axis) key = key << 21 | static_cast<u64>(v[axis] + (1 << 20));
  return key;
}
u64 morton_of(const Voxel& v) {
  u64 code = 0;
  for (i32 bit = 20; bit >= 0; --bit) {
    for (i32 axis = 0; axis < 3; ++axis)
      code = code << 1 | (static_cast<u64>(v[axis] + (1 << 20)) >> bit & 1);
  }
  return code;
}

/// One level's map, in one order of its queries.
struct Level {
  std::vector<i32> rows;  // [27][count], by query
  std::vector<u32> masks;
  std::vector<i32> order;
  i64 pairs = 0;
  i64 count() const { return static_cast<i64>(masks.size()); }
};

Level make_level(std::vector<Voxel> voxels, i32 level) {
  for (Voxel& v : voxels) {
    for (i32& x : v) x >>= level;
  }
  std::sort(voxels.begin(), voxels.end(),
            [](const Voxel& a, const Voxel& b) { return morton_of(a) < morton_of(b); });
  voxels.erase(std::unique(voxels.begin(), voxels.end()), voxels.end());
  std::unordered_map<u64, i32> row_of;
  for (const Voxel& v : voxels) row_of.emplace(key_of(v), static_cast<i32>(row_of.size()));
  Level made;
  const size_t count = voxels.size();
  made.masks.assign(count, 0);
  for (i32 k = 0; k < kVolume; ++k) {
    for (size_t q = 0; q < count; ++q) {
      const Voxel& v = voxels[q];
      const auto found = row_of.find(key_of({v[0] + k / 9 - 1, v[1] + k / 3 % 3 - 1, v[2] + k % 3 - 1}));
      made.rows.push_back(found == row_of.end() ? -1 : found->second);
      if (found == row_of.end()) continue;
      made.masks[q] |= 1u << k;
      ++made.pairs;
    }
  }
  return made;
}

void put_in_order(Level& level, i32 mode, size_t tile_rows) {
  level.order.clear();
  for (i64 q = 0; q < level.count(); ++q) level.order.push_back(static_cast<i32>(q));
  if (mode == 0) return;
  // Bits by how many axes an offset moves along, corners on top; the rank of that in Gray's code.
  std::vector<i32> bits;
  for (i32 axes = 0; axes <= 3; ++axes) {
    for (i32 k = 0; k < kVolume; ++k) {
      if ((k / 9 != 1) + (k / 3 % 3 != 1) + (k % 3 != 1) == axes) bits.push_back(k);
    }
  }
  std::vector<u32> rank;
  for (const u32 mask : level.masks) {
    u32 code = 0, value = 0;
    for (i32 b = 0; b < kVolume; ++b) code |= (mask >> bits[static_cast<size_t>(b)] & 1) << b;
    for (; code != 0; code >>= 1) value ^= code;
    rank.push_back(value);
  }
  std::stable_sort(level.order.begin(), level.order.end(), [&](i32 a, i32 b) { return rank[a] > rank[b]; });
  if (mode == 1) return;
  std::vector<std::pair<i32, size_t>> tiles;
  for (size_t first = 0; first < level.order.size(); first += tile_rows) {
    u32 all = 0;
    for (size_t i = first; i < std::min(first + tile_rows, level.order.size()); ++i)
      all |= level.masks[level.order[i]];
    tiles.emplace_back(-__builtin_popcount(all), first);
  }
  std::sort(tiles.begin(), tiles.end() - 1);  // the last, which may not be whole, stays
  std::vector<i32> sorted;
  for (const auto& tile : tiles) {
    for (size_t i = tile.second; i < std::min(tile.second + tile_rows, level.order.size()); ++i)
      sorted.push_back(level.order[i]);
  }
  level.order = sorted;
}

/// Rows multiplied for a useful one, where 8 queries are one.
double waste_of(const Level& level) {
  i64 work = 0;
  for (size_t first = 0; first < level.order.size(); first += 8) {
    u32 all = 0;
    for (size_t i = first; i < std::min(first + 8, level.order.size()); ++i)
      all |= level.masks[level.order[i]];
    work += 8 * __builtin_popcount(all);
  }
  return static_cast<double>(work) / static_cast<double>(level.pairs);
}

class Bench {
 public:
  Bench(const std::string& path, float voxel)
      : device_(*Gpu::get().device), scope_(device_.driver(), device_.context()) {
    const tool::Cloud points = llvm::cantFail(tool::read_cloud(path, {}));
    const tool::VoxelCloud cloud = llvm::cantFail(tool::voxelize(points.points, voxel, true));
    for (i64 i = 0; i < cloud.count(); ++i) {
      const i32* const c = cloud.coordinates.data() + i * 4;
      voxels_.push_back({c[1], c[2], c[3]});
    }
    launcher_ = take(Launcher::create(Gpu::get().device, take(SideStreams::create(Gpu::get().device))));
    take(check(device_.driver(), device_.driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
               "cuStreamCreate"));
    take(launcher_->begin(stream_));
    for (CUevent& event : events_)
      take(
          check(device_.driver(), device_.driver().cuEventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate"));
  }
  void run(const Line& line);

 private:
  double time(const Kernel<FusedParams>& kernel, i64 blocks, const FusedParams& params);
  double worst_error(const Line& line, const Level& level, const std::vector<char>& output) const;

  CudaDevice& device_;
  ContextScope scope_;
  std::vector<Voxel> voxels_;
  std::map<i32, Level> levels_;
  std::unique_ptr<Launcher> launcher_;
  CUstream stream_ = nullptr;
  CUevent events_[2] = {};
  std::array<i32, 3> layer_{-1, 0, 0};
  std::vector<float> input_, weights_, scale_, shift_;  // of layer_
};

double Bench::time(const Kernel<FusedParams>& kernel, i64 blocks, const FusedParams& params) {
  constexpr int kLaunches = 20;
  const Driver& driver = device_.driver();
  float best = 1e9f;
  for (int repeat = 0; repeat < 4; ++repeat) {
    take(check(driver, driver.cuEventRecord(events_[0], stream_), "cuEventRecord"));
    for (int i = 0; i < kLaunches; ++i) take(launcher_->launch(kernel, blocks, params));
    take(check(driver, driver.cuEventRecord(events_[1], stream_), "cuEventRecord"));
    take(check(driver, driver.cuEventSynchronize(events_[1]), "cuEventSynchronize"));
    float elapsed = 0;
    take(check(driver, driver.cuEventElapsedTime(&elapsed, events_[0], events_[1]), "cuEventElapsedTime"));
    best = std::min(best, elapsed / kLaunches);
  }
  return static_cast<double>(best) * 1e3;
}

/// Of some rows' elements, in units of what compare.h allows.
double Bench::worst_error(const Line& line, const Level& level, const std::vector<char>& output) const {
  const std::vector<float> values = decode(DType::F16, output);
  Random random(3);
  double worst = 0;
  for (i32 sample = 0; sample < 40; ++sample) {
    const i64 q =
        sample == 0 ? level.count() - 1 : static_cast<i64>(random.below(static_cast<u64>(level.count())));
    for (i32 d = 0; d < line.out; ++d) {
      double sum = 0, size = 0;
      for (i32 k = 0; k < kVolume; ++k) {
        const i32 row = level.rows[static_cast<size_t>(k * level.count() + q)];
        for (i32 c = 0; row >= 0 && c < line.in; ++c) {
          const double product = double{input_[static_cast<size_t>(i64{row} * line.in + c)]} *
                                 weights_[static_cast<size_t>((i64{k} * line.in + c) * line.out + d)];
          sum += product, size += std::abs(product);
        }
      }
      const double expected = std::max(0.0, sum * scale_[d] + shift_[d]);
      const double bound = element_factor(DType::F16) * (size * std::abs(scale_[d]) + std::abs(shift_[d]));
      const double error =
          std::abs(values[static_cast<size_t>(q * line.out + d)] - expected) / (bound + 0x1p-25);
      if (!(error <= worst)) worst = error;
    }
  }
  return worst;
}

void Bench::run(const Line& line) {
  auto found = levels_.find(line.level);
  if (found == levels_.end()) found = levels_.emplace(line.level, make_level(voxels_, line.level)).first;
  Level& level = found->second;
  put_in_order(level, line.order, static_cast<size_t>(fused_block_rows(line.spec)));
  const i64 count = level.count();
  const FusedSpec& spec = line.spec;
  Random random(7);
  const auto draw = [&](i64 n, double least, double greatest) {
    std::vector<float> values;
    for (i64 i = 0; i < n; ++i) values.push_back(round_to(DType::F16, random.uniform(least, greatest)));
    return values;
  };
  if (const std::array<i32, 3> layer{line.level, line.in, line.out}; layer != layer_) {
    layer_ = layer;
    input_ = draw(count * line.in, -1, 1);
    weights_ = draw(i64{kVolume} * line.in * line.out, -0.1, 0.1);
    scale_ = draw(line.out, 0.5, 1.5);
    shift_ = draw(line.out, -1, 1);
  }
  std::vector<i32> rows(level.rows.size());
  std::vector<u32> masks(level.masks.size());
  for (i64 i = 0; i < count; ++i) {
    const i64 q = level.order[static_cast<size_t>(i)];
    masks[static_cast<size_t>(i)] = level.masks[static_cast<size_t>(q)];
    for (i32 k = 0; k < kVolume; ++k)
      rows[static_cast<size_t>(k * count + i)] = level.rows[static_cast<size_t>(k * count + q)];
  }
  const TestBuffer input(device_, encode(DType::F16, input_)), image(device_, fused_image(spec, weights_)),
      output(device_, count * line.out * 2);
  const TestBuffer scale(device_, scale_), shift(device_, shift_), rows_memory(device_, rows),
      masks_memory(device_, masks), order(device_, level.order);
  const TestBuffer words(device_, std::vector<i32>{static_cast<i32>(count), 0});
  FusedParams params{};
  params.input = input.as<>();
  params.input_ld = line.in;
  params.rows = rows_memory.as<const i32>();
  params.masks = masks_memory.as<const u32>();
  params.row_stride = count;
  params.order = order.as<const i32>();
  params.ordered_views = 1;
  params.query_count = words.as<const i32>();
  params.weights = image.as<>();
  params.scale = scale.as<const float>();
  params.shift = shift.as<const float>();
  params.output = output.as<>();
  params.output_ld = line.out;
  params.overflow = words.as<u32>() + 1;
  params.overflow_mark = 1;
  const auto kernel = take(device_.kernel(spec));
  const double us = time(kernel, fused_blocks(spec, count), params);
  const double flop = 2.0 * static_cast<double>(level.pairs) * line.in * line.out;
  const double error = worst_error(line, level, output.read<char>());
  std::printf("rows %6lld waste %.2f order%d %7.1f us %4.0f TF err %.2f%s %s\n",
              static_cast<long long>(count), waste_of(level), line.order, us, flop / us * 1e-6, error,
              error <= 1 ? "" : " WRONG", display_name(spec).c_str());
  std::fflush(stdout);
}

int bench(const std::string& path, float voxel) {
  if (!Gpu::get().device) {
    std::fprintf(stderr, "%s\n", Gpu::get().reason.c_str());
    return 1;
  }
  std::vector<Line> lines;
  std::vector<KernelSource> sources;
  for (std::string text; std::getline(std::cin, text);) {
    std::optional<Line> line = parse_line(text);
    if (!line) continue;
    sources.push_back(emit(line->spec));
    lines.push_back(std::move(*line));
  }
  const auto start = std::chrono::steady_clock::now();
  Gpu::get().load(sources);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%zu lines, compiled in %.1f s\n", lines.size(), seconds.count());
  Bench bench(path, voxel);
  for (const Line& line : lines) bench.run(line);
  return 0;
}

}  // namespace
}  // namespace minuet

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: fused_bench CLOUD VOXEL < LINES\n");
    return 2;
  }
  return minuet::bench(arguments[1], std::strtof(arguments[2], nullptr));
}
