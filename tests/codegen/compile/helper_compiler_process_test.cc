// The process of a helper: how it is started, asked and lost.
#include "codegen/compile/helper_compiler.h"

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

#include "codegen/compile/entry.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

/// A job that the fake helper does as `what` says.
HelperJob job_for(const std::string& what, const std::string& text = "text") {
  return {{make_source(what + "-kernel", text), "sm_90a"}};
}

llvm::Expected<std::string> ask(Helper& helper, const HelperJob& job, const CancelToken* cancel = nullptr) {
  return helper.ask(MINUET_FAKE_HELPER, job, cancel, "the job");
}

std::string log_of(Helper& helper) {
  return llvm::cantFail(read_entry(llvm::cantFail(ask(helper, job_for("ok"))))).binary.log;
}

StatusError failure(Helper& helper, const HelperJob& job, const CancelToken* cancel = nullptr) {
  llvm::Expected<std::string> answer = ask(helper, job, cancel);
  EXPECT_FALSE(answer);
  return take_status(answer.takeError());
}

/// How its processes ended that were lost with the job.
std::string loss(Helper& helper, const HelperJob& job) {
  const StatusError status = failure(helper, job);
  EXPECT_EQ(status.code(), StatusCode::ResourceExhausted);
  const std::string message = status.message();
  llvm::StringRef how = message;
  EXPECT_TRUE(how.consume_front("the job: the helper program failed twice; the second time ")) << how.str();
  EXPECT_EQ(helper.process_id(), -1);
  return how.str();
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
  const std::string status = contents("/proc/" + std::to_string(process) + "/stat");
  return status.empty() || status.find(") Z") != std::string::npos;
}

TEST(HelperProcess, R19_AnswersOneJobAfterTheOther) {
  Helper helper;
  for (int i = 0; i < 3; ++i) {
    const HelperJob job = job_for("ok", "text " + std::to_string(i));
    const Entry entry = llvm::cantFail(read_entry(llvm::cantFail(ask(helper, job))));
    EXPECT_EQ(entry.request_key, job.request.key);
    EXPECT_THAT(entry.binary.cubin, HasSubstr(job.request.source.text));
    const StatusError failed = failure(helper, job_for("fail"));
    EXPECT_EQ(failed.code(), StatusCode::InvalidArgument);
    EXPECT_EQ(failed.message(), "the fake fails");
    EXPECT_EQ(failed.detail(), "its log");
  }
  EXPECT_EQ(helper.report().started, 1);
  EXPECT_EQ(helper.report().lost, 0);
  EXPECT_GT(helper.report().peak_bytes, 0);
}

TEST(HelperProcess, R19_ALargeSourceGoesThroughBothWays) {
  Helper helper;
  const HelperJob job = job_for("ok", std::string(20 << 20, 'x'));
  EXPECT_THAT(llvm::cantFail(read_entry(llvm::cantFail(ask(helper, job)))).binary.cubin.size(),
              testing::Gt(std::size_t{20} << 20));
}

TEST(HelperProcess, R19_AnIdleHelperEndsWithItsOwner) {
  pid_t process = -1;
  {
    Helper helper;
    log_of(helper);
    process = helper.process_id();
    EXPECT_FALSE(is_gone(process));
  }
  EXPECT_TRUE(is_gone(process));
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
  Helper first, second;
  const std::string log = log_of(first), another = log_of(second);
  ::close(inheritable);
  ::sigaction(SIGPIPE, &before, nullptr);
  ::sigprocmask(SIG_SETMASK, &old, nullptr);
  EXPECT_THAT(log, HasSubstr("\nblocked 0\n"));
  EXPECT_THAT(log, HasSubstr("\nignored 0\n"));
  EXPECT_THAT(log, HasSubstr("\ngroup own\n")) << "what the terminal sends to the host's is not for it";
  EXPECT_THAT(log, HasSubstr("\npassed yes\n"));
  EXPECT_THAT(log, HasSubstr("\nfiles 6\n")) << "three, the folder that is listed, and two names of folders";
  // The second one did not get the socket of the first.
  const auto after_pid = [](const std::string& text) { return text.substr(text.find('\n')); };
  EXPECT_EQ(after_pid(another), after_pid(log));
}

