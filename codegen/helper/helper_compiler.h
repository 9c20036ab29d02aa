// NVRTC of a process that never opens it: the helper program tells what it is, and compiles (R2, R16, R27).
//
// NVRTC has locks, which a fork during a compile leaves held for ever, and static objects, which exit()
// destroys under the threads that compile. So neither is let into a host: where there is no helper program
// nothing is compiled.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "codegen/compiler.h"
#include "codegen/helper/helper_process.h"

namespace minuet {

/// Which NVRTC there is, told by a helper that opens it. What was told is known from then on, by this
/// process; an error is not. `library`: as for open_nvrtc; where none is found and none was named, one will
/// do that this process has loaded. `program`: the helper; empty: minuet-compile beside the library.
/// Unavailable where there is no NVRTC, or the helper does not start, is lost or of another version;
/// ResourceExhausted where the system has nothing to start it with. Thread-safe: of threads that ask the
/// same, one asks and the others get what it got. Waits for no thread of a parent process. Of `control` the
/// cancel and the helper count.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& program = {},
                                         const CompileControl& control = {});

/// Identified when that is first asked for: a process that finds all in bundles, or only uses the CPU, starts
/// no helper. A compile that is cancelled is over at once, for its helper is killed (R17). Parameters and
/// errors as above, and FailedPrecondition where NVRTC is another one than was told.
std::shared_ptr<Compiler> make_helper_compiler(std::string library = {}, std::string program = {});

struct HelperReport {
  int started = 0;              // processes, with those that followed lost ones
  int lost = 0;                 // processes that ended before they answered
  int pch_created = 0;          // compiles that made a precompiled header
  int pch_used = 0;             // compiles that used one
  std::int64_t peak_bytes = 0;  // of the one process that took most
};

/// One thread's: a process that is there when it is first asked, and again after it was lost. Not
/// thread-safe.
class Helper {
 public:
  /// What `program` (empty: minuet-compile beside the library) answers to the job, which is tried once more
  /// where the process is lost (then ResourceExhausted), and again for seconds where the system has no
  /// process or file to spare. `what` the job is about, for errors. Cancelled where `cancel` says so: it is
  /// killed.
  llvm::Expected<std::string> ask(const std::string& program, const HelperJob& job, const CancelToken* cancel,
                                  const std::string& what);
  /// Ends a process that has grown, for it keeps what it once had.
  void end_if_large();
  const HelperReport& report() const { return report_; }

 private:
  llvm::Error start(const std::string& program, const CancelToken* cancel);
  llvm::Expected<std::string> read_answer(HelperAnswer answer);

  std::unique_ptr<HelperProcess> process_;
  std::int64_t peak_bytes_ = 0;  // of process_
  HelperReport report_;
};

}  // namespace minuet
