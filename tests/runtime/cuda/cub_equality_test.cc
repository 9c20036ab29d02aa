// Our sort and scan, compiled by NVRTC, against CUB's own as nvcc builds them (R37): equal, and timed.
//
// Times are printed, and written as JSON where MINUET_CUB_TIMES names a file; no test fails for one.
#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "runtime/cuda/launch_grid.h"
#include "runtime/cuda/map_step.h"
#include "tests/cases/convolution_cases.h"
#include "tests/runtime/cuda/cub_oracle.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"

namespace minuet {
namespace {

constexpr i64 kLargest = i64{1} << 28;
constexpr i64 kRoomForLargest = i64{32} << 30;  // of the GPU: both sorts of the largest need 16 GiB
constexpr i64 kSpare = 5000;                    // more room than items, as the Map step has

/// The shared library beside this program, or where MINUET_CUB_ORACLE says.
struct Oracle {
  decltype(&cub_oracle_sort) sort = nullptr;
  decltype(&cub_oracle_scan) scan = nullptr;
  decltype(&cub_oracle_draw) draw = nullptr;
  decltype(&cub_oracle_compare) compare = nullptr;
  std::string reason;

  static const Oracle& get() {
    static const auto* const oracle = new Oracle;
    return *oracle;
  }

 private:
  Oracle() {
    const char* given = std::getenv("MINUET_CUB_ORACLE");
    const std::string path =
        given ? given
              : (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libminuet_cub_oracle.so")
                    .string();
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* error = dlerror();
      reason = "the CUB oracle is not here (it is built where there is nvcc): " +
               std::string(error ? error : path);
      return;
    }
    sort = reinterpret_cast<decltype(sort)>(dlsym(library, "cub_oracle_sort"));
    scan = reinterpret_cast<decltype(scan)>(dlsym(library, "cub_oracle_scan"));
    draw = reinterpret_cast<decltype(draw)>(dlsym(library, "cub_oracle_draw"));
    compare = reinterpret_cast<decltype(compare)>(dlsym(library, "cub_oracle_compare"));
    if (!sort || !scan || !draw || !compare) reason = path + " is another version's";
  }
};

/// Device memory that is not poisoned: the largest is gigabytes.
class Room {
 public:
  Room(CudaDevice& device, i64 bytes)
      : memory_(take(DeviceMemory::create(device.shared_from_this(), std::max<i64>(bytes, 1)))) {}
  template <class T = void>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  DeviceMemory memory_;
};

struct Timing {
  std::string what;
  i64 items;
  double ours, cub;  // milliseconds, the median
};

class CubTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (!Oracle::get().reason.empty()) GTEST_SKIP() << Oracle::get().reason;
    gpu().load_map(3);
    scope_ = std::make_unique<ContextScope>(device().driver(), device().context());
    const std::shared_ptr<CudaDevice> shared = device().shared_from_this();
    launcher_ = take(Launcher::create(shared, take(SideStreams::create(shared))));
    take(launcher_->begin(nullptr));
    for (CUevent& event : events_) {
      ASSERT_EQ(device().driver().cuEventCreate(&event, CU_EVENT_DEFAULT), CUDA_SUCCESS);
    }
  }
  void TearDown() override {
    for (CUevent event : events_) {
      if (event) static_cast<void>(device().driver().cuEventDestroy(event));
    }
    launcher_.reset();
    scope_.reset();
    write_timings();
  }

  std::vector<i64> sizes(const std::vector<i64>& tiles) const {
    std::vector<i64> sizes{0, 1, 2, 31, 100000, 1000000, i64{1} << 24};
    for (const i64 tile : tiles) sizes.insert(sizes.end(), {tile - 1, tile, tile + 1});
    if (device_bytes() >= kRoomForLargest) {
      sizes.push_back(kLargest);
    } else {
      std::cout << "2^28 items are left out: the GPU has " << device_bytes() << " bytes\n";
    }
    return sizes;
  }
  i64 device_bytes() const { return Gpu::get().device->info().memory_bytes; }

