// The kernels that the shim runs whole (tests/kernels_templates/cluster_test.cc, mma_test.cc), on a GPU:
// clusters, mbarriers, bulk copies, tensor cores, and more shared memory than 48 KB.
#include <gtest/gtest.h>

#include <vector>

#include "codegen/compiler.h"
#include "runtime/cuda/driver.h"
#include "tests/kernels_templates/gemm_problem.h"
#include "tests/kernels_templates/gemm_source.h"
#include "tests/runtime/cuda/driver_function.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

/// Fails the test with the driver's words.
bool works(const Driver& driver, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return true;
  ADD_FAILURE() << llvm::toString(driver_error(driver, result, call));
  return false;
}

/// Memory of the current context, with `words` in it.
class Words {
 public:
  Words(const Driver& driver, const std::vector<u32>& words) : driver_(driver), count_(words.size()) {
    works(driver_, driver_.cuMemAlloc(&address_, 4 * count_), "cuMemAlloc");
    works(driver_, driver_.cuMemcpyHtoDAsync(address_, words.data(), 4 * count_, nullptr),
          "cuMemcpyHtoDAsync");
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words() { static_cast<void>(driver_.cuMemFree(address_)); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(address_);
  }
  std::vector<float> read() const {
    std::vector<float> values(count_);
    works(driver_, driver_.cuMemcpyDtoHAsync(values.data(), address_, 4 * count_, nullptr),
          "cuMemcpyDtoHAsync");
    works(driver_, driver_.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
    return values;
  }

 private:
  const Driver& driver_;
  std::size_t count_;
  CUdeviceptr address_ = 0;
};

class ClusterTest : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<const Driver*> driver = Driver::get();
    if (!driver) MINUET_SKIP_OR_FAIL("gpu", llvm::toString(driver.takeError()));
    driver_ = *driver;
    llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
    if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
    compiler_ = *compiler;
    ASSERT_TRUE(works(*driver_, driver_->cuDeviceGet(&device_, 0), "cuDeviceGet"));
    ASSERT_TRUE(
        works(*driver_, driver_->cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain"));
    ASSERT_TRUE(works(*driver_, driver_->cuCtxPushCurrent(context_), "cuCtxPushCurrent"));
    driver_->cuDeviceGetAttribute(&major_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_);
    driver_->cuDeviceGetAttribute(&minor_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device_);
  }
  void TearDown() override {
    if (context_ == nullptr) return;
    CUcontext ours = nullptr;
    static_cast<void>(driver_->cuCtxPopCurrent(&ours));
    static_cast<void>(driver_->cuDevicePrimaryCtxRelease(device_));
  }

  template <class Spec>
  void expect_right(const Spec& spec, u64 seed, i32 rows, i32 steps, int cluster);
  void launch(CUfunction function, const GemmParams& params, CUlaunchConfig config, int cluster);

  const Driver* driver_ = nullptr;
  std::shared_ptr<Compiler> compiler_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  int major_ = 0, minor_ = 0;
};

void ClusterTest::launch(CUfunction function, const GemmParams& params, CUlaunchConfig config, int cluster) {
  const auto set = driver_function<decltype(&::cuFuncSetAttribute)>("cuFuncSetAttribute");
  ASSERT_NE(set, nullptr);
  ASSERT_TRUE(works(
      *driver_,
      set(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(config.sharedMemBytes)),
      "cuFuncSetAttribute"));
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = major_ >= 9 ? 1 : 0;
  void* arguments[] = {const_cast<GemmParams*>(&params)};
  ASSERT_TRUE(
      works(*driver_, driver_->cuLaunchKernelEx(&config, function, arguments, nullptr), "cuLaunchKernelEx"));
}

template <class Spec>
void ClusterTest::expect_right(const Spec& spec, u64 seed, i32 rows, i32 steps, int cluster) {
  const bool few = on_software_device();
  if (few) rows = std::min(rows, 70), steps = std::min(steps, 9);
  const KernelSource source = source_of(MINUET_SOURCE_DIR, spec);
  SCOPED_TRACE(source.name_expression);
  const std::string arch = "sm_" + std::to_string(major_) + std::to_string(minor_) + (major_ >= 9 ? "a" : "");
  llvm::Expected<Binary> binary = compiler_->compile(source, arch, "0123456789abcdef", {});
  ASSERT_TRUE(static_cast<bool>(binary)) << llvm::toString(binary.takeError());
  CUlibrary library = nullptr;
  ASSERT_TRUE(works(
      *driver_,
      driver_->cuLibraryLoadData(&library, binary->cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      "cuLibraryLoadData"));
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  ASSERT_TRUE(works(*driver_, driver_->cuLibraryGetKernel(&kernel, library, binary->lowered_name.c_str()),
                    "cuLibraryGetKernel"));
  ASSERT_TRUE(works(*driver_, driver_->cuKernelGetFunction(&function, kernel), "cuKernelGetFunction"));

  const GemmProblem problem = random_gemm(seed, spec.io, rows, spec.columns, steps, spec.step_words);
  {
    const Words a(*driver_, problem.a), b(*driver_, problem.b);
    const Words out(*driver_, std::vector<u32>(problem.expected.size(), 0xffffffffu));
    CUlaunchConfig config = {};
    config.gridDimX =
        static_cast<unsigned>((rows + gemm_tile_rows(spec) - 1) / gemm_tile_rows(spec) * cluster);
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = static_cast<unsigned>(gemm_threads(spec));
    config.sharedMemBytes = static_cast<unsigned>(gemm_shared_bytes(spec));
    launch(function, {a.as<const u32>(), b.as<const u32>(), out.as<float>(), rows, steps}, config, cluster);
    const std::vector<float> first = out.read();
    EXPECT_LE(worst_error(problem, first), kGemmBound) << "problem " << seed;
    // The cluster's sums are added in the order of its ranks, however its blocks run.
    for (int again = 0; again < (few ? 1 : 20); ++again) {
      launch(function, {a.as<const u32>(), b.as<const u32>(), out.as<float>(), rows, steps}, config, cluster);
      ASSERT_EQ(out.read(), first) << "launch " << again;
    }
  }
  works(*driver_, driver_->cuLibraryUnload(library), "cuLibraryUnload");
}

TEST_F(ClusterTest, ClusterGemm) {
  if (major_ < 9) GTEST_SKIP() << "clusters and bulk copies come with sm_90";
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) {
    if (on_software_device() && io != DType::F16) continue;  // the shim's own tests have all three
    // 64 KB of stages, more steps than stages, and a last tile that is not full.
    const ClusterGemmSpec large{.io = io, .warps = 4, .columns = 64, .step_words = 64, .stages = 4};
    static_assert(
        gemm_shared_bytes(ClusterGemmSpec{.warps = 4, .columns = 64, .step_words = 64, .stages = 4}) > 49152);
    expect_right(large, 41, 1000, 27, large.cluster);
    ClusterGemmSpec four = large;
    four.cluster = 4;
    expect_right(four, 42, 300, 50, four.cluster);
    expect_right(ClusterGemmSpec{.io = io, .stages = 2}, 43, 5000, 9, 2);
    expect_right(ClusterGemmSpec{.io = io, .columns = 8, .cluster = 1}, 44, 33, 1, 1);
  }
}

TEST_F(ClusterTest, StagedGemm) {
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) {
    if (on_software_device() && io != DType::F16) continue;  // the shim's own tests have all three
    expect_right(StagedGemmSpec{.io = io, .warps = 4, .columns = 64, .step_words = 32, .stages = 4}, 45, 1000,
                 17, 1);
    expect_right(StagedGemmSpec{.io = io, .warps = 1, .columns = 8, .stages = 2}, 46, 70, 3, 1);
  }
}

}  // namespace
}  // namespace minuet
