// Loading on a real driver: nothing is left for the first launch, and a refused cubin is replaced.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>

#include "codegen/cache/kernel_cache.h"
#include "runtime/cuda/cuda_engine.h"
#include "runtime/plan/compiled_plan.h"
#include "tests/runtime/cuda/driver_function.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

constexpr i32 kNdim = 3, kFields = 1 + kNdim;
constexpr i64 kRows = 5000;

EngineChoice engine_choice() {
  return {kNdim, choose_map(KeyType::U32, kNdim), choose_map(KeyType::U64, kNdim)};
}

std::vector<KernelSource> all_sources() {
  std::vector<KernelSource> sources = sources_of(engine_choice().map32);
  for (KernelSource& source : sources_of(engine_choice().map64)) sources.push_back(std::move(source));
  sources.push_back(emit(choose_permute_coordinates(kNdim)));
  return sources;
}

/// A GPU of each test's own: opened anew, nothing loaded.
class LoadTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    device_ = take(CudaDevice::open(0));
    static KernelCache* const cache = take(KernelCache::create({}, take(open_nvrtc()))).release();
    cache_ = cache;
  }
  BinaryList compile(const std::vector<KernelSource>& sources) {
    return take(cache_->get_or_compile_all(requests_of(sources, device_->info().arch)));
  }

  std::shared_ptr<CudaDevice> device_;
  KernelCache* cache_ = nullptr;
};

/// Coordinates in a small box, some twice: build_coords sorts them and makes them unique.
struct Cloud {
  explicit Cloud(u64 seed) {
    Random random(seed);
    for (i64 i = 0; i < kRows * kFields; ++i) {
      coordinates.push_back(i % kFields == 0 ? 0 : static_cast<i32>(random.between(-20, 20)));
    }
    for (i64 i = 0; i < kRows; ++i) {
      unique.emplace_back(&coordinates[i * kFields], &coordinates[i * kFields] + kFields);
    }
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  }
  std::vector<i32> coordinates;
  std::vector<std::vector<i32>> unique;
};

/// A pass of the Map step, in memory that is there before it is enqueued.
class MapPass {
 public:
  MapPass(CudaDevice& device, const Cloud& cloud)
      : engine_(take(device.create_engine(engine_choice(), nullptr))),
        cloud_(cloud),
        input_(device, cloud.coordinates),
        keys_(device, kRows * 4),
        count_(device, 4),
        status_(device, 4),
        points_(device, 4),
        layout_(device, static_cast<i64>(sizeof(CloudLayout))),
        output_(device, kRows * kFields * 4),
        workspace_(device, engine_->maps().workspace_bytes(limits())) {}

  void enqueue(CUstream stream) {
    take(engine_->begin(stream));
    take(engine_->maps().begin(limits(), workspace_.as()));
    BuildCoordsRequest request;
    request.coordinates = input_.as<i32>();
    Bounds bounds;
    for (i32 f = 1; f < kFields; ++f) bounds.least[f] = -20, bounds.greatest[f] = 20;
    LayoutRequest laying;
    laying.most = kRows;
    laying.declared = &bounds;
    laying.key_bits = limits().key_bits;
    laying.cloud = {status_.as<u32>(), points_.as<i32>(), nullptr, layout_.as<CloudLayout>()};
    take(engine_->maps().find_layout(laying));
    request.count = points_.as<i32>();
    request.most = kRows;
    request.layout = layout_.as<CloudLayout>();
    request.coords = {keys_.as(), count_.as<i32>(), kRows, limits().key()};
    request.status = status_.as<u32>();
    take(engine_->maps().build_coords(request));
    take(engine_->maps().unpack(request.coords, request.layout, output_.as<i32>()));
  }

  void check() {
    const std::vector<i32> found = output_.read<i32>();
    ASSERT_EQ(count_.read_first<i32>(), static_cast<i32>(cloud_.unique.size()));
    for (std::size_t i = 0; i < cloud_.unique.size(); ++i) {
      ASSERT_TRUE(std::equal(cloud_.unique[i].begin(), cloud_.unique[i].end(), &found[i * kFields]))
          << "row " << i;
    }
  }

 private:
  static MapLimits limits() { return {32, kRows, 1, 0, 1}; }

  std::unique_ptr<Engine> engine_;
  const Cloud& cloud_;
  TestBuffer input_, keys_, count_, status_, points_, layout_, output_, workspace_;
};

