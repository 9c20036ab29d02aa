// NVRTC of a process that never opens it: the helper program, started with posix_spawn (never fork), compiles
// (R16, R27); many kernels in as many helpers as cores and memory allow, just in time and ahead (R19).
//
// NVRTC has locks, which a fork during a compile leaves held for ever, and static objects, which exit()
// destroys under the threads that compile. So neither is let into a host: where there is no helper program
// nothing is compiled.
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

/// Identified when that is first asked for: a process that finds all in bundles, or only uses the CPU, starts
/// no helper. A compile that is cancelled is over at once, for its helper is killed (R17). Parameters and
/// errors as of identify_nvrtc, and FailedPrecondition where NVRTC is another one than was told.
std::shared_ptr<Compiler> make_helper_compiler(std::string library = {}, std::string program = {});

struct HelperReport {
  int started = 0;              // processes, with those that followed lost ones
  int lost = 0;                 // processes that ended before they answered
  std::int64_t peak_bytes = 0;  // of the one process that took most
};

/// The program minuet-compile beside the library (or the program) that this code is in; Unavailable
/// where there is none.
llvm::Expected<std::string> find_helper();

/// One thread's: a process that is there when it is first asked, and again after it was lost; an idle one
/// ends with this. Not thread-safe. Linux ends the process with the thread that started it.
class Helper {
 public:
  Helper() = default;
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  /// What `program` (empty: minuet-compile beside the library) answers to the job, which is tried once more
  /// where the process is lost (then ResourceExhausted, with how it ended: "was killed by SIGKILL"), and
  /// again for seconds where the system has no process or file to spare. `what` the job is about, for errors.
  /// Cancelled where `cancel` says so: it is killed.
  llvm::Expected<std::string> ask(const std::string& program, const HelperJob& job, const CancelToken* cancel,
                                  const std::string& what);
  /// Ends a process that has grown, for it keeps what it once had.
  void end_if_large();
  const HelperReport& report() const { return report_; }
  /// Of the process that is there; -1 where none is.
  pid_t process_id() const { return process_ ? process_->id : -1; }

 private:
  struct Process {
    pid_t id;
    int socket;
    bool has_ended = false;
    int status = -1;              // as waitpid has it, -1 where somebody else took it
    std::int64_t peak_bytes = 0;  // of memory, as it said at last
  };

  llvm::Error start(const std::string& program, const CancelToken* cancel);
  /// Unavailable, with the reason, where it does not start; ResourceExhausted where it may a little later.
  llvm::Error start_once(const std::string& program);
  /// An error means that the process is lost: Internal where it talks nonsense.
  llvm::Expected<HelperAnswer> exchange(const std::string& frame, const CancelToken* cancel);
  llvm::Error wait_ready(int file, short events, const CancelToken* cancel);
  llvm::Expected<std::string> finish(HelperAnswer answer);
  bool has_ended();
  /// Ends the process, having waited so long for it to end by itself; how it ended.
  std::string end(int grace_ms);

  std::optional<Process> process_;
  HelperReport report_;
};

// ---- many kernels, many helpers --------------------------------------------------------------------------

struct HelperPoolOptions {
  int jobs = 0;                         // most helpers at a time; 0: one a core
  std::int64_t memory_budget = 0;       // bytes for all helpers; 0: what there is
  const CancelToken* cancel = nullptr;  // goes into each control
};

struct HelperPoolReport : HelperReport {
  int helpers = 0;            // at a time
  std::exception_ptr thrown;  // what `work` threw first; null: it threw nothing, and all was done
};

/// How many: as asked (or one a core), no more than jobs, and half a GiB for each, at least one.
int count_helpers(int asked, const Resources& resources, std::size_t jobs);

/// Does what is to be done for one request; where it compiles, with `control`, which has its thread's helper.
/// False: the requests that nobody has begun are left.
using HelperWork = llvm::function_ref<bool(std::size_t index, const CompileControl& control)>;

/// Calls `work` once for every request, in this process, from several threads at once, each with a helper of
/// its own, and returns when each is done: those with CUB first, because they take longest. The caller's
/// thread is one of them. What `work` throws ends its thread's turn: the others go on, and some requests may
/// never be done.
HelperPoolReport for_each_with_helper(const std::vector<KernelRequest>& requests,
                                      const HelperPoolOptions& options, HelperWork work);

}  // namespace minuet
