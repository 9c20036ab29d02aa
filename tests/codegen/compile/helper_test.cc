// Helpers with the real NVRTC.
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

#include "codegen/compile/entry.h"
#include "codegen/compile/helper_compiler.h"
#include "codegen/compile/identify_nvrtc.h"
#include "codegen/compile/nvrtc_library.h"
#include "codegen/source/keys.h"
#include "tests/codegen/compile/gated_helper.h"
#include "tests/codegen/fakes.h"
#include "tests/kernels_templates/test_kernels.h"
#include "tests/support/environment.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;

llvm::Expected<Entry> compile_in_helper(const KernelRequest& request, const std::string& library = {}) {
  std::string bytes;
  CompileControl control;
  control.packed = &bytes;
  MINUET_ASSIGN(const Binary binary, make_helper_compiler(library, MINUET_HELPER)->compile(request, control));
  return read_entry(bytes);
}

/// Kernels that take NVRTC a second each.
std::vector<KernelRequest> cub_requests(int count, const std::string& arch = "sm_90a") {
  constexpr ScanInput kInputs[] = {ScanInput::Values, ScanInput::Heads32, ScanInput::Heads64,
                                   ScanInput::Hits};
  std::vector<KernelRequest> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back({emit(ScanSpec{.input = kInputs[i % 4], .items_per_thread = 1 + i / 4}), arch});
  }
  return requests;
}

class Helper : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<std::shared_ptr<Compiler>> compiler = open_nvrtc();
    if (!compiler) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(compiler.takeError()));
    compiler_ = *compiler;
  }

  Binary compile_here(const KernelRequest& request) {
    return llvm::cantFail(compiler_->compile(request, CompileControl()));
  }
  std::shared_ptr<Compiler> compiler_;
};

struct PoolRun {
  std::size_t done = 0;
  std::vector<std::string> errors;
  HelperPoolReport report;
};

PoolRun run_pool(const std::vector<KernelRequest>& requests, const HelperPoolOptions& options) {
  PoolRun run;
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("", MINUET_HELPER);
  std::mutex mutex;
  run.report = for_each_with_helper(requests, options, [&](std::size_t index, const CompileControl& control) {
    llvm::Expected<Binary> binary = compiler->compile(requests[index], control);
    const std::lock_guard<std::mutex> lock(mutex);
    if (binary) {
      ++run.done;
    } else {
      run.errors.push_back(llvm::toString(binary.takeError()));
    }
    return true;
  });
  return run;
}

TEST_F(Helper, R16_AHelperGivesTheSameEntry) {
  const KernelRequest request{emit(GatherSpec{}), "sm_90a"};
  const Entry entry = llvm::cantFail(compile_in_helper(request));
  const Binary here = compile_here(request);
  EXPECT_EQ(entry.binary.cubin, here.cubin);
  EXPECT_EQ(entry.binary.lowered_name, here.lowered_name);
  const std::string id = llvm::cantFail(compiler_->info()).id;
  EXPECT_EQ(entry.binary.compiler_id, id);
  EXPECT_EQ(entry.request_key, request.key);
  EXPECT_EQ(entry.build_key, build_key(entry.request_key, id));
}

TEST_F(Helper, R16_AHelperCompilesWithTheOptionsOfTheRow) {
  const KernelRequest request{emit_whole(MINUET_SOURCE_DIR, RelaySpec{}), "sm_90a"};
  KernelRequest without = request;
  without.source.options.clear();
  const Entry entry = llvm::cantFail(compile_in_helper(request));
  EXPECT_EQ(entry.binary.cubin, compile_here(request).cubin);
  EXPECT_EQ(entry.request_key, request.key);
  EXPECT_NE(entry.binary.cubin, compile_here(without).cubin);
}

TEST_F(Helper, R16_AFailedCompileComesWithItsLog) {
  KernelSource source = make_source("probe", "template <int> __global__ void probe() { int x = ; }\n");
  source.name_expression = "probe<1>";
  llvm::Expected<Entry> entry = compile_in_helper({source, "sm_90a"});
  ASSERT_FALSE(entry);
  const StatusError status = take_status(entry.takeError());
  EXPECT_THAT(status.message(), HasSubstr("expected an expression"));
  EXPECT_THAT(status.detail(), HasSubstr("minuet_kernel.cu(1): error"));
}

TEST_F(Helper, R16_TheEnvironmentAndTheLibraryPassThrough) {
  llvm::Expected<Entry> entry = compile_in_helper({emit(GatherSpec{}), "sm_90a"}, "/nonexistent/libnvrtc.so");
  ASSERT_FALSE(entry);
  EXPECT_THAT(take_status(entry.takeError()).detail(), HasSubstr("/nonexistent/libnvrtc.so"));
  const EnvironmentVariable missing("MINUET_NVRTC", "/missing/libnvrtc.so");
  entry = compile_in_helper({emit(GatherSpec{}), "sm_90a"});
  ASSERT_FALSE(entry);
  EXPECT_THAT(take_status(entry.takeError()).detail(), HasSubstr("/missing/libnvrtc.so"));
}

