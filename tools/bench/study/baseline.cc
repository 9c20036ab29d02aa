#include "tools/bench/study/baseline.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "codegen/base/cpu_count.h"
#include "codegen/compile/helper_compiler.h"
#include "llvm/Support/Path.h"
#include "tools/bench/study/baseline_source.h"
#include "tools/bench/study/baseline_table.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"

namespace minuet::tool {
namespace {

using study::HashTable;
using study::InsertParams;
using study::QueryParams;

/// This is added to coordinates, so that those from -2^15 on are not negative in the 16-bit fields of a key.
constexpr int64_t kBias = 1 << 15;
/// Coordinates must keep this distance from both ends of the range of a key's field. It is larger than any
/// kernel offset.
constexpr int64_t kRoom = 1 << 10;
/// Each of several threads gets at least this many items, because starting a thread for fewer does not pay.
constexpr int64_t kFewItems = 16384;

/// Splits `count` items among the CPU's cores, calls `work` for each part, and waits until all calls have
/// ended.
void on_all_cores(int64_t count, const std::function<void(int64_t first, int64_t end)>& work) {
  const int64_t cores = cpu_count();
  const int64_t threads = std::clamp<int64_t>(count / kFewItems, 1, cores);
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i)
    others.emplace_back([&, i] { work(count * i / threads, count * (i + 1) / threads); });
  work(0, count / threads);
  for (std::thread& thread : others) thread.join();
}

HashTable table_of(const BaselineLevel& level) {
  return {static_cast<u64*>(level.table_keys.get()), static_cast<i32*>(level.table_rows.get()),
          static_cast<u32*>(level.claims.get()), static_cast<u32>(level.slots - 1)};
}

/// Returns the path of minuet-compile beside the loaded libminuet, or "" if the library's path is unknown.
std::string helper_program() {
  Dl_info library = {};
  if (dladdr(reinterpret_cast<void*>(&minuet_version), &library) == 0 || !library.dli_fname) return "";
  llvm::SmallString<256> path(resolved(library.dli_fname));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "minuet-compile");
  return path.str().str();
}

llvm::Expected<GpuKernel> load_kernel(Compiler& compiler, Gpu& gpu, const std::string& arch,
                                      const std::string& name) {
  llvm::Expected<Binary> binary = compiler.compile({baseline_kernel(name), arch}, {});
  if (!binary) {
    const StatusError status = take_status(binary.takeError());
    return broken(status.message() + " " + status.detail());
  }
  return gpu.load(binary->cubin, binary->lowered_name);
}

}  // namespace

llvm::Expected<std::unique_ptr<Baseline>> Baseline::create(const StudyBench& bench) {
  std::unique_ptr<Baseline> baseline(new Baseline(bench));
  if (bench.facts().is_cpu()) return baseline;
  MINUET_ASSIGN(baseline->gpu_, Gpu::open(bench.facts()));
  MINUET_TRY(baseline->compile());
  return baseline;
}

llvm::Error Baseline::compile() {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler({}, helper_program());
  const std::string& arch = bench_.facts().arch;
  MINUET_ASSIGN(insert_, load_kernel(*compiler, *gpu_, arch, "insert_keys<256>"));
  MINUET_ASSIGN(query_hash_, load_kernel(*compiler, *gpu_, arch, "query_keys<true>"));
  MINUET_ASSIGN(query_sorted_, load_kernel(*compiler, *gpu_, arch, "query_keys<false>"));
  return llvm::Error::success();
}

llvm::Expected<BaselineLevel> Baseline::make_level(const std::vector<int32_t>& coordinates) const {
  std::vector<u64> keys(coordinates.size() / 4);
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t field = 0; field < 4; ++field) {
      const int64_t value = int64_t{coordinates[4 * i + field]} + kBias;
      if (value < kRoom || value >= 2 * kBias - kRoom)
        return bad_input(
            "the coordinate {0} of a cloud is outside the range of the studies' hash table, {1} to {2}: name "
            "a folder of smaller clouds with --data",
            coordinates[4 * i + field], kRoom - kBias, kBias - kRoom - 1);
      keys[i] = keys[i] << 16 | static_cast<u64>(value);
    }
  }
  std::vector<u64> sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  size_t slots = 2;
  while (slots < 2 * keys.size()) slots *= 2;
  minuet_device* const device = bench_.device();
  MINUET_ASSIGN(DeviceBuffer own, DeviceBuffer::upload(device, keys.data(), 8 * keys.size()));
  MINUET_ASSIGN(DeviceBuffer ascending, DeviceBuffer::upload(device, sorted.data(), 8 * keys.size()));
  MINUET_ASSIGN(DeviceBuffer table_keys, DeviceBuffer::allocate(device, 8 * slots));
  MINUET_ASSIGN(DeviceBuffer table_rows, DeviceBuffer::allocate(device, 4 * slots));
  MINUET_ASSIGN(DeviceBuffer claims, DeviceBuffer::allocate(device, 4 * slots));
  return BaselineLevel{std::move(own),
                       std::move(ascending),
                       std::move(table_keys),
                       std::move(table_rows),
                       std::move(claims),
                       static_cast<int64_t>(keys.size()),
                       static_cast<int64_t>(slots)};
}

