#include "codegen/compile/helper_compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

#include "codegen/compile/entry.h"
#include "codegen/compile/nvrtc_library.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

StatusError refusal_to_compile(Compiler& compiler, const KernelSource& source = make_source("ok"),
                               const CancelToken* cancel = nullptr) {
  CompileControl control;
  control.cancel = cancel;
  llvm::Expected<Binary> binary = compiler.compile({source, "sm_90a"}, control);
  EXPECT_FALSE(binary);
  return take_status(binary.takeError());
}

void wait_for(const std::string& file) {
  while (::access(file.c_str(), F_OK) != 0) ::poll(nullptr, 0, 2);
}

TEST(HelperCompiler, R08_WhatTheHelperFindsWrongIsTheErrorAndIsAskedAgain) {
  const TemporaryFolder folder;
  const std::string library = "failonce:" + (folder / "failed");
  const std::shared_ptr<Compiler> compiler = make_helper_compiler(library, MINUET_FAKE_HELPER);
  llvm::Expected<NvrtcInfo> failed = compiler->info();
  ASSERT_FALSE(failed);
  const StatusError status = take_status(failed.takeError());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "the fake fails");
  EXPECT_EQ(status.detail(), "its log");
  EXPECT_EQ(llvm::cantFail(compiler->info()).path, library);
}

TEST(HelperCompiler, R27_WithoutAHelperNothingIsCompiledAndNothingOpened) {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("", "/nonexistent/minuet-compile");
  const StatusError status = refusal_to_compile(*compiler);
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              HasSubstr("the helper program /nonexistent/minuet-compile cannot be started"));
  EXPECT_THAT(loaded_nvrtcs(), testing::IsEmpty());
}

TEST(HelperCompiler, R16_CompilesInAHelper) {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("fixed", MINUET_FAKE_HELPER);
  std::string packed;
  CompileControl control;
  control.packed = &packed;
  const Binary binary = llvm::cantFail(compiler->compile({make_source("ok"), "sm_90a"}, control));
  EXPECT_EQ(llvm::cantFail(read_entry(packed)).binary.cubin, binary.cubin) << "as the helper wrote it";
  EXPECT_EQ(binary.compiler_id, llvm::cantFail(compiler->info()).id);
  EXPECT_EQ(binary.arch, "sm_90a");
  EXPECT_THAT(binary.log, HasSubstr("pid "));
  EXPECT_THAT(binary.log, testing::Not(HasSubstr("pid " + std::to_string(::getpid()) + "\n")));
  const StatusError status = refusal_to_compile(*compiler, make_source("fail"));
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.detail(), "its log");
}

TEST(HelperCompiler, R17_ACompileIsCancelledBeforeItsStartAndInTheMiddle) {
  const TemporaryFolder folder;
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("fixed", MINUET_FAKE_HELPER);
  CancelToken cancel;
  std::thread canceller([&] {
    wait_for(folder / "compiles");
    cancel.cancel();
  });
  const StatusError midway =
      refusal_to_compile(*compiler, make_source("sleep", folder / "compiles"), &cancel);
  canceller.join();
  EXPECT_EQ(midway.code(), StatusCode::Cancelled);
  EXPECT_THAT(midway.message(), HasSubstr("sleep for sm_90a"));
  const StatusError before = refusal_to_compile(*compiler, make_source("sleep", folder / "never"), &cancel);
  EXPECT_EQ(before.code(), StatusCode::Cancelled);
  EXPECT_NE(::access((folder / "never").c_str(), F_OK), 0);
  // Where there is nothing to start, too.
  EXPECT_EQ(refusal_to_compile(*make_helper_compiler("", "/nonexistent"), make_source("ok"), &cancel).code(),
            StatusCode::Cancelled);
}

TEST(HelperCompiler, R02_AnNvrtcThatWasReplacedMeanwhileIsAnError) {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("replaced", MINUET_FAKE_HELPER);
  const StatusError status = refusal_to_compile(*compiler);
  EXPECT_EQ(status.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("replaced has changed since this process first used it"));
}

}  // namespace
}  // namespace minuet
