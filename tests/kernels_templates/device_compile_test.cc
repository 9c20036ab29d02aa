// The test kernels compile for a device too, so that what the shim runs is what a GPU would: each row of
// device/kernels.inc for every architecture that it admits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "tests/kernels_templates/test_kernels.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<ClusterGemmSpec> variants(const ClusterGemmSpec&) {
  ClusterGemmSpec spec{.warps = 4, .columns = 64, .step_words = 64, .stages = 4};
  std::vector<ClusterGemmSpec> specs;
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) spec.io = io, specs.push_back(spec);
  return specs;
}
std::vector<StagedGemmSpec> variants(const StagedGemmSpec&) {
  StagedGemmSpec spec{.warps = 4, .columns = 64, .step_words = 32, .stages = 4};
  std::vector<StagedGemmSpec> specs;
  for (const DType io : {DType::F16, DType::BF16, DType::TF32}) spec.io = io, specs.push_back(spec);
  return specs;
}
std::vector<RelaySpec> variants(const RelaySpec&) { return {RelaySpec{}}; }

template <class Spec>
void expect_compiles(Compiler& compiler, const Spec& spec, const char* arch, int& compiled) {
  const KernelSource source = emit_whole(MINUET_SOURCE_DIR, spec);
  if (!missing_arch(source, arch).empty()) return;
  SCOPED_TRACE(source.display_name);
  llvm::Expected<Binary> binary = compiler.compile({source, arch}, {});
  if (!binary) {
    const StatusError status = take_status(binary.takeError());
    FAIL() << status.message() << "\n" << status.detail();
  }
  ++compiled;
  EXPECT_EQ(binary->params_bytes, static_cast<int>(sizeof(typename KernelRow<Spec>::Params)));
  EXPECT_GE(binary->max_threads, kernel_needs(spec).threads);
  EXPECT_EQ(binary->shared_bytes, 0) << "all of it is dynamic";
  EXPECT_EQ(binary->local_bytes, 0) << binary->log;
  EXPECT_THAT(binary->log, Not(HasSubstr("warning")));
}

int compiled_for(Compiler& compiler, const char* arch) {
  int compiled = 0;
#define MINUET_KERNEL_ROW(name, header, Spec, Params, sm, ...) \
  for (const Spec& spec : variants(Spec{})) expect_compiles(compiler, spec, arch, compiled);
#include "tests/kernels_templates/device/kernels.inc"
  return compiled;
}

TEST(DeviceCompile, EveryRowForWhatItAdmits) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
  EXPECT_EQ(compiled_for(**compiler, "sm_80"), 3) << "staged_gemm in three types";
  EXPECT_EQ(compiled_for(**compiler, "sm_90a"), 7) << "and cluster_gemm, and relay once";
  EXPECT_EQ(compiled_for(**compiler, "sm_120"), 6) << "relay is for sm_90a and no other";
}

}  // namespace
}  // namespace minuet
