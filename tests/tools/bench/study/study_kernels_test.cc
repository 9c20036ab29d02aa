// The baseline's kernels compile, and keep all in registers.
#include <gtest/gtest.h>

#include "codegen/compile/compiler.h"
#include "tests/support/expect.h"
#include "tools/bench/study/baseline_source.h"

namespace minuet::tool {
namespace {

TEST(StudyKernels, Compile) {
  llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
  if (!compiler)
    MINUET_SKIP_OR_FAIL("nvrtc", "NVRTC is not installed: " + llvm::toString(compiler.takeError()));
  for (const char* arch : {"sm_80", "sm_90a"}) {
    for (const char* name : {"insert_keys<256>", "query_keys<true>", "query_keys<false>"}) {
      llvm::Expected<Binary> binary = (*compiler)->compile({baseline_kernel(name), arch}, {});
      ASSERT_TRUE(static_cast<bool>(binary)) << llvm::toString(binary.takeError());
      EXPECT_EQ(binary->local_bytes, 0) << name;
      EXPECT_GT(binary->registers, 0) << name;
    }
  }
}

}  // namespace
}  // namespace minuet::tool
