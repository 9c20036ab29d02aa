#include "codegen/helper/helper_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "codegen/cache/entry.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

/// A job that the fake helper does as `what` says.
HelperJob job_for(const std::string& what, const std::string& text = "text") {
  return {{make_source(what + "-kernel", text), "sm_90a"}, "", false, ""};
}

std::unique_ptr<HelperProcess> start_fake() {
  return llvm::cantFail(HelperProcess::start(MINUET_FAKE_HELPER));
}

std::string log_of(HelperProcess& helper) {
  const HelperAnswer answer = llvm::cantFail(helper.ask(job_for("ok"), nullptr));
  return llvm::cantFail(read_entry(answer.result)).binary.log;
}

StatusError loss(HelperProcess& helper, const HelperJob& job) {
  llvm::Expected<HelperAnswer> answer = helper.ask(job, nullptr);
  EXPECT_FALSE(answer);
  return take_status(answer.takeError());
}

std::string output_of(const std::string& command, int& status) {
  std::string output;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> bytes;
  while (const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), pipe))
    output.append(bytes.data(), count);
  status = WEXITSTATUS(::pclose(pipe));
  return output;
}

/// Neither running nor waiting to be taken note of.
bool is_gone(pid_t process) {
  const std::string status = read_text("/proc/" + std::to_string(process) + "/stat");
  return status.empty() || status.find(") Z") != std::string::npos;
}

TEST(HelperProcess, R19_AnswersOneJobAfterTheOther) {
  auto helper = start_fake();
  for (int i = 0; i < 3; ++i) {
    const HelperJob job = job_for("ok", "text " + std::to_string(i));
    const HelperAnswer answer = llvm::cantFail(helper->ask(job, nullptr));
    ASSERT_EQ(answer.code, StatusCode::Ok);
    EXPECT_GT(answer.peak_bytes, 0);
    const Entry entry = llvm::cantFail(read_entry(answer.result));
    EXPECT_EQ(entry.request_key, key_of(job.request));
    EXPECT_THAT(entry.binary.cubin, HasSubstr(job.request.source.text));
    const HelperAnswer failed = llvm::cantFail(helper->ask(job_for("fail"), nullptr));
    EXPECT_EQ(failed.code, StatusCode::InvalidArgument);
    EXPECT_EQ(failed.message, "the fake fails");
    EXPECT_EQ(failed.detail, "its log");
  }
}

TEST(HelperProcess, R19_ALargeSourceGoesThroughBothWays) {
  const HelperJob job = job_for("ok", std::string(20 << 20, 'x'));
  const HelperAnswer answer = llvm::cantFail(start_fake()->ask(job, nullptr));
  EXPECT_THAT(llvm::cantFail(read_entry(answer.result)).binary.cubin.size(),
              testing::Gt(std::size_t{20} << 20));
}

TEST(HelperProcess, R16_TheHelperIsFreeOfTheHostsState) {
  sigset_t mask, old;
  ::sigemptyset(&mask);
  ::sigaddset(&mask, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &mask, &old);
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &before);
  ::setenv("MINUET_TEST_PASSED", "yes", 1);
  const int inheritable = ::open("/dev/null", O_RDONLY);  // a host's that does not say O_CLOEXEC
  auto first = start_fake();
  auto second = start_fake();
  ::close(inheritable);
  ::sigaction(SIGPIPE, &before, nullptr);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  const std::string log = log_of(*first);
  EXPECT_THAT(log, HasSubstr("\nblocked 0\n"));
  EXPECT_THAT(log, HasSubstr("\nignored 0\n"));
  EXPECT_THAT(log, HasSubstr("\ngroup own\n")) << "what the terminal sends to the host's is not for it";
  EXPECT_THAT(log, HasSubstr("\npassed yes\n"));
  EXPECT_THAT(log, HasSubstr("\nfiles 6\n")) << "three, the folder that is listed, and two names of folders";
  // The second one did not get the socket of the first.
  const auto after_pid = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(after_pid(log_of(*second)), after_pid(log));
}

TEST(HelperProcess, R15_NoSignalHandlerIsTouched) {
  std::vector<struct sigaction> before(NSIG);
  for (int number = 1; number < NSIG; ++number) {
    ::sigaction(number, nullptr, &before[static_cast<std::size_t>(number)]);
  }
  loss(*start_fake(), job_for("die"));
  log_of(*start_fake());
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction after = {};
    ::sigaction(number, nullptr, &after);
    EXPECT_EQ(before[static_cast<std::size_t>(number)].sa_handler, after.sa_handler) << "signal " << number;
  }
}

