// The pool with a helper that needs no NVRTC.
#include "codegen/worker/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "codegen/worker/helper_compiler.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMuch = std::int64_t{1} << 40;

KernelRequest request_for(const std::string& what, const std::string& text = "text",
                          const std::string& arch = "sm_90a") {
  static int number = 0;
  return {make_source(what + "-" + std::to_string(++number), text), arch};
}

WorkerPoolOptions fake_options(int jobs) {
  WorkerPoolOptions options;
  options.worker.helper = MINUET_FAKE_HELPER;
  options.jobs = jobs;
  options.memory_budget = kMuch;
  return options;
}

/// What each request came to: "" or the error; and who did it.
struct Outcome {
  std::vector<std::string> errors;
  std::vector<StatusCode> codes;
  std::vector<std::string> workers;
  std::vector<std::size_t> order;
  WorkerPoolReport report;
};

Outcome run(const std::vector<KernelRequest>& requests, const WorkerPoolOptions& options) {
  Outcome outcome;
  outcome.errors.assign(requests.size(), "never done");
  outcome.codes.assign(requests.size(), StatusCode::Internal);
  outcome.workers.assign(requests.size(), "");
  outcome.report = WorkerPool(options).run(requests, [&](std::size_t index, llvm::Expected<Entry> entry) {
    EXPECT_EQ(outcome.errors[index], "never done") << "request " << index << " is done twice";
    outcome.order.push_back(index);
    if (entry) {
      outcome.errors[index] = "";
      outcome.codes[index] = StatusCode::Ok;
      outcome.workers[index] = llvm::StringRef(entry->binary.log).split('\n').first.str();
      EXPECT_THAT(entry->binary.cubin, HasSubstr(requests[index].source.text));
      return;
    }
    const StatusError status = take_status(entry.takeError());
    outcome.errors[index] = status.message();
    outcome.codes[index] = status.code();
  });
  return outcome;
}

TEST(WorkerPool, R19_EveryRequestIsDoneOnce) {
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(request_for(i % 5 == 3 ? "fail" : "ok", "#include \"" + std::to_string(i % 7) + "\"\n",
                                   i % 2 == 0 ? "sm_80" : "sm_90a"));
  }
  const Outcome outcome = run(requests, fake_options(4));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(outcome.errors[i], i % 5 == 3 ? "the fake fails" : "") << i;
  }
  EXPECT_EQ(outcome.report.workers, 4);
  EXPECT_EQ(outcome.report.lost, 0);
  EXPECT_GT(outcome.report.peak_bytes, 0);
}

TEST(WorkerPool, R19_NothingToDoIsDone) {
  const Outcome outcome = run({}, fake_options(4));
  EXPECT_EQ(outcome.report.started, 0);
}

TEST(WorkerPool, R19_AHelperTakesAWholeGroup) {
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(
        request_for("ok", "#include \"" + std::to_string(i % 2) + "\"\n", i % 4 < 2 ? "sm_80" : "sm_90a"));
  }
  const Outcome outcome = run(requests, fake_options(1));
  // One after the other, group by group: what differs by a multiple of 4 has one architecture and preamble.
  for (std::size_t i = 0; i < outcome.order.size(); ++i) {
    EXPECT_EQ(outcome.order[i] % 4, outcome.order[i - i % 3] % 4) << i;
  }
  EXPECT_EQ(outcome.report.started, 1);
}

TEST(WorkerPool, R19_ALargeGroupIsSplit) {
  // Each of the two waits until the other is there too.
  const TemporaryFolder folder;
  const std::vector<KernelRequest> requests = {request_for("meet", folder.path()),
                                               request_for("meet", folder.path())};
  const Outcome outcome = run(requests, fake_options(2));
  EXPECT_THAT(outcome.errors, testing::ElementsAre("", ""));
  EXPECT_NE(outcome.workers[0], outcome.workers[1]);
}

TEST(WorkerPool, R19_AKilledHelperLosesOnlyItsJob) {
  const TemporaryFolder folder;
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(request_for("ok"));
  requests[2] = request_for("dieonce", folder / "died");
  requests[5] = request_for("die");
  requests[6] = request_for("exit");
  const Outcome outcome = run(requests, fake_options(2));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (i != 5 && i != 6) {
      EXPECT_EQ(outcome.errors[i], "") << i;
    }
  }
  EXPECT_THAT(outcome.errors[5], HasSubstr("was killed by SIGKILL"));
  EXPECT_THAT(outcome.errors[5], HasSubstr(requests[5].source.display_name + " for sm_90a"));
  EXPECT_EQ(outcome.codes[5], StatusCode::ResourceExhausted);
  EXPECT_THAT(outcome.errors[6], HasSubstr("ended with status 3"));
  EXPECT_EQ(outcome.report.lost, 5) << "once, twice and twice";
}

