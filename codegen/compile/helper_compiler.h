// Compiles with NVRTC in processes of the helper program. The library starts them with posix_spawn() and
// never with fork(). Many kernels compile in as many helper processes as cores and memory allow, both at run
// time and ahead of time.
//
// NVRTC has locks, which a fork during a compile leaves held forever, and static objects, which exit()
// destroys while threads compile. So the library never opens NVRTC in its own process, and compiles nothing
// without the helper program.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile/compiler.h"
#include "codegen/compile/protocol.h"
#include "codegen/compile/resources.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// Returns a compiler that identifies NVRTC only when it is first used. A process that finds all kernels in
/// bundles, or uses only the CPU, therefore starts no helper process. A cancelled compile ends at once,
/// because its helper process is killed. The parameters and errors are those of identify_nvrtc(). A compile
/// also returns FailedPrecondition if NVRTC is not the identified one any more.
std::shared_ptr<Compiler> make_helper_compiler(std::string library = {}, std::string program = {});

struct HelperReport {
  int started = 0;              // Counts started processes, including replacements of lost ones.
  int lost = 0;                 // Counts processes that ended before they answered a job.
  std::int64_t peak_bytes = 0;  // This is the peak memory of the process that used the most memory.
};

/// Returns the path of minuet-compile beside the library or program that contains this code, or Unavailable
/// if it is not there.
llvm::Expected<std::string> find_helper();

/// Owns the helper process of one thread. The process starts at the first request, and again after it was
/// lost. The destructor ends it. Linux also ends the process together with the thread that started it. The
/// class is not thread-safe.
class Helper {
 public:
  Helper() = default;
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// Returns the answer of `program` to the job. An empty `program` means minuet-compile beside the library.
  /// `what` names the job in errors. If the process ends without an answer, tries once more, and then returns
  /// ResourceExhausted with the way in which the process ended ("was killed by SIGKILL"). If the system lacks
  /// processes, memory or files, retries the start for a few seconds. If `cancel` is cancelled, kills the
  /// process and returns Cancelled.
  llvm::Expected<std::string> ask(const std::string& program, const HelperJob& job, const CancelToken* cancel,
                                  const std::string& what);
  /// Ends the process if it has used much memory, because it does not return memory to the system.
  void end_if_large();
  const HelperReport& report() const { return report_; }
  /// Returns the id of the running process, or -1.
  pid_t process_id() const { return process_ ? process_->id : -1; }

 private:
  struct Process {
    pid_t id;
    int socket;
    bool has_ended = false;
    int status = -1;              // Comes from waitpid(), or is -1 if other code waited for the process.
    std::int64_t peak_bytes = 0;  // This is the peak memory that the latest answer reports.
  };

  llvm::Error start(const std::string& program, const CancelToken* cancel);
  /// Starts the process. Returns ResourceExhausted if a later try may succeed, and otherwise Unavailable with
  /// the reason.
  llvm::Error start_once(const std::string& program);
  /// Sends `frame`, an encoded job (encode_job()), and reads the answer. After an error, the process must be
  /// ended. The error Internal means an invalid answer.
  llvm::Expected<HelperAnswer> exchange(const std::string& frame, const CancelToken* cancel);
  llvm::Error wait_ready(int file, short events, const CancelToken* cancel);
  llvm::Expected<std::string> finish(HelperAnswer answer);
  bool has_ended();
  /// Waits up to `grace_ms` milliseconds for the process to end by itself, and then kills it. Returns text
  /// that says how it ended.
  std::string end(int grace_ms);

  std::optional<Process> process_;
  HelperReport report_;
};

// The following declarations distribute many kernels over several helper processes.

struct HelperPoolOptions {
  int jobs = 0;                    // At most this many helper processes run at once; 0 means one per core.
  std::int64_t memory_budget = 0;  // Limits the bytes that all helper processes use; 0 means all available.
  const CancelToken* cancel = nullptr;  // Each call of `work` gets this token in its CompileControl.
};

struct HelperPoolReport : HelperReport {
  int helpers = 0;            // This many helper processes ran at a time.
  std::exception_ptr thrown;  // This is the first exception of `work`, or null if there was none.
};

/// Returns the number of helper processes to start. It is `asked`, or one per core if `asked` is 0, but no
/// more than one per job and one for each half GiB of memory, and at least one.
int count_helpers(int asked, const Resources& resources, std::size_t jobs);

/// Processes request number `index`. Compilations must use `control`, which refers to the helper process of
/// the calling thread. Returns false if no further requests may be started.
using HelperWork = llvm::function_ref<bool(std::size_t index, const CompileControl& control)>;

/// Calls `work` once for every request and returns when all calls have ended. The calls run in this process
/// on several threads, each with its own helper process, and the caller's thread is one of them. Requests
/// that include CUB come first, because they take longest. An exception from `work` ends the work of its own
/// thread only. If every thread ends in this way, some requests are never processed.
HelperPoolReport for_each_with_helper(const std::vector<KernelRequest>& requests,
                                      const HelperPoolOptions& options, HelperWork work);

}  // namespace minuet
