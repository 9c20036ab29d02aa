// One kernel wanted by many: other processes (R14), children of a fork (R16), threads that give up (R17).
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <thread>

#include "codegen/base/background_job.h"
#include "codegen/base/trace.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"
#include "tests/codegen/fakes.h"
#include "tests/support/expect.h"
#include "tests/support/wait_until.h"

namespace minuet {
namespace {

/// The exit code of a process that does `work`; 99 where it hangs.
template <class Work>
pid_t start_process(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a hang becomes a failure
    ::_exit(work());
  }
  return child;
}

int exit_code(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/// Appends a line where a compile happens, so that compiles of all processes are counted. None ends before
/// `count` processes have left a file in `folder`.
std::shared_ptr<FakeCompiler> counting_compiler(const std::string& log, const std::string& folder,
                                                std::size_t count) {
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [log, folder, count](const KernelSource& source) -> llvm::Error {
    const int file = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    const std::string line = source.display_name + "\n";
    if (::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(7);
    ::close(file);
    const bool all = wait_until("the other processes", [&] { return files_below(folder).size() >= count; });
    return all ? llvm::Error::success() : make_error(StatusCode::Internal, "not all processes came");
  };
  return compiler;
}

TEST(KernelCacheProcesses, R14_SixteenColdProcessesCompileEachKernelOnce) {
  const TemporaryFolder folder, here;
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(start_process([&] {
      auto cache = make_cache(folder / "cache", counting_compiler(folder / "log", here.path(), 16));
      write_text(here / std::to_string(::getpid()), "");
      for (const char* name : {"gather", "scatter", "sort"}) {
        llvm::cantFail(cache->get_or_compile({make_source(name), "sm_90a"}));
      }
      const CacheStats stats = cache->stats();  // R32: every kernel came from one of the two
      return stats.compiled + stats.disk_hits == 3 && stats.failures == 0 && stats.lock_timeouts == 0 ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(exit_code(child), 0);
  const std::string log = contents(folder / "log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << log;
}

TEST(KernelCacheProcesses, R14_AStoppedProcessIsWaitedForNoLongerThanTheBound) {
  EXPECT_EQ(CacheOptions().lock_bound, std::chrono::minutes(1)) << "R14's number, where nobody names another";
  const TemporaryFolder folder;
  const pid_t holder = start_process([&] {
    auto compiler = std::make_shared<FakeCompiler>();
    compiler->before = [](const KernelSource&) -> llvm::Error {
      ::raise(SIGSTOP);
      return llvm::Error::success();
    };
    llvm::cantFail(make_cache(folder.path(), compiler)->get_or_compile({make_source("gather"), "sm_90a"}));
    return 0;
  });
  int status = 0;
  ASSERT_EQ(::waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  CacheOptions options;
  options.directory = folder.path();
  options.lock_bound = std::chrono::milliseconds(200);
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache =
      llvm::cantFail(KernelCache::create(options, compiler, make_environment({}), real_file_system()));
  llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_EQ(cache->stats().lock_timeouts, 1);
  EXPECT_EQ(cache->stats().waits, 1);
  EXPECT_GT(cache->stats().wait_ms, 0);
  ::kill(holder, SIGKILL);
  EXPECT_EQ(exit_code(holder), 99);
}

TEST(KernelCacheProcesses, R16_AForkedChildDoesNotWaitForItsParentsThreads) {
  const TemporaryFolder folder;
  std::atomic<bool> compiling{false}, go_on{false};
  const pid_t parent = ::getpid();
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [&](const KernelSource&) -> llvm::Error {
    compiling = true;
    while (::getpid() == parent && !go_on) ::usleep(1000);
    return llvm::Error::success();
  };
  CacheOptions options;
  options.use_disk = false;
  auto cache =
      llvm::cantFail(KernelCache::create(options, compiler, make_environment({}), real_file_system()));
  std::thread thread([&] { llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"})); });
  while (!compiling) ::usleep(1000);
  const pid_t child = start_process([&] {
    llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
    return cache->stats().compiled == 1 && cache->stats().memory_hits == 0 ? 0 : 1;
  });
  EXPECT_EQ(exit_code(child), 0);
  go_on = true;
  thread.join();
  EXPECT_EQ(cache->stats().compiled, 1);
}

TEST(KernelCacheProcesses, R16_AForkedChildTracesWhateverItsParentsThreadsDo) {
  if (kAddressSanitized) GTEST_SKIP() << "ASan's allocator has locks of its own, which a fork does not mind";
  Trace trace;
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int thread = 0; thread < 2; ++thread) {
    busy.emplace_back([&] {
      while (!stop) const Trace::Span span(&trace, "run", "in the parent");
    });
  }
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    const pid_t child = start_process([&] {
      { const Trace::Span span(&trace, "run", "in the child"); }
      return 0;
    });
    EXPECT_EQ(exit_code(child), 0) << "round " << round;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_NE(trace.json().find("in the parent"), std::string::npos);
}

TEST(KernelCacheProcesses, R17_WhoWaitsForACancelledCompileTriesItself) {
  CancelToken cancel;
  std::atomic<int> began{0};
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [&](const KernelSource&) -> llvm::Error {
    if (began++ > 0) return llvm::Error::success();
    while (!cancel.cancelled()) ::usleep(1000);
    return make_error(StatusCode::Cancelled, "cancelled");
  };
  auto cache = make_cache("", compiler);
  StatusCode first = StatusCode::Ok;
  std::thread owner([&] {
    auto binary = cache->get_or_compile({make_source("gather"), "sm_90a"}, {&cancel});
    if (!binary) first = take_status(binary.takeError()).code();
  });
  while (began == 0) ::usleep(1000);
  std::thread waiter([&] { llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"})); });
  while (cache->stats().memory_hits == 0) ::usleep(1000);
  cancel.cancel();
  owner.join();
  waiter.join();
  EXPECT_EQ(first, StatusCode::Cancelled);
  EXPECT_EQ(began, 2);
  EXPECT_EQ(cache->stats().compiled, 1);
}

std::unique_ptr<BackgroundJob> start_job(BackgroundJob::Work work) {
  std::unique_ptr<BackgroundJob> job;
  llvm::cantFail(BackgroundJob::start(std::move(work),
                                      [&](std::unique_ptr<BackgroundJob> begun) { job = std::move(begun); }));
  return job;
}

TEST(KernelCacheProcesses, R17_AJobInTheBackgroundStopsWhenItIsDropped) {
  std::atomic<bool> began{false}, stopped{false};
  auto job = start_job([&](const CancelToken& cancel) -> llvm::Error {
    began = true;
    while (!cancel.cancelled()) ::usleep(1000);
    stopped = true;
    return make_error(StatusCode::Cancelled, "stopped");
  });
  while (!began) ::usleep(1000);
  EXPECT_FALSE(job->done());
  job->cancel();
  EXPECT_EQ(take_status(job->wait()).code(), StatusCode::Cancelled);
  EXPECT_TRUE(job->done());
  job.reset();
  EXPECT_TRUE(stopped);
}

TEST(KernelCacheProcesses, R16_AJobIsNotWaitedForWhereItDoesNotRun) {
  std::atomic<bool> go_on{false};
  auto job = start_job([&](const CancelToken&) -> llvm::Error {
    while (!go_on) ::usleep(1000);
    return llvm::Error::success();
  });
  const pid_t child = start_process([&] {
    const StatusCode code = take_status(job->wait()).code();
    job.reset();
    return code == StatusCode::FailedPrecondition ? 0 : 1;
  });
  EXPECT_EQ(exit_code(child), 0);
  go_on = true;
  EXPECT_FALSE(llvm::errorToBool(job->wait()));
}

TEST(KernelCacheProcesses, R17_AJobBeginsWhenItIsKeptAndMayBeDroppedByItself) {
  std::unique_ptr<BackgroundJob> job;
  std::atomic<bool> was_kept{false}, dropped{false};
  const auto work = [&](const CancelToken&) -> llvm::Error {
    was_kept = job != nullptr;
    job.reset();
    dropped = true;
    return llvm::Error::success();
  };
  llvm::cantFail(BackgroundJob::start(work, [&](std::unique_ptr<BackgroundJob> begun) {
    ::usleep(20000);  // by far enough for a thread that does not wait
    job = std::move(begun);
  }));
  while (!dropped) ::usleep(1000);
  EXPECT_TRUE(was_kept);
}

/// What a build farm and a JIT want at once is compiled once: the other one waits, and reads it.
TEST(KernelCacheProcesses, R14_ABuildFarmTakesTheSameLock) {
  const TemporaryFolder folder;
  const KernelSource source = make_source("gather");
  auto compiler = std::make_shared<FakeCompiler>(), of_jit = std::make_shared<FakeCompiler>();
  auto farm = make_cache(folder.path(), compiler), jit = make_cache(folder.path(), of_jit);
  std::thread other;
  compiler->before = [&](const KernelSource&) {
    other = std::thread([&] { llvm::cantFail(jit->get_or_compile({source, "sm_90a"})); });
    const std::string lock = folder / ("v1/lock/" + build_key(key_of(source, "sm_90a"), compiler->id_));
    EXPECT_FALSE(LockableFile(real_file_system(), ::open(lock.c_str(), O_RDWR | O_CLOEXEC)).try_lock());
    return llvm::Error::success();
  };
  BinaryOrigin origin = BinaryOrigin::Memory;
  llvm::cantFail(farm->get_exactly({source, "sm_90a"}, {}, origin));
  other.join();
  EXPECT_EQ(origin, BinaryOrigin::Compiled);
  EXPECT_EQ(of_jit->compiles, 0);
  EXPECT_EQ(jit->stats().disk_hits, 1);
  llvm::cantFail(farm->get_exactly({source, "sm_90a"}, {}, origin));
  EXPECT_EQ(origin, BinaryOrigin::Disk);
  EXPECT_EQ(compiler->compiles, 1);
}

/// Without a folder, too, where there is no lock: of one process's threads one compiles.
TEST(KernelCacheProcesses, R13_ABuildFarmTakesTheSameFlight) {
  const KernelSource source = make_source("gather");
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = make_cache("", compiler);
  std::thread other;
  compiler->before = [&](const KernelSource&) {
    other = std::thread([&] { llvm::cantFail(cache->get_or_compile({source, "sm_90a"})); });
    wait_until("the other one is on the flight", [&] { return cache->stats().memory_hits == 1; });
    return llvm::Error::success();
  };
  BinaryOrigin origin = BinaryOrigin::Memory;
  llvm::cantFail(cache->get_exactly({source, "sm_90a"}, {}, origin));
  other.join();
  EXPECT_EQ(origin, BinaryOrigin::Compiled);
  EXPECT_EQ(compiler->compiles, 1);
  // And what the one that was made just in time is stays in memory.
  llvm::cantFail(cache->get_or_compile({source, "sm_90a"}));
  EXPECT_EQ(compiler->compiles, 1);
}

/// From here on the kernel ends this process where it starts a thread or opens a file.
void forbid_threads_and_files() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 3, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 2, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 1, 0),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  const sock_fprog program = {static_cast<unsigned short>(std::size(filter)), filter};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(77);
}

TEST(KernelCacheProcesses, R13_AListThatIsInMemoryStartsNoThreadAndReadsNoFile) {
  const TemporaryFolder folder;
  std::vector<KernelSource> sources;
  for (const char* name : {"gather", "scatter", "sort"}) sources.push_back(make_source(name));
  const auto compile_twice = [&](bool is_forbidden) {
    return start_process([&] {
      auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>());
      llvm::cantFail(cache->get_or_compile_all(requests_of(sources, "sm_90a")));
      if (is_forbidden) forbid_threads_and_files();
      return llvm::cantFail(cache->get_or_compile_all(requests_of(sources, "sm_90a"))).size() == 3 ? 0 : 1;
    });
  };
  EXPECT_EQ(exit_code(compile_twice(false)), 0);
  const int code = exit_code(compile_twice(true));
  if (code == 77) GTEST_SKIP() << "this system lets no process restrict itself";
  EXPECT_EQ(code, 0);
}

TEST(KernelCacheProcesses, R17_AListIsCompiledInItsOrder) {
  auto cache = make_cache("", std::make_shared<FakeCompiler>());
  std::vector<KernelSource> sources;
  for (int i = 0; i < 50; ++i) sources.push_back(make_source("kernel" + std::to_string(i)));
  const BinaryList binaries = llvm::cantFail(cache->get_or_compile_all(requests_of(sources, "sm_90a")));
  ASSERT_EQ(binaries.size(), 50u);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(binaries[i]->display_name, sources[i].display_name);
}

}  // namespace
}  // namespace minuet