TEST(WorkerPool, R19_AnswersThatAreWrongAreErrors) {
  const Outcome outcome =
      run({request_for("garbage"), request_for("flip"), request_for("other"), request_for("ok")},
          fake_options(1));
  EXPECT_THAT(outcome.errors[0], HasSubstr("no frame"));
  EXPECT_THAT(outcome.errors[1], HasSubstr("damaged"));
  EXPECT_THAT(outcome.errors[2], HasSubstr("another kernel"));
  EXPECT_EQ(outcome.errors[3], "");
}

TEST(WorkerPool, R19_AHelperThatIsNotThereFailsEveryRequest) {
  WorkerPoolOptions options = fake_options(2);
  options.worker.helper = "/nonexistent/minuet-compile";
  const Outcome outcome = run({request_for("ok"), request_for("ok"), request_for("ok")}, options);
  EXPECT_THAT(outcome.errors, testing::Each(HasSubstr("/nonexistent/minuet-compile does not start")));
  EXPECT_THAT(outcome.codes, testing::Each(StatusCode::Unavailable));
}

TEST(WorkerPool, R19_MemoryBoundsTheNumberOfHelpers) {
  constexpr std::int64_t kHalf = std::int64_t{512} << 20;
  EXPECT_EQ(count_workers(0, {16, 100 * kHalf}, 100), 16) << "one a core";
  EXPECT_EQ(count_workers(32, {16, 100 * kHalf}, 100), 32) << "as asked";
  EXPECT_EQ(count_workers(0, {16, 100 * kHalf}, 3), 3) << "no more than jobs";
  EXPECT_EQ(count_workers(8, {16, 2 * kHalf}, 100), 2) << "half a GiB each";
  EXPECT_EQ(count_workers(8, {16, 3 * kHalf - 1}, 100), 2);
  EXPECT_EQ(count_workers(8, {16, 0}, 100), 1) << "at least one";
  EXPECT_EQ(count_workers(0, {0, kMuch}, 5), 1);
  EXPECT_EQ(count_workers(0, {4, kMuch}, 0), 1);
  WorkerPoolOptions options = fake_options(8);
  options.memory_budget = 2 * kHalf;
  const std::vector<KernelRequest> requests(10, request_for("ok"));
  EXPECT_EQ(run(requests, options).report.workers, 2);
}

TEST(WorkerPool, R30_PrecompiledHeadersAreForGroupsWithCub) {
  std::vector<KernelRequest> requests;
  for (int i = 1; i <= 3; ++i) requests.push_back({emit(ScanSpec{.items_per_thread = i}), "sm_90a"});
  for (int i = 1; i <= 3; ++i) requests.push_back({emit(GatherSpec{.channels = 8 * i}), "sm_90a"});
  requests.push_back({emit(RadixPassSpec{}), "sm_90a"});
  requests.push_back({emit(ScanSpec{}), "sm_80"});
  EXPECT_EQ(run(requests, fake_options(1)).report.pch_used, 3) << "one architecture, CUB, more than one";
  WorkerPoolOptions options = fake_options(1);
  options.pch = false;
  EXPECT_EQ(run(requests, options).report.pch_used, 0);
}

TEST(WorkerPool, R17_ACancelEndsEverything) {
  const TemporaryFolder folder;
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(request_for("sleep", folder / ("busy" + std::to_string(i))));
  CancelToken token;
  WorkerPoolOptions options = fake_options(2);
  options.worker.cancel = &token;
  std::chrono::steady_clock::time_point cancelled;
  std::thread canceller([&] {
    while (files_below(folder.path()).size() < 2) ::poll(nullptr, 0, 5);
    cancelled = std::chrono::steady_clock::now();
    token.cancel();
  });
  const Outcome outcome = run(requests, options);
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - cancelled;
  canceller.join();
  std::printf("cancelled after %.0f ms\n", taken.count());
  EXPECT_THAT(outcome.codes, testing::Each(StatusCode::Cancelled));
  EXPECT_EQ(files_below(folder.path()).size(), 2u) << "no request was handed out after the cancel";
  EXPECT_EQ(outcome.report.started, 2);
}