TEST(HelperProcess, R15_NoSignalHandlerIsTouched) {
  std::vector<struct sigaction> before(NSIG);
  for (int number = 1; number < NSIG; ++number) {
    ::sigaction(number, nullptr, &before[static_cast<std::size_t>(number)]);
  }
  Helper helper;
  loss(helper, job_for("die"));
  log_of(helper);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction after = {};
    ::sigaction(number, nullptr, &after);
    EXPECT_EQ(before[static_cast<std::size_t>(number)].sa_handler, after.sa_handler) << "signal " << number;
  }
}

TEST(HelperProcess, R19_TheSystemEndsTheHelperBeforeTheHost) {
  Helper helper;
  HelperJob job;
  job.identify = true;
  job.nvrtc = "/nowhere/libnvrtc.so.13";
  const StatusError status = take_status(helper.ask(MINUET_HELPER, job, nullptr, "the job").takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(contents("/proc/" + std::to_string(helper.process_id()) + "/oom_score_adj"), "1000\n");
}

TEST(HelperProcess, R19_ALostHelperSaysHowItEnded) {
  Helper helper;
  EXPECT_EQ(loss(helper, job_for("die")), "it was killed by SIGKILL");
  EXPECT_EQ(loss(helper, job_for("exit")), "it ended with status 3");
  log_of(helper);
  const pid_t process = helper.process_id();
  EXPECT_THAT(loss(helper, job_for("garbage")), HasSubstr("not a message"));
  EXPECT_TRUE(is_gone(process));
  EXPECT_EQ(helper.report().lost, 6);
}

TEST(HelperProcess, R19_WritingToADeadHelperKillsNobody) {
  Helper helper;
  const std::string log = log_of(helper);
  const pid_t process = helper.process_id();
  ::kill(process, SIGKILL);
  while (!is_gone(process)) ::poll(nullptr, 0, 1);
  EXPECT_NE(log_of(helper), log) << "that of another process";
  EXPECT_EQ(helper.report().lost, 1);
}

TEST(HelperProcess, R19_AHostThatIgnoresItsChildrenIsServedToo) {
  struct sigaction ignore = {}, before = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &before);
  Helper helper;
  EXPECT_THAT(log_of(helper), HasSubstr("pid "));
  EXPECT_EQ(loss(helper, job_for("die")), "it ended");
  ::sigaction(SIGCHLD, &before, nullptr);
}

TEST(HelperProcess, R19_ABusyHelperDiesWithItsParent) {
  const TemporaryFolder folder;
  const std::string file = folder / "busy";
  const pid_t parent = ::fork();
  if (parent == 0) {
    Helper helper;
    llvm::consumeError(ask(helper, job_for("sleep", file)).takeError());
    ::_exit(1);
  }
  while (contents(file).empty()) ::poll(nullptr, 0, 5);
  const pid_t helper = std::atoi(contents(file).c_str());
  EXPECT_FALSE(is_gone(helper));
  ::kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  while (!is_gone(helper)) ::poll(nullptr, 0, 5);  // for ever, where it lives on
}

TEST(HelperProcess, R17_ACancelKillsABusyHelper) {
  CancelToken token;
  Helper helper;
  log_of(helper);
  const pid_t process = helper.process_id();
  token.cancel();
  EXPECT_EQ(failure(helper, job_for("sleep", "/dev/null"), &token).code(), StatusCode::Cancelled);
  EXPECT_TRUE(is_gone(process));
}

TEST(HelperProcess, R16_AHelperThatIsNotThereIsAClearError) {
  Helper helper;
  StatusError status =
      take_status(helper.ask("/nonexistent/minuet-compile", job_for("ok"), nullptr, "the job").takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(), HasSubstr("/nonexistent/minuet-compile cannot be started: No such file"));
  llvm::Expected<std::string> found = find_helper();  // tests lie in another folder than the library
  ASSERT_FALSE(found);
  status = take_status(found.takeError());
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(
      status.message(),
      HasSubstr("minuet-compile does not exist: put the minuet-compile that came with libminuet beside it"));
}

TEST(HelperProcess, R16_TheHelperSaysWhatItIs) {
  int status = -1;
  EXPECT_THAT(output_of(MINUET_HELPER " --version </dev/null", status),
              testing::MatchesRegex("minuet-compile [0-9.]+(-dev)?\n"));
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
