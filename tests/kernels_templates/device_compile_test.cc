// The test kernels compile for a device too, so that what the shim runs is what a GPU would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compiler.h"
#include "tests/kernels_templates/gemm_source.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr DType kTypes[] = {DType::F16, DType::BF16, DType::TF32};

template <class Spec>
void expect_compiles(const Spec& spec, const char* arch) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  const KernelSource source = source_of(MINUET_SOURCE_DIR, spec);
  llvm::Expected<Binary> binary = (*compiler)->compile(source, arch, "0123456789abcdef", {});
  if (!binary) {
    const StatusError status = take_status(binary.takeError());
    FAIL() << source.display_name << ": " << status.message() << "\n" << status.detail();
  }
  EXPECT_EQ(binary->params_bytes, static_cast<int>(sizeof(GemmParams)));
  EXPECT_GE(binary->max_threads, gemm_threads(spec));
  EXPECT_EQ(binary->shared_bytes, 0) << "all of it is dynamic";
  EXPECT_EQ(binary->local_bytes, 0) << binary->log;
  EXPECT_THAT(binary->log, Not(HasSubstr("warning")));
}

TEST(DeviceCompile, ClusterGemm) {
  ClusterGemmSpec spec{.warps = 4, .columns = 64, .step_words = 64, .stages = 4};
  expect_compiles(spec, "sm_120");
  for (const DType io : kTypes) {
    spec.io = io;
    expect_compiles(spec, "sm_90a");
  }
}

TEST(DeviceCompile, StagedGemm) {
  StagedGemmSpec spec{.warps = 4, .columns = 64, .step_words = 32, .stages = 4};
  expect_compiles(spec, "sm_90a");
  for (const DType io : kTypes) {
    spec.io = io;
    expect_compiles(spec, "sm_80");
  }
}

}  // namespace
}  // namespace minuet
