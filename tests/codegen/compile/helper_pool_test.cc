// The pool with a helper that needs no NVRTC.
#include "codegen/compile/helper_compiler.h"

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
#include <mutex>
#include <set>
#include <thread>

#include "codegen/compile/entry.h"
#include "codegen/compile/identify_nvrtc.h"
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

HelperPoolOptions fake_options(int jobs) {
  HelperPoolOptions options;
  options.jobs = jobs;
  options.memory_budget = kMuch;
  return options;
}

/// What each request came to: "" or the error; and which helper did it.
struct Outcome {
  std::vector<std::string> errors;
  std::vector<StatusCode> codes;
  std::vector<std::string> helpers;
  std::vector<std::size_t> order;
  HelperPoolReport report;
};

Outcome run(const std::vector<KernelRequest>& requests, const HelperPoolOptions& options,
            const std::string& program = MINUET_FAKE_HELPER) {
  Outcome outcome;
  outcome.errors.assign(requests.size(), "never done");
  outcome.codes.assign(requests.size(), StatusCode::Internal);
  outcome.helpers.assign(requests.size(), "");
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("fixed", program);
  std::mutex mutex;
  outcome.report =
      for_each_with_helper(requests, options, [&](std::size_t index, const CompileControl& control) {
        const KernelRequest& request = requests[index];
        llvm::Expected<Binary> binary = compiler->compile(request, control);
        const std::lock_guard<std::mutex> lock(mutex);
        EXPECT_EQ(outcome.errors[index], "never done") << "request " << index << " is done twice";
        outcome.order.push_back(index);
        if (binary) {
          outcome.errors[index] = "";
          outcome.codes[index] = StatusCode::Ok;
          outcome.helpers[index] = llvm::StringRef(binary->log).split('\n').first.str();
          EXPECT_THAT(binary->cubin, HasSubstr(request.source.text));
        } else {
          const StatusError status = take_status(binary.takeError());
          outcome.errors[index] = status.message();
          outcome.codes[index] = status.code();
        }
        return true;
      });
  return outcome;
}

TEST(HelperPool, R19_EveryRequestIsDoneOnce) {
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(request_for(i % 5 == 3 ? "fail" : "ok", "#include \"" + std::to_string(i % 7) + "\"\n",
                                   i % 2 == 0 ? "sm_80" : "sm_90a"));
  }
  const Outcome outcome = run(requests, fake_options(4));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(outcome.errors[i], i % 5 == 3 ? "the fake fails" : "") << i;
  }
  EXPECT_EQ(outcome.report.helpers, 4);
  EXPECT_EQ(outcome.report.lost, 0);
  EXPECT_GT(outcome.report.peak_bytes, 0);
}

TEST(HelperPool, R19_NothingToDoIsDone) {
  const Outcome outcome = run({}, fake_options(4));
  EXPECT_EQ(outcome.report.started, 0);
}

TEST(HelperPool, R19_KernelsWithCubComeFirst) {
  std::vector<KernelRequest> requests;
  for (const i32 channels : {8, 16, 24, 32})
    requests.push_back({emit(GatherSpec{.channels = channels}), "sm_90a"});
  for (const ScanInput input : {ScanInput::Values, ScanInput::Hits})
    requests.push_back({emit(ScanSpec{.input = input}), "sm_90a"});
  EXPECT_THAT(run(requests, fake_options(1)).order, testing::ElementsAre(4, 5, 0, 1, 2, 3));
}

TEST(HelperPool, R19_HelpersWorkAtTheSameTime) {
  // Each of the two waits until the other is there too.
  const TemporaryFolder folder;
  const std::vector<KernelRequest> requests = {request_for("meet", folder.path()),
                                               request_for("meet", folder.path())};
  const Outcome outcome = run(requests, fake_options(2));
  EXPECT_THAT(outcome.errors, testing::ElementsAre("", ""));
  EXPECT_NE(outcome.helpers[0], outcome.helpers[1]);
}