TEST_F(Helper, R02_AHelperTellsWhichNvrtcItIs) {
  const NvrtcInfo here = llvm::cantFail(compiler_->info());
  EXPECT_EQ(loaded_nvrtcs(), std::vector<std::string>{here.path});  // which the helper is told
  for (const std::string& library : {std::string(), here.path}) {
    const NvrtcInfo told = llvm::cantFail(identify_nvrtc(library, MINUET_HELPER));
    EXPECT_EQ(told.id, here.id);
    EXPECT_EQ(told.path, here.path);
    EXPECT_EQ(told.version, here.version);
    EXPECT_EQ(told.archs, here.archs);
  }
  llvm::Expected<NvrtcInfo> missing = identify_nvrtc("/nonexistent/libnvrtc.so", MINUET_HELPER);
  ASSERT_FALSE(missing);
  EXPECT_THAT(take_status(missing.takeError()).detail(), HasSubstr("/nonexistent/libnvrtc.so"));
}

// ---- fork ------------------------------------------------------------------------------------------

/// What the child of one round does, and its exit code: 0 where all is well.
int compile_in_child(Compiler& compiler, const KernelRequest& request) {
  // A hang ends the child by SIGALRM: far more than a compile takes on a busy machine.
  ::alarm(60);
  llvm::Expected<Binary> binary = compiler.compile(request, {});
  if (!binary) {
    std::fprintf(stderr, "%s\n", llvm::toString(binary.takeError()).c_str());
    return 2;
  }
  return 0;
}

/// Forks while the parent's helper is behind the gate, having asked which NVRTC there is or not yet.
void fork_during_a_compile(bool is_identified) {
  GatedHelper helper(MINUET_HELPER);
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("", helper.program());
  if (is_identified) llvm::cantFail(compiler->info());
  helper.close();
  std::atomic<bool> done{false};
  std::thread thread([&] {
    const KernelRequest request = cub_requests(1)[0];
    llvm::cantFail(compiler->compile(request, {}));
    done = true;
  });
  helper.wait();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(compile_in_child(*compiler, {emit(GatherSpec{}), "sm_90a"}));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(done) << "the gate is closed";
  helper.open();
  thread.join();
  ASSERT_TRUE(WIFEXITED(status)) << "the child hung, or died of " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Helper, R16_AForkDuringACompileCompiles) {
  const int rounds = long_tests_wanted() ? 100 : 2;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    fork_during_a_compile(/*is_identified=*/round % 2 != 0);
  }
}

// ---- cancel ------------------------------------------------------------------------------------------

/// Helpers that this process started and that have grown to what a compile takes.
std::vector<pid_t> busy_helpers() {
  std::vector<pid_t> found;
  DIR* const folder = ::opendir("/proc");
  while (const dirent* entry = ::readdir(folder)) {
    const int process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    const std::string status = contents("/proc/" + std::string(entry->d_name) + "/status");
    const auto number = [&](const char* field) {
      const std::size_t at = status.find(field);
      return at == std::string::npos ? 0L : std::atol(status.c_str() + at + std::string(field).size());
    };
    if (number("PPid:") == ::getpid() && number("VmRSS:") > 100 * 1024) found.push_back(process);
  }
  ::closedir(folder);
  return found;
}

/// Those, as soon as there is one.
std::vector<pid_t> wait_for_busy_helpers() {
  std::vector<pid_t> helpers;
  wait_until("a helper that compiles", [&] { return !(helpers = busy_helpers()).empty(); });
  return helpers;
}

TEST_F(Helper, R17_ALongCompileIsCancelled) {
  const KernelRequest request = cub_requests(1)[0];
  CancelToken token;
  std::thread canceller([&] {
    // Held still, so that it cannot be done before the cancel.
    for (const pid_t helper : wait_for_busy_helpers()) ::kill(helper, SIGSTOP);
    token.cancel();
  });
  CompileControl control;
  control.cancel = &token;
  const std::shared_ptr<Compiler> compiler = make_helper_compiler("", MINUET_HELPER);
  llvm::Expected<Binary> binary = compiler->compile(request, control);
  canceller.join();
  ASSERT_FALSE(binary);
  const StatusError status = take_status(binary.takeError());
  EXPECT_EQ(status.code(), StatusCode::Cancelled);
  EXPECT_THAT(status.message(), HasSubstr(request.source.display_name));
  // Nothing is spoilt by it.
  EXPECT_EQ(llvm::cantFail(compile_in_helper(request)).binary.cubin, compile_here(request).cubin);
}

// ---- many ------------------------------------------------------------------------------------------

TEST_F(Helper, R19_AHelperStaysWithinItsShareOfMemory) {
  const std::vector<KernelRequest> requests = cub_requests(long_tests_wanted() ? 100 : 3);
  HelperPoolOptions options;
  options.jobs = long_tests_wanted() ? 0 : 1;
  const PoolRun run = run_pool(requests, options);
  EXPECT_THAT(run.errors, testing::IsEmpty());
  EXPECT_EQ(run.done, requests.size());
  EXPECT_LT(run.report.peak_bytes, std::int64_t{512} << 20)
      << "count_helpers() reckons with so much for each";
}

TEST_F(Helper, R19_AKilledHelperLosesOnlyItsJob) {
  const std::vector<KernelRequest> requests = cub_requests(3);
  HelperPoolOptions options;
  options.jobs = 1;
  std::thread killer([] {
    for (const pid_t helper : wait_for_busy_helpers()) ::kill(helper, SIGKILL);
  });
  const PoolRun run = run_pool(requests, options);
  killer.join();
  EXPECT_THAT(run.errors, testing::IsEmpty());
  EXPECT_EQ(run.report.lost, 1);
  EXPECT_GE(run.report.started, 2) << "a helper that has grown is ended between two kernels, too";
}

}  // namespace
}  // namespace minuet