  void expect_equal(const void* ours, const void* cub, i64 bytes) {
    const Room first(device(), 8);
    take(launcher_->fill(first.as(), 0xffffffffu, 2));
    ASSERT_EQ(Oracle::get().compare(static_cast<const u32*>(ours), static_cast<const u32*>(cub), bytes / 4,
                                    first.as<std::uint64_t>(), nullptr),
              0);
    take(device().synchronize(nullptr));
    u64 index = 0;
    take(device().download(&index, first.as(), 8));
    EXPECT_EQ(index, ~u64{0}) << "the first word that differs, of " << bytes / 4;
  }

  /// The median time of `run`, after `prepare` each time.
  template <class Prepare, class Run>
  double time(i64 items, const Prepare& prepare, const Run& run) {
    const Driver& driver = device().driver();
    std::vector<float> times(items >= kLargest ? 5 : 11);
    for (int warm_up = 0; warm_up < 2; ++warm_up) prepare(), run();
    for (float& milliseconds : times) {
      prepare();
      EXPECT_EQ(driver.cuEventRecord(events_[0], nullptr), CUDA_SUCCESS);
      run();
      EXPECT_EQ(driver.cuEventRecord(events_[1], nullptr), CUDA_SUCCESS);
      EXPECT_EQ(driver.cuEventSynchronize(events_[1]), CUDA_SUCCESS);
      EXPECT_EQ(driver.cuEventElapsedTime(&milliseconds, events_[0], events_[1]), CUDA_SUCCESS);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

  void check_sort(KeyType key, bool rows, i64 count, i32 begin_bit, i32 end_bit, u64 mask, bool timed);
  void check_scan(ScanInput input, i64 count, bool timed);

  void report(const std::string& what, i64 items, double ours, double cub) {
    std::cout << what << ", " << items << " items: " << ours << " ms, CUB " << cub << " ms, ratio "
              << (cub > 0 ? ours / cub : 0) << "\n";
    timings().push_back({what, items, ours, cub});
  }
  static std::vector<Timing>& timings() {
    static auto* const all = new std::vector<Timing>;
    return *all;
  }
  static void write_timings() {
    const char* path = std::getenv("MINUET_CUB_TIMES");
    if (!path) return;
    std::ofstream file(path);
    file << "[";
    for (std::size_t i = 0; i < timings().size(); ++i) {
      const Timing& timing = timings()[i];
      file << (i ? ",\n " : "\n ") << "{\"what\": \"" << timing.what << "\", \"items\": " << timing.items
           << ", \"ours_ms\": " << timing.ours << ", \"cub_ms\": " << timing.cub << "}";
    }
    file << "\n]\n";
    EXPECT_TRUE(file.good()) << path;
  }

  std::unique_ptr<ContextScope> scope_;
  std::unique_ptr<Launcher> launcher_;
  CUevent events_[2] = {};
};

/// Memory of one sort: two halves of keys and rows, and our state.
struct SortRoom {
  SortRoom(CudaDevice& device, KeyType key, i64 capacity, i64 state_bytes)
      : keys{Room(device, capacity * key_bytes(key)), Room(device, capacity * key_bytes(key))},
        rows{Room(device, capacity * 4), Room(device, capacity * 4)},
        state(device, state_bytes) {}
  Room keys[2], rows[2], state;
};

void CubTest::check_sort(KeyType key, bool with_rows, i64 count, i32 begin_bit, i32 end_bit, u64 mask,
                         bool timed) {
  SCOPED_TRACE(testing::Message() << 8 * key_bytes(key) << "-bit keys, rows " << with_rows << ", " << count
                                  << " items, bits " << begin_bit << " to " << end_bit << ", mask " << mask);
  const u64 seed = 1000 + static_cast<u64>(count);
  const SortKernels kernels =
      take(MapKernels::create(device(), choose_map(key, 3))).sort(with_rows, count + kSpare);
  const i64 capacity = count + kSpare, tiles = radix_tiles(kernels.pass_spec, capacity);
  const i64 bins = i64{kMaxRadixPasses} * kRadixBins * 4, tickets = 256;
  const i64 state_bytes = bins + tickets + radix_passes(end_bit - begin_bit) * tiles * kRadixBins * 4;
  const SortRoom ours(device(), key, capacity, state_bytes), cub(device(), key, capacity, 1);
  const TestBuffer device_count(device(), std::vector<i32>{static_cast<i32>(count)});

  const auto draw = [&](const SortRoom& room) {
    ASSERT_EQ(Oracle::get().draw(room.keys[0].as(), static_cast<int>(key_bytes(key)),
                                 with_rows ? room.rows[0].as<u32>() : nullptr, count, mask, seed, nullptr),
              0);
  };
  i32 half = 0;
  const auto run_ours = [&] {
    char* const state = ours.state.as<char>();
    take(launcher_->fill(state, 0, state_bytes / 4));
    const SortMemory memory{
        {ours.keys[0].as(), ours.keys[1].as()},
        {with_rows ? ours.rows[0].as<u32>() : nullptr, with_rows ? ours.rows[1].as<u32>() : nullptr},
        {reinterpret_cast<u32*>(state), reinterpret_cast<u32*>(state + bins),
         reinterpret_cast<u32*>(state + bins + tickets)},
        tiles};
    take(enqueue_sort(*launcher_, kernels, {device_count.as<i32>(), capacity, begin_bit, end_bit}, memory,
                      half));
  };
  CubSort problem = {
      {cub.keys[0].as(), cub.keys[1].as()},
      {with_rows ? cub.rows[0].as<u32>() : nullptr, with_rows ? cub.rows[1].as<u32>() : nullptr},
      count,
      static_cast<int>(key_bytes(key)),
      begin_bit,
      end_bit};
  std::size_t bytes = 0;
  int cub_half = 0;
  ASSERT_EQ(Oracle::get().sort(&problem, nullptr, &bytes, &cub_half, nullptr), 0);
  const Room scratch(device(), static_cast<i64>(bytes));
  const auto run_cub = [&] {
    ASSERT_EQ(Oracle::get().sort(&problem, scratch.as(), &bytes, &cub_half, nullptr), 0);
  };

  draw(ours), draw(cub);
  run_ours(), run_cub();
  expect_equal(ours.keys[half].as(), cub.keys[cub_half].as(), count * key_bytes(key));
  if (with_rows) expect_equal(ours.rows[half].as(), cub.rows[cub_half].as(), count * 4);
  if (!timed || HasFailure()) return;
  const double our_time = time(
      count, [&] { draw(ours); }, run_ours);
  const double cub_time = time(
      count, [&] { draw(cub); }, run_cub);
  report("sort u" + std::to_string(8 * key_bytes(key)) + (with_rows ? " with rows" : " keys only") +
             ", bits " + std::to_string(begin_bit) + " to " + std::to_string(end_bit),
         count, our_time, cub_time);
}

TEST_F(CubTest, R37_SortIsEqualToCubs) {
  std::vector<i64> tiles;
  for (KeyType key : {KeyType::U32, KeyType::U64}) {
    const MapChoice choice = choose_map(key, 3);
    for (const RadixPassChoice& pass : {choice.radix_pass_rows, choice.radix_pass_keys}) {
      const i64 tile = static_cast<i64>(pass.small.threads) * pass.small.items_per_thread;
      const i64 large = static_cast<i64>(pass.large.threads) * pass.large.items_per_thread;
      tiles.insert(tiles.end(), {tile, kLargeSort / large * large + large});
    }
  }
  struct Range {
    i32 begin, end;
  };
  for (i64 count : sizes(tiles)) {
    for (KeyType key : {KeyType::U32, KeyType::U64}) {
      const i32 all = 8 * static_cast<i32>(key_bytes(key));
      for (const Range& range : {Range{0, all}, {0, 17}, {8, 24}, {5, 6}, {3, all - 2}, {all - 1, all}}) {
        // The largest takes long: the whole key, and one range with a narrow last digit.
        if (count == kLargest && range.end != all && range.end != 17) continue;
        for (bool rows : {true, false}) {
          const bool timed = count >= 100000 && (range.end - range.begin == all || range.end == 17);
          check_sort(key, rows, count, range.begin, range.end, ~u64{0}, timed);
          // Few distinct keys: equal ones keep their order.
          if (count <= 1000000) check_sort(key, rows, count, range.begin, range.end, 0x2100000021u, false);
          if (HasFailure()) return;
        }
      }
    }
  }
}

void CubTest::check_scan(ScanInput input, i64 count, bool timed) {
  SCOPED_TRACE(testing::Message() << "input " << static_cast<i32>(input) << ", " << count << " items");
  const MapChoice choice = choose_map(input == ScanInput::Heads64 ? KeyType::U64 : KeyType::U32, 3);
  const MapKernels kernels = take(MapKernels::create(device(), choice));
  const bool heads = input == ScanInput::Heads32 || input == ScanInput::Heads64,
             hits = input == ScanInput::Hits;
  const ScanSpec& spec = heads ? choice.scan_heads : hits ? choice.scan_hits : choice.scan_values;
  const Kernel<ScanParams>& kernel = heads  ? kernels.scan_heads
                                     : hits ? kernels.scan_hits
                                            : kernels.scan_values;
  ASSERT_EQ(spec.input, input);
  const int bytes_each = input == ScanInput::Heads64 ? 8 : 4;
  const i64 capacity = count + kSpare, state_bytes = scan_state_bytes(spec, capacity);
  const Room values(device(), (count + 1) * bytes_each), state(device(), state_bytes);
  const Room ours(device(), (capacity + 1) * 4), cub(device(), (count + 1) * 4);
  const TestBuffer device_count(device(), std::vector<i32>{static_cast<i32>(count)});
  // Few values, so that runs are long and the sum stays small; every other number is negative for Hits.
  const u64 mask = hits ? 0x80000003u : 3u;
  ASSERT_EQ(Oracle::get().draw(values.as(), bytes_each, nullptr, count, mask, 7, nullptr), 0);
  take(launcher_->fill(values.as<char>() + count * bytes_each, 0, bytes_each / 4));

  const auto run_ours = [&] {
    const PrepareScansParams prepare{state.as(), state_bytes, 1, nullptr, 0};
    take(launcher_->launch_stride(kernels.prepare_scans, state_bytes / kScanTileBytes, prepare));
    const ScanParams params{values.as(), device_count.as<i32>(), 1, 1, 0, ours.as<i32>(), state.as()};
    take(launcher_->launch(kernel, scan_tiles(spec, capacity), params));
  };
  const CubScan problem = {static_cast<int>(input), values.as(), count, cub.as<i32>()};
  std::size_t bytes = 0;
  ASSERT_EQ(Oracle::get().scan(&problem, nullptr, &bytes, nullptr), 0);
  const Room scratch(device(), static_cast<i64>(bytes));
  const auto run_cub = [&] { ASSERT_EQ(Oracle::get().scan(&problem, scratch.as(), &bytes, nullptr), 0); };
  run_ours(), run_cub();
  expect_equal(ours.as(), cub.as(), (count + 1) * 4);
  if (!timed || HasFailure()) return;
  const double our_time = time(
                   count, [] {}, run_ours),
               cub_time = time(
                   count, [] {}, run_cub);
  static const char* const names[] = {"heads of u32", "heads of u64", "hits", "values"};
  report(std::string("scan of ") + names[static_cast<i32>(input)], count, our_time, cub_time);
}

TEST_F(CubTest, R37_ScanIsEqualToCubs) {
  const MapChoice choice = choose_map(KeyType::U32, 3);
  const i64 tile = static_cast<i64>(choice.scan_values.threads) * choice.scan_values.items_per_thread;
  for (i64 count : sizes({tile})) {
    for (ScanInput input : {ScanInput::Heads32, ScanInput::Heads64, ScanInput::Hits, ScanInput::Values}) {
      check_scan(input, count, count >= 100000);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace minuet