TEST(HelperPool, R19_AKilledHelperLosesOnlyItsJob) {
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

TEST(HelperPool, R19_AnswersThatAreWrongAreErrors) {
  const Outcome outcome =
      run({request_for("garbage"), request_for("flip"), request_for("other"), request_for("ok")},
          fake_options(1));
  EXPECT_THAT(outcome.errors[0], HasSubstr("not a message"));
  EXPECT_THAT(outcome.errors[1], HasSubstr("damaged"));
  EXPECT_THAT(outcome.errors[2], HasSubstr("a different kernel"));
  EXPECT_EQ(outcome.errors[3], "");
}

TEST(HelperPool, R19_AHelperThatIsNotThereFailsEveryRequest) {
  const Outcome outcome = run({request_for("ok"), request_for("ok"), request_for("ok")}, fake_options(2),
                              "/nonexistent/minuet-compile");
  EXPECT_THAT(outcome.errors, testing::Each(HasSubstr("/nonexistent/minuet-compile cannot be started")));
  EXPECT_THAT(outcome.codes, testing::Each(StatusCode::Unavailable));
}

TEST(HelperPool, R19_MemoryBoundsTheNumberOfHelpers) {
  constexpr std::int64_t kHalf = std::int64_t{512} << 20;
  EXPECT_EQ(count_helpers(0, {16, 100 * kHalf}, 100), 16) << "one a core";
  EXPECT_EQ(count_helpers(32, {16, 100 * kHalf}, 100), 32) << "as asked";
  EXPECT_EQ(count_helpers(0, {16, 100 * kHalf}, 3), 3) << "no more than jobs";
  EXPECT_EQ(count_helpers(8, {16, 2 * kHalf}, 100), 2) << "half a GiB each";
  EXPECT_EQ(count_helpers(8, {16, 3 * kHalf - 1}, 100), 2);
  EXPECT_EQ(count_helpers(8, {16, 0}, 100), 1) << "at least one";
  EXPECT_EQ(count_helpers(0, {0, kMuch}, 5), 1);
  EXPECT_EQ(count_helpers(0, {4, kMuch}, 0), 1);
  HelperPoolOptions options = fake_options(8);
  options.memory_budget = 2 * kHalf;
  const std::vector<KernelRequest> requests(10, request_for("ok"));
  EXPECT_EQ(run(requests, options).report.helpers, 2);
}

TEST(HelperPool, R17_ACancelEndsEverything) {
  const TemporaryFolder folder;
  std::vector<KernelRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(request_for("sleep", folder / ("busy" + std::to_string(i))));
  CancelToken token;
  HelperPoolOptions options = fake_options(2);
  options.cancel = &token;
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

TEST(HelperPool, R19_AHelperThatMayStartALittleLaterIsWaitedFor) {
  const TemporaryFolder folder;
  const std::string program = folder / "minuet-compile";
  std::filesystem::copy_file(MINUET_FAKE_HELPER, program);
  std::ofstream installer(program, std::ios::app);  // a program that is written to cannot be started
  const int events = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(events, program.c_str(), IN_CLOSE_NOWRITE), 0);
  std::thread later([&] {
    // A start that is refused has opened the program and closes it. The bound is a guard against a hang.
    pollfd refused{events, POLLIN, 0};
    EXPECT_EQ(::poll(&refused, 1, 240000), 1) << "for minutes nobody has tried to start the helper";
    installer.close();
  });
  const KernelRequest request = request_for("ok");
  llvm::Expected<Binary> binary = make_helper_compiler("fixed", program)->compile(request, {});
  later.join();
  ::close(events);
  ASSERT_TRUE(static_cast<bool>(binary)) << llvm::toString(binary.takeError());
  EXPECT_EQ(binary->display_name, request.source.display_name);
}

TEST(HelperPool, R02_ThreadsThatAskAtOnceStartOneHelper) {
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("for threads", MINUET_FAKE_HELPER);
  std::vector<std::string> ids(8);
  std::vector<std::thread> threads;
  for (std::string& id : ids) threads.emplace_back([&] { id = llvm::cantFail(compiler->info()).id; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u) << "the fake's identity is its process";
}

TEST(HelperPool, R17_ThreadsThatWaitForAnAnswerAreFreeToGo) {
  const TemporaryFolder folder;
  const std::string library = "sleep:" + (folder / "asked");
  CancelToken first, second;
  const auto code_of = [&](const CancelToken& cancel) {
    return take_status(identify_nvrtc(library, MINUET_FAKE_HELPER, {&cancel}).takeError()).code();
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

TEST(HelperPool, R08_ThreadsThatWaitShareAFailure) {
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

TEST(HelperPool, R16_OneRequestInOneHelper) {
  const TemporaryFolder folder;
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("fixed", MINUET_FAKE_HELPER);
  for (const std::string what : {"ok", "dieonce"}) {
    const KernelRequest request = request_for(what, folder / "died");
    std::string bytes;
    CompileControl control;
    control.packed = &bytes;
    llvm::cantFail(compiler->compile(request, control));
    const Entry entry = llvm::cantFail(read_entry(bytes));
    EXPECT_EQ(entry.request_key, request.key);
    EXPECT_EQ(entry.binary.display_name, request.source.display_name);
  }
  llvm::Expected<Binary> failed = compiler->compile({request_for("fail").source, "sm_90a"}, {});
  ASSERT_FALSE(failed);
  const StatusError status = take_status(failed.takeError());
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.detail(), "its log");
}

TEST(HelperPool, R16_TheHelperThatToldWhichNvrtcThereIsGoesOnToCompile) {
  const TemporaryFolder folder;
  const std::string program = folder / "minuet-compile";  // so that nobody has asked it yet
  std::filesystem::copy_file(MINUET_FAKE_HELPER, program);
  const Outcome outcome =
      run({request_for("ok"), request_for("ok"), request_for("ok")}, fake_options(1), program);
  EXPECT_THAT(outcome.errors, testing::Each(""));
  EXPECT_EQ(outcome.report.started, 1);
}

TEST(HelperPool, R13_WhatIsStoppedHandsOutNothingMore) {
  std::atomic<int> begun{0};
  HelperPoolOptions options;
  options.jobs = 1;
  for_each_with_helper({request_for("ok"), request_for("ok"), request_for("ok")}, options,
                       [&](std::size_t, const CompileControl&) { return ++begun < 2; });
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace minuet
