#include "codegen/worker/nvrtc_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

StatusError refusal(const std::string& library) {
  llvm::Expected<NvrtcInfo> info = identify_nvrtc(library, MINUET_FAKE_HELPER);
  EXPECT_FALSE(info) << library;
  return take_status(info.takeError());
}

// The fake's identity is its process.
TEST(NvrtcIdentity, R02_IsAskedOnceAProcess) {
  const NvrtcInfo info = llvm::cantFail(identify_nvrtc("one", MINUET_FAKE_HELPER));
  EXPECT_EQ(info.path, "one");
  EXPECT_EQ(llvm::cantFail(identify_nvrtc("one", MINUET_FAKE_HELPER)).id, info.id);
  EXPECT_NE(llvm::cantFail(identify_nvrtc("two", MINUET_FAKE_HELPER)).id, info.id);
}

TEST(NvrtcIdentity, R16_AForkedChildIsToldToo) {
  const NvrtcInfo info = llvm::cantFail(identify_nvrtc("before", MINUET_FAKE_HELPER));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool same = llvm::cantFail(identify_nvrtc("before", MINUET_FAKE_HELPER)).id == info.id;
    const bool asked = llvm::cantFail(identify_nvrtc("after", MINUET_FAKE_HELPER)).path == "after";
    ::_exit(same && asked ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(NvrtcIdentity, R27_AHelperThatIsLostIsStartedOnceMore) {
  const TemporaryFolder folder;
  EXPECT_THAT(llvm::cantFail(identify_nvrtc("dieonce:" + (folder / "died"), MINUET_FAKE_HELPER)).path,
              HasSubstr("dieonce"));
}

// What kills a helper would kill this process as well, were it to open the library itself.
TEST(NvrtcIdentity, R27_WhereHelpersAreLostNothingIsOpenedHere) {
  const StatusError status = refusal("die:");
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("lost twice while it opened libnvrtc"));
  EXPECT_THAT(status.message(), HasSubstr("SIGKILL"));
}

TEST(NvrtcIdentity, WhatTheHelperFindsWrongIsTheError) {
  const StatusError status = refusal("fail");
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "the fake fails");
  EXPECT_EQ(status.detail(), "its log");
}

TEST(NvrtcIdentity, WithoutAHelperTheLibraryIsOpenedHere) {
  llvm::Expected<NvrtcInfo> info = identify_nvrtc("/nonexistent/libnvrtc.so", "/nonexistent/minuet-compile");
  ASSERT_FALSE(info);
  EXPECT_THAT(take_status(info.takeError()).detail(), HasSubstr("/nonexistent/libnvrtc.so"));
}

}  // namespace
}  // namespace minuet
