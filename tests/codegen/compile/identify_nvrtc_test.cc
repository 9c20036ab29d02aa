#include "codegen/compile/identify_nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "codegen/compile/helper_compiler.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

StatusError refusal_to_identify(const std::string& library, const CancelToken* cancel = nullptr) {
  llvm::Expected<NvrtcInfo> info = identify_nvrtc(library, MINUET_FAKE_HELPER, {cancel});
  EXPECT_FALSE(info) << library;
  return take_status(info.takeError());
}

std::string id_of(const std::string& library) {
  return llvm::cantFail(identify_nvrtc(library, MINUET_FAKE_HELPER)).id;
}

// The fake's identity is its process.
TEST(IdentifyNvrtc, R02_IsAskedOnceAProcess) {
  const std::string id = id_of("one");
  EXPECT_EQ(id_of("one"), id);
  EXPECT_NE(id_of("two"), id);
}

TEST(IdentifyNvrtc, R16_AForkWhileNvrtcIsIdentifiedLeavesTheChildFree) {
  const TemporaryFolder folder;
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("fixed", MINUET_FAKE_HELPER);
  const std::string id = llvm::cantFail(compiler->info()).id;
  CancelToken cancel;
  std::thread asking([&] { refusal_to_identify("sleep:" + (folder / "asked"), &cancel); });
  while (::access((folder / "asked").c_str(), F_OK) != 0) ::poll(nullptr, 0, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    const bool is_told = id_of("another") != id;
    const bool is_known = llvm::cantFail(compiler->info()).id == id;
    ::_exit(is_told && is_known ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  cancel.cancel();
  asking.join();
}

TEST(IdentifyNvrtc, R27_AHelperThatIsLostIsStartedOnceMore) {
  const TemporaryFolder folder;
  EXPECT_THAT(id_of("dieonce:" + (folder / "died")), HasSubstr("fake"));
}

TEST(IdentifyNvrtc, R27_AHelperThatIsLostTwiceIsAnError) {
  const StatusError status = refusal_to_identify("die:");
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("looking for libnvrtc: the helper program failed twice"));
  EXPECT_THAT(status.message(), HasSubstr("SIGKILL"));
  EXPECT_THAT(status.message(), HasSubstr("MINUET_NVRTC"));
}

}  // namespace
}  // namespace minuet