TEST(WorkerPool, R19_AHelperThatMayStartALittleLaterIsWaitedFor) {
  const TemporaryFolder folder;
  WorkerOptions options;
  options.helper = folder / "minuet-compile";
  std::filesystem::copy_file(MINUET_FAKE_HELPER, options.helper);
  std::ofstream installer(options.helper, std::ios::app);  // a program that is written to cannot be started
  const int events = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(events, options.helper.c_str(), IN_CLOSE_NOWRITE), 0);
  std::thread later([&] {
    // A start that is refused has opened the program and closes it. The bound is a guard against a hang.
    pollfd refused{events, POLLIN, 0};
    EXPECT_EQ(::poll(&refused, 1, 240000), 1) << "for minutes nobody has tried to start the helper";
    installer.close();
  });
  const KernelRequest request = request_for("ok");
  llvm::Expected<PackedEntry> entry = compile_in_worker(request, options);
  later.join();
  ::close(events);
  ASSERT_TRUE(static_cast<bool>(entry)) << llvm::toString(entry.takeError());
  EXPECT_EQ(entry->entry.request_key, key_of(request));
}

TEST(WorkerPool, R02_ThreadsThatAskAtOnceStartOneHelper) {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("for threads", MINUET_FAKE_HELPER);
  std::vector<std::string> ids(8);
  std::vector<std::thread> threads;
  for (std::string& id : ids) threads.emplace_back([&] { id = llvm::cantFail(compiler->identify()).id; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u) << "the fake's identity is its process";
}

TEST(WorkerPool, R17_ThreadsThatWaitForAnAnswerAreFreeToGo) {
  const TemporaryFolder folder;
  const std::string library = "sleep:" + (folder / "asked");
  CancelToken first, second;
  const auto code_of = [&](const CancelToken& cancel) {
    return take_status(identify_nvrtc(library, MINUET_FAKE_HELPER, &cancel).takeError()).code();
  };
  StatusCode asking = StatusCode::Ok, waiting = StatusCode::Ok;
  std::thread asks([&] { asking = code_of(first); });
  while (files_below(folder.path()).empty()) ::poll(nullptr, 0, 2);
  std::thread waits([&] { waiting = code_of(second); });
  EXPECT_EQ(llvm::cantFail(identify_nvrtc("meanwhile", MINUET_FAKE_HELPER)).path, "meanwhile");
  second.cancel();
  waits.join();
  EXPECT_EQ(waiting, StatusCode::Cancelled);
  first.cancel();
  asks.join();
  EXPECT_EQ(asking, StatusCode::Cancelled);
}

TEST(WorkerPool, R08_ThreadsThatWaitShareAFailure) {
  const TemporaryFolder folder;
  const std::string library = "failonce:" + (folder / "failed");
  std::vector<std::string> outcomes(8);
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (std::string& outcome : outcomes) {
    threads.emplace_back([&] {
      for (++ready; ready < 8;) std::this_thread::yield();
      llvm::Expected<NvrtcInfo> info = identify_nvrtc(library, MINUET_FAKE_HELPER);
      outcome = info ? info->path : take_status(info.takeError()).message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Who came a little later has asked again, and was told.
  EXPECT_THAT(outcomes, testing::Each(testing::AnyOf("the fake fails", library)));
  EXPECT_THAT(outcomes, testing::Contains("the fake fails"));
}

TEST(WorkerPool, R16_OneRequestInOneHelper) {
  WorkerOptions options;
  options.helper = MINUET_FAKE_HELPER;
  const TemporaryFolder folder;
  for (const std::string what : {"ok", "dieonce"}) {
    const KernelRequest request = request_for(what, folder / "died");
    const Entry entry = llvm::cantFail(compile_in_worker(request, options)).entry;
    EXPECT_EQ(entry.request_key, key_of(request));
    EXPECT_EQ(entry.binary.display_name, request.source.display_name);
  }
  llvm::Expected<PackedEntry> failed = compile_in_worker(request_for("fail"), options);
  ASSERT_FALSE(failed);
  const StatusError status = take_status(failed.takeError());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.detail(), "its log");
}

}  // namespace
}  // namespace minuet
