// The software NVRTC as the library opens it: every kernel compiles, and what it compiles runs.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "codegen/base/elf.h"
#include "codegen/compile/compiler.h"
#include "tests/codegen/fakes.h"
#include "tests/support/random.h"
#include "tests/support/shim/shim.h"
#include "tests/support/software_cuda/cubin.h"

namespace minuet::software_cuda {
namespace {

using testing::HasSubstr;

std::shared_ptr<Compiler> open() {
  return llvm::cantFail(open_nvrtc(SOFTWARE_CUDA_FOLDER "/libnvrtc.so.13"));
}

Binary compile(const KernelSource& source, const char* arch = "sm_90a") {
  llvm::Expected<Binary> binary = open()->compile({source, arch}, {});
  if (binary) return *binary;
  const StatusError status = take_status(binary.takeError());
  ADD_FAILURE() << status.message() << "\n" << status.detail();
  return {};
}

StatusError failure(const KernelSource& source, const char* arch = "sm_90a") {
  llvm::Expected<Binary> binary = open()->compile({source, arch}, {});
  EXPECT_FALSE(binary);
  return binary ? StatusError(StatusCode::Internal, "") : take_status(binary.takeError());
}

KernelSource probe(const std::string& text) {
  KernelSource source = make_source("probe", text);
  source.name_expression = "probe<1>";
  return source;
}

/// A kernel's entry, its library loaded for good; its names are found in this program.
Entry load_entry(const Binary& binary) {
  static void* const libcuda = ::dlopen(SOFTWARE_CUDA_FOLDER "/link/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(libcuda, nullptr) << ::dlerror();
  const std::optional<Cubin> cubin = unwrap(binary.cubin.c_str());
  if (!cubin) return nullptr;
  const TemporaryFolder folder;
  write_text(folder / "kernel.so", cubin->library);
  void* const library = ::dlopen((folder / "kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return library != nullptr ? reinterpret_cast<Entry>(::dlsym(library, kEntry)) : nullptr;
}

template <class Spec>
void expect_row(const char* name, int threads) {
  SCOPED_TRACE(name);
  const Binary binary = compile(emit(Spec{}));
  std::printf("%-48s %7zu bytes %6.0f ms\n", binary.display_name.c_str(), binary.cubin.size(),
              binary.compile_ms);
  EXPECT_EQ(binary.params_bytes, static_cast<int>(sizeof(typename KernelRow<Spec>::Params)));
  if constexpr (requires(Spec spec) { spec.threads; }) {
    EXPECT_EQ(binary.max_threads, threads);
  } else {
    EXPECT_GE(binary.max_threads, threads);
  }
  EXPECT_THAT(binary.lowered_name, HasSubstr(std::to_string(std::string(name).size()) + name));
  EXPECT_EQ(binary.log, "");
  const CubinFacts facts = llvm::cantFail(read_cubin(binary.cubin, binary.lowered_name));
  EXPECT_EQ(facts.sm, 90);
  EXPECT_NE(load_entry(binary), nullptr);
}

TEST(SoftwareNvrtc, EveryKernelCompilesAndLoads) {
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) \
  expect_row<Spec>(#name, kernel_needs(Spec{}).threads);
#include "kernels_templates/kernels.inc"
}

TEST(SoftwareNvrtc, WhatItCompilesIsWhatItWasGiven) {
  constexpr i32 kBlocks = 3, kThreads = 64, kNdim = 2;
  const i32 least[kMaxFields] = {0, -8, -8}, greatest[kMaxFields] = {3, 7, 7};
  const i64 guard[kMaxDim] = {1, 1}, period[kMaxDim] = {1, 1};
  const CloudLayout layout = make_bounded_layout(kNdim, least, greatest, guard, period);
  constexpr i32 kCount = 500;
  Random random(3);
  std::vector<i32> coordinates;
  for (i32 i = 0; i < kCount; ++i) {
    coordinates.push_back(static_cast<i32>(random.below(4)));
    for (i32 a = 0; a < kNdim; ++a) coordinates.push_back(static_cast<i32>(random.between(-8, 7)));
  }
  std::vector<u32> keys(kCount, 0xcdcdcdcdu), rows(kCount, 0xcdcdcdcdu), expected;
  for (i32 i = 0; i < kCount; ++i)
    expected.push_back(pack_key<u32>(layout.keys, coordinates.data() + i * (kNdim + 1)));
  u32 status = 0;
  const i32 count = kCount;
  PackParams params{coordinates.data(), &count, &layout, keys.data(), rows.data(), &status};

  const Entry entry = load_entry(compile(emit(PackSpec{.ndim = kNdim, .threads = kThreads})));
  ASSERT_NE(entry, nullptr);
  const shim::Grid grid{.blocks = kBlocks, .threads = kThreads, .order = shim::Order::Shuffled};
  shim::run_grid(grid, [&] { entry(&params); });
  EXPECT_EQ(keys, expected);
  for (i32 i = 0; i < kCount; ++i) ASSERT_EQ(rows[static_cast<std::size_t>(i)], static_cast<u32>(i));
  EXPECT_EQ(status, 0u);
}

TEST(SoftwareNvrtc, BarriersAndSharedMemoryAreTheShims) {
  const KernelSource source = probe(
      "struct Params { const int* in; int* out; };\n"
      "template <int N> __global__ void __launch_bounds__(64) probe(const Params p) {\n"
      "  __shared__ int shared[64];\n  shared[threadIdx.x] = p.in[threadIdx.x] + N;\n  __syncthreads();\n"
      "  p.out[threadIdx.x] = shared[63 - threadIdx.x];\n}\n");
  const Binary binary = compile(source);
  EXPECT_EQ(binary.max_threads, 1024) << "it has no Spec";
  EXPECT_EQ(binary.params_bytes, 16);
  const Entry entry = load_entry(binary);
  ASSERT_NE(entry, nullptr);
  std::vector<int> in, out(64);
  for (int i = 0; i < 64; ++i) in.push_back(i * i);
  struct {
    const int* in;
    int* out;
  } params = {in.data(), out.data()};
  shim::run_grid({.blocks = 1, .threads = 64}, [&] { entry(&params); });
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], (63 - i) * (63 - i) + 1);
}

TEST(SoftwareNvrtc, EqualRequestsGiveEqualBytesInEveryThread) {
  const Binary first = compile(emit(GatherSpec{}));
  std::vector<Binary> binaries(4);
  std::vector<std::thread> threads;
  for (Binary& binary : binaries) threads.emplace_back([&] { binary = compile(emit(GatherSpec{})); });
  for (std::thread& thread : threads) thread.join();
  for (const Binary& binary : binaries) {
    EXPECT_EQ(binary.cubin, first.cubin);
    EXPECT_EQ(binary.lowered_name, first.lowered_name);
  }
  const Binary other = compile(emit(GatherSpec{.threads = 64}));
  EXPECT_NE(other.lowered_name, first.lowered_name);
  EXPECT_NE(other.cubin, first.cubin);
}

TEST(SoftwareNvrtc, PtxIsTextWithTheSameKernel) {
  const Binary code = compile(emit(PackSpec{}), "sm_90"), ptx = compile(emit(PackSpec{}), "compute_90");
  EXPECT_EQ(ptx.cubin.find('\0'), std::string::npos);
  EXPECT_THAT(ptx.cubin, HasSubstr("\n.target sm_90\n"));
  EXPECT_THAT(ptx.cubin, HasSubstr(".entry " + ptx.lowered_name + "("));
  const std::optional<Cubin> one = unwrap(code.cubin.c_str()), two = unwrap(ptx.cubin.c_str());
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->library, two->library);
  EXPECT_EQ(one->kernel, two->kernel);
}

TEST(SoftwareNvrtc, AnErrorNamesItsPlace) {
  const StatusError status =
      failure(probe("// one\ntemplate <int> __global__ void probe() {\n  int x = ;\n}\n"));
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              testing::AnyOf(HasSubstr("the kernel does not compile: expected primary-expression"),
                             HasSubstr("the kernel does not compile: expected expression")));
  EXPECT_THAT(status.detail(), HasSubstr("minuet_kernel.cu(3): error: "));
  EXPECT_THAT(status.detail(), HasSubstr(">     3 |   int x = ;"));
  EXPECT_THAT(status.detail(), HasSubstr("NVRTC_ERROR_COMPILATION"));
}

TEST(SoftwareNvrtc, AStaticAssertInAHeaderShowsTheHeader) {
  const StatusError status = failure(emit(GatherSpec{.channels = 65}));
  EXPECT_THAT(status.message(), testing::AllOf(testing::AnyOf(HasSubstr("static assertion failed"),
                                                              HasSubstr("static_assert failed")),
                                               HasSubstr("tile must divide channels")));
  EXPECT_THAT(status.detail(), HasSubstr("kernels_templates/gmas/gather.h:\n"));
}

TEST(SoftwareNvrtc, AHeaderThatWasNotGivenIsNotFound) {
  for (const std::string name : {"poison.h", "kernels_templates/shared/nothing.h"}) {
    const StatusError status =
        failure(probe("#include \"" + name + "\"\ntemplate <int> __global__ void probe() {}\n"));
    EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(SoftwareNvrtc, AnUnknownArchitectureIsRefused) {
  const StatusError status = failure(emit(PackSpec{}), "sm_77");
  EXPECT_EQ(status.code(), StatusCode::Unimplemented);
  EXPECT_THAT(status.detail(), HasSubstr("NVRTC_ERROR_INVALID_OPTION"));
}

}  // namespace
}  // namespace minuet::software_cuda
