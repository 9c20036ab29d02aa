// Processes that end, unload and load the library beside others: each in a child, for it takes a process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/contents.h"
#include "tests/support/expect.h"

extern char** environ;

namespace {

constexpr int kNotHere = 77;  // what the children say where something they need is missing

using Words = std::vector<std::string>;

struct Ended {
  int code = -1;     // of exit, or minus the signal
  std::string text;  // what it printed
};

/// Runs a program to its end, its output to a file of this process.
Ended run(const Words& command, const Words& settings = {}) {
  const std::string log = testing::TempDir() + "process-test-" + std::to_string(getpid()) + ".log";
  Words variables = settings;
  for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
  const auto pointers = [](const Words& words) {
    std::vector<char*> list;
    for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
    list.push_back(nullptr);
    return list;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  Ended ended;
  const int spawned = posix_spawnp(&child, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (spawned != 0) {
    ended.text = command[0] + " did not start";
    return ended;
  }
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  ended.text = minuet::contents(log);
  std::filesystem::remove(log);
  return ended;
}

// What is given twice counts the first time: settings stand before the environment.
const Words kNoCompiler = {"MINUET_NVRTC=/nowhere"};

void expect_clean(const Words& command, const Words& settings = kNoCompiler) {
  const Ended ended = run(command, settings);
  std::string line;
  for (const std::string& word : command) line += word + " ";
  EXPECT_EQ(ended.code, 0) << line << "\n" << ended.text;
}

Words host(Words arguments) {
  arguments.insert(arguments.begin(), {MINUET_HOST, MINUET_LIBRARY});
  return arguments;
}

TEST(Process, R27_ExitWhileNetworksRun) {
  for (const char* delay : {"0", "3", "20", "60", "150"}) {
    expect_clean(host({"exit-running", delay}));
    expect_clean(host({"exit-in-thread", delay}));
  }
}

// At 12 moments of the first second of compiles.
TEST(Process, R27_ExitWhileTheHelperCompiles) {
  for (const char* delay : {"0", "5", "20", "50", "80", "110", "150", "200", "300", "450", "650", "900"}) {
    const Ended ended = run(host({"exit-compiling", delay}));
    if (ended.code == kNotHere) MINUET_SKIP_OR_FAIL("nvrtc", "there is no NVRTC here");
    EXPECT_EQ(ended.code, 0) << "after " << delay << " ms\n" << ended.text;
  }
}

TEST(Process, R27_CompilesWithoutOpeningNvrtc) {
  const Ended ended = run(host({"compile"}));
  if (ended.code == kNotHere) MINUET_SKIP_OR_FAIL("nvrtc", "there is no NVRTC here");
  EXPECT_EQ(ended.code, 0) << ended.text;
}

TEST(Process, R27_WithoutItsHelperTheLibrarySaysSoAndOpensNothing) {
  const std::filesystem::path folder = testing::TempDir() + "alone-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  const std::filesystem::path library = folder / "libminuet.so";
  std::filesystem::copy_file(MINUET_LIBRARY, library);
  expect_clean({MINUET_HOST, library.string(), "alone"}, {});
  std::filesystem::remove_all(folder);
}

TEST(Process, R27_ExitWithEverythingOpen) { expect_clean(host({"leave"})); }

TEST(Process, R27_UnloadsAndLoadsAgain) {
  // A few bytes a load are never freed, so that no destructor is needed: they look lost once the library is
  // gone.
  expect_clean(host({"reload", "5"}), {kNoCompiler.front(), "LSAN_OPTIONS=detect_leaks=0"});
}

class PythonProcess : public testing::TestWithParam<const char*> {};

TEST_P(PythonProcess, R27_EndsCleanly) {
  if (minuet::kSanitized)
    GTEST_SKIP() << "python3 has no sanitizer runtime, which the library of this build needs";
  if (run({"python3", "-c", "import ctypes"}).code != 0) GTEST_SKIP() << "there is no python3";
  for (int i = 0; i < 3; ++i) expect_clean({"python3", "-B", MINUET_HOST_PY, MINUET_LIBRARY, GetParam()});
}
INSTANTIATE_TEST_SUITE_P(Ends, PythonProcess, testing::Values("atexit", "leave", "thread"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Beside, R36_FunctionsOfOurNamesAreNotTaken) {
  expect_clean(host({"run", MINUET_CLASH}));
  expect_clean(host({"run-first", MINUET_CLASH}));
}

class BesideLlvm : public testing::TestWithParam<int> {};

TEST_P(BesideLlvm, R36_WorksBesideIt) {
  const std::string version = std::to_string(GetParam());
  const std::string folder = "/usr/lib/llvm-" + version + "/lib";
  std::string library;
  for (const std::string& name :
       {"libLLVM-" + version + ".so", "libLLVM-" + version + ".so.1", std::string("libLLVM.so")}) {
    if (library.empty() && std::filesystem::exists(folder + "/" + name)) library = folder + "/" + name;
  }
  if (library.empty())
    GTEST_SKIP() << "there is no libLLVM-" << version << ".so here (apt-get install libllvm" << version
                 << ")";
  expect_clean(host({"run", library}));
  expect_clean(host({"run-first", library}));
}
INSTANTIATE_TEST_SUITE_P(Versions, BesideLlvm, testing::Values(14, 19), testing::PrintToStringParamName());

TEST(Beside, R36_WorksBesideTorch) {
  if (minuet::kSanitized)
    GTEST_SKIP() << "python3 has no sanitizer runtime, which the library of this build needs";
  const Ended ended = run({"python3", "-B", MINUET_HOST_PY, MINUET_LIBRARY, "torch"}, kNoCompiler);
  if (ended.code == kNotHere || ended.code == -1) GTEST_SKIP() << "there is no torch here";
  EXPECT_EQ(ended.code, 0) << ended.text;
}

}  // namespace