TEST(HelperProcess, R19_TheSystemEndsTheHelperBeforeTheHost) {
  auto helper = llvm::cantFail(HelperProcess::start(MINUET_HELPER));
  HelperJob job;
  job.identify = true;
  job.nvrtc = "/nowhere/libnvrtc.so.13";
  EXPECT_EQ(llvm::cantFail(helper->ask(job, nullptr)).code, StatusCode::Unavailable);
  EXPECT_EQ(read_text("/proc/" + std::to_string(helper->id()) + "/oom_score_adj"), "1000\n");
}

TEST(HelperProcess, R19_ALostHelperSaysHowItEnded) {
  EXPECT_EQ(loss(*start_fake(), job_for("die")).message(), "was killed by SIGKILL");
  EXPECT_EQ(loss(*start_fake(), job_for("exit")).message(), "ended with status 3");
  const auto garbled = start_fake();
  EXPECT_THAT(loss(*garbled, job_for("garbage")).message(), HasSubstr("no frame"));
  EXPECT_TRUE(is_gone(garbled->id()));
}

TEST(HelperProcess, R19_WritingToADeadHelperKillsNobody) {
  auto helper = start_fake();
  log_of(*helper);
  ::kill(helper->id(), SIGKILL);
  while (!is_gone(helper->id())) ::poll(nullptr, 0, 1);
  EXPECT_EQ(loss(*helper, job_for("ok")).message(), "was killed by SIGKILL");
}

TEST(HelperProcess, R19_AHostThatIgnoresItsChildrenIsServedToo) {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &before);
  auto helper = start_fake();
  EXPECT_THAT(log_of(*helper), HasSubstr("pid "));
  EXPECT_EQ(loss(*helper, job_for("die")).message(), "ended");
  helper.reset();
  ::sigaction(SIGCHLD, &before, nullptr);
}

TEST(HelperProcess, R19_ABusyHelperDiesWithItsParent) {
  const TemporaryFolder folder;
  const std::string file = folder / "busy";
  const pid_t parent = ::fork();
  if (parent == 0) {
    llvm::consumeError(start_fake()->ask(job_for("sleep", file), nullptr).takeError());
    ::_exit(1);
  }
  while (read_text(file).empty()) ::poll(nullptr, 0, 5);
  const pid_t helper = std::atoi(read_text(file).c_str());
  EXPECT_FALSE(is_gone(helper));
  ::kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  while (!is_gone(helper)) ::poll(nullptr, 0, 5);  // for ever, where it lives on
}

TEST(HelperProcess, R17_ACancelKillsABusyHelper) {
  CancelToken token;
  auto helper = start_fake();
  token.cancel();
  llvm::Expected<HelperAnswer> answer = helper->ask(job_for("sleep", "/dev/null"), &token);
  ASSERT_FALSE(answer);
  EXPECT_EQ(take_status(answer.takeError()).code(), StatusCode::Cancelled);
  EXPECT_TRUE(is_gone(helper->id()));
}

TEST(HelperProcess, R16_AHelperThatIsNotThereIsAClearError) {
  llvm::Expected<std::unique_ptr<HelperProcess>> helper = HelperProcess::start("/nonexistent/minuet-compile");
  ASSERT_FALSE(helper);
  StatusError status = take_status(helper.takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/minuet-compile does not start: No such file"));
  llvm::Expected<std::string> found = find_helper();  // tests lie in another folder than the library
  ASSERT_FALSE(found);
  status = take_status(found.takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(
      status.message(),
      HasSubstr("minuet-compile is not there: put the minuet-compile that came with libminuet beside it"));
}

TEST(HelperProcess, R16_TheHelperSaysWhatItIs) {
  int status = -1;
  EXPECT_THAT(output_of(MINUET_HELPER " --version </dev/null", status),
              testing::MatchesRegex("minuet-compile [0-9.]+\n"));
  EXPECT_EQ(status, 0);
  EXPECT_THAT(output_of(MINUET_HELPER " --help </dev/null", status),
              HasSubstr("the helper program of libminuet"));
  EXPECT_EQ(status, 0);
  EXPECT_THAT(output_of(MINUET_HELPER " something 2>&1 </dev/null", status), HasSubstr("usage:"));
  EXPECT_EQ(status, 2);
  EXPECT_EQ(output_of(MINUET_HELPER " </dev/null 2>&1", status), "") << "at the end of its input it ends";
  EXPECT_EQ(status, 0);
  EXPECT_EQ(output_of("echo no frame | " MINUET_HELPER " 2>&1", status), "");
  EXPECT_EQ(status, 1);
  EXPECT_EQ(output_of(MINUET_HELPER " --parent=1 2>&1 </dev/null", status), "");
  EXPECT_EQ(status, 1) << "the shell started it, not process 1";
}

}  // namespace
}  // namespace minuet