llvm::Expected<BaselineMap> Baseline::make_map(const std::array<int32_t, 3>& kernel_size,
                                               const std::array<int32_t, 3>& steps, int64_t queries) const {
  std::vector<u64> deltas;
  const auto least = [&](size_t axis) { return -((kernel_size[axis] - 1) / 2); };
  const auto greatest = [&](size_t axis) { return kernel_size[axis] / 2; };
  for (int64_t x = least(0); x <= greatest(0); ++x) {
    for (int64_t y = least(1); y <= greatest(1); ++y) {
      for (int64_t z = least(2); z <= greatest(2); ++z) {
        // Coordinates are at least kRoom away from both ends of the range of a key's field. An offset
        // therefore never overflows a field, and one addition to the whole key adds to each field.
        deltas.push_back(
            static_cast<u64>(x * steps[0] * (int64_t{1} << 32) + y * steps[1] * (1 << 16) + z * steps[2]));
      }
    }
  }
  minuet_device* const device = bench_.device();
  MINUET_ASSIGN(DeviceBuffer uploaded, DeviceBuffer::upload(device, deltas.data(), 8 * deltas.size()));
  MINUET_ASSIGN(DeviceBuffer map,
                DeviceBuffer::allocate(device, 4 * deltas.size() * static_cast<size_t>(queries)));
  MINUET_ASSIGN(DeviceBuffer counts, DeviceBuffer::allocate(device, 4 * deltas.size()));
  return BaselineMap{std::move(uploaded), std::move(map), std::move(counts),
                     static_cast<int32_t>(deltas.size())};
}

llvm::Error Baseline::build(const BaselineLevel& level) const {
  InsertParams params{table_of(level), static_cast<const u64*>(level.keys.get()),
                      static_cast<i32>(level.count)};
  if (gpu_) {
    MINUET_TRY(gpu_->fill_words(params.table.keys, 0xffffffffU, 2 * level.slots));
    MINUET_TRY(gpu_->fill_words(params.table.claims, 0, level.slots));
    return gpu_->launch(insert_, (level.count + insert_.threads - 1) / insert_.threads, &params);
  }
  on_all_cores(level.slots, [&](int64_t first, int64_t end) {
    std::fill(params.table.keys + first, params.table.keys + end, study::kEmptyKey);
    std::fill(params.table.claims + first, params.table.claims + end, 0U);
  });
  on_all_cores(level.count, [&](int64_t first, int64_t end) {
    const auto claim = [](u32* address) { return __atomic_fetch_add(address, 1U, __ATOMIC_RELAXED); };
    for (int64_t i = first; i < end; ++i)
      study::insert_key(params.table, params.keys[i], static_cast<i32>(i), claim);
  });
  return llvm::Error::success();
}

llvm::Error Baseline::query(const BaselineMap& map, const BaselineLevel& sources,
                            const BaselineLevel& queries, bool by_hash) const {
  QueryParams params{table_of(sources),
                     static_cast<const u64*>(sources.sorted.get()),
                     static_cast<i32>(sources.count),
                     static_cast<const u64*>((by_hash ? queries.keys : queries.sorted).get()),
                     static_cast<i32>(queries.count),
                     static_cast<const u64*>(map.deltas.get()),
                     map.volume,
                     static_cast<i32*>(map.map.get()),
                     static_cast<u32*>(map.counts.get())};
  if (gpu_) {
    MINUET_TRY(gpu_->fill_words(params.counts, 0, map.volume));
    const GpuKernel& kernel = by_hash ? query_hash_ : query_sorted_;
    const int64_t blocks = (queries.count + kernel.threads - 1) / kernel.threads;
    return gpu_->launch(kernel, map.volume * blocks, &params);
  }
  std::fill(params.counts, params.counts + map.volume, 0U);
  on_all_cores(map.volume * queries.count, [&](int64_t first, int64_t end) {
    while (first < end) {
      const int64_t k = first / queries.count, stop = std::min(end, (k + 1) * queries.count);
      u32 hits = 0;
      for (; first < stop; ++first) {
        const u64 key = params.queries[first - k * queries.count] + params.deltas[k];
        const i32 row = by_hash ? study::find_in_table(params.table, key)
                                : study::find_sorted(params.sources, params.source_count, key);
        params.map[first] = row;
        hits += row >= 0 ? 1 : 0;
      }
      __atomic_fetch_add(params.counts + k, hits, __ATOMIC_RELAXED);
    }
  });
  return llvm::Error::success();
}

llvm::Expected<double> Baseline::milliseconds(llvm::function_ref<llvm::Error()> work) const {
  if (gpu_) return gpu_->milliseconds(work);
  const Clock::time_point start = Clock::now();
  MINUET_TRY(work());
  return milliseconds_since(start);
}

llvm::Expected<int64_t> Baseline::pairs(const BaselineMap& map) const {
  MINUET_TRY(check(minuet_device_synchronize(bench_.device(), nullptr)));
  std::vector<u32> counts(static_cast<size_t>(map.volume));
  MINUET_TRY(map.counts.download(counts.data()));
  int64_t pairs = 0;
  for (const u32 count : counts) pairs += count;
  return pairs;
}

}  // namespace minuet::tool