/// Alone in its process: no kernel of ours has run before.
TEST_F(LoadTest, R26_TheFirstLaunchMayBeCaptured) {
  const Driver& driver = device_->driver();
  const ContextScope scope(driver, device_->context());
  CUstream stream = nullptr;
  ASSERT_EQ(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  take(device_->load(compile(all_sources()), {}));
  const Cloud cloud(101);
  MapPass pass(*device_, cloud);
  {
    const CapturedGraph graph(stream, [&] { pass.enqueue(stream); });
    ASSERT_TRUE(graph.whole());
    for (int replay = 0; replay < 2; ++replay) {
      ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
      take(device_->synchronize(stream));
      pass.check();
    }
  }
  EXPECT_EQ(driver.cuStreamDestroy(stream), CUDA_SUCCESS);
}

/// A cubin of an architecture that this GPU does not run, under the right one's name.
TEST_F(LoadTest, R28_ACubinOfAnotherGpuIsReplaced) {
  const std::string arch = device_->info().arch;
  const std::string other = arch.substr(0, 4) == "sm_8" ? "sm_90" : "sm_80";
  const std::vector<KernelSource> sources = all_sources();
  BinaryList binaries = compile(sources);
  const BinaryList foreign =
      take(cache_->get_or_compile_all(requests_of({sources.front(), sources.back()}, other)));
  Binary first = *foreign[0], last = *foreign[1];
  first.arch = last.arch = arch;
  const BinaryList good{binaries.front(), binaries.back()};
  binaries.front() = std::make_shared<const Binary>(first);
  binaries.back() = std::make_shared<const Binary>(last);

  const StatusError refused = take_status(device_->load(binaries, {}));
  std::cout << "the driver: " << refused.message() << "\n";
  EXPECT_EQ(refused.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(refused.message(), testing::HasSubstr("CUDA_ERROR_"));

  std::vector<std::string> asked;
  const Reload reload = [&](const Binary& binary) -> llvm::Expected<std::shared_ptr<const Binary>> {
    asked.push_back(binary.display_name);
    return good[asked.size() - 1];
  };
  take(device_->load(binaries, reload));
  EXPECT_EQ(asked, (std::vector<std::string>{first.display_name, last.display_name}));
  const Cloud cloud(102);
  MapPass pass(*device_, cloud);
  pass.enqueue(nullptr);
  take(device_->synchronize(nullptr));
  pass.check();
}

/// PTX of sm_80, the oldest GPU that we run on.
TEST_F(LoadTest, R23_TheDriverCompilesPtx) {
  const std::shared_ptr<Compiler> compiler = take(open_nvrtc());
  BinaryList binaries;
  for (const KernelSource& source : all_sources()) {
    binaries.push_back(std::make_shared<const Binary>(take(compiler->compile({source, "compute_80"}, {}))));
  }
  take(device_->load(binaries, {}));
  const Cloud cloud(104);
  MapPass pass(*device_, cloud);
  pass.enqueue(nullptr);
  take(device_->synchronize(nullptr));
  pass.check();
}

TEST_F(LoadTest, R28_ASecondRefusalSaysWhatToDo) {
  const std::string arch = device_->info().arch;
  const std::string other = arch.substr(0, 4) == "sm_8" ? "sm_90" : "sm_80";
  const std::shared_ptr<const Binary> foreign =
      take(cache_->get_or_compile({emit(choose_permute_coordinates(kNdim)), other}));
  int asked = 0;
  const StatusError error = take_status(
      device_->load({foreign}, [&](const Binary&) -> llvm::Expected<std::shared_ptr<const Binary>> {
        ++asked;
        return foreign;
      }));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(error.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(error.message(), testing::HasSubstr("even after it was compiled again"));
}

/// Two CudaDevices of one GPU, as two contexts of libminuet have them, in turn and at once.
TEST_F(LoadTest, R25_LibrariesOutliveTheirFirstDevice) {
  const BinaryList binaries = compile(all_sources());
  const std::set<std::shared_ptr<const Binary>> kernels(binaries.begin(),
                                                        binaries.end());  // lists repeat some
  const std::size_t before = LibraryRegistry::process().size();
  take(device_->load(binaries, {}));
  EXPECT_EQ(LibraryRegistry::process().size(), before + kernels.size());
  std::shared_ptr<CudaDevice> second = take(CudaDevice::open(0));
  take(second->load(binaries, {}));
  EXPECT_EQ(LibraryRegistry::process().size(), before + kernels.size());
  device_.reset();
  const Cloud cloud(103);
  {
    MapPass pass(*second, cloud);
    pass.enqueue(nullptr);
    take(second->synchronize(nullptr));
    pass.check();
  }
  second.reset();
  EXPECT_EQ(LibraryRegistry::process().size(), before);
}

}  // namespace
}  // namespace minuet
