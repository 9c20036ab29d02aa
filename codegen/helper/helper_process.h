// Helper programs, from both sides: started with posix_spawn (never fork), given a job at a time, and gone
// with the one that started them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "codegen/compiler.h"
#include "codegen/error.h"
#include "codegen/helper/protocol.h"

namespace minuet {

/// The program minuet-compile beside the library (or the program) that this code is in; Unavailable
/// where there is none.
llvm::Expected<std::string> find_helper();

/// Not thread-safe. The thread that starts it must outlive it: Linux ends the helper with that thread.
class HelperProcess {
 public:
  /// Unavailable, with the reason, where the program does not start; ResourceExhausted where it may a little
  /// later.
  static llvm::Expected<std::unique_ptr<HelperProcess>> start(const std::string& helper);
  /// Lets an idle helper end, and kills one that does not.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  /// The answer, be it of a failed job. An error means that the helper is lost: Cancelled where it was
  /// killed for `cancel`, else it says how the helper ended ("was killed by SIGKILL").
  llvm::Expected<HelperAnswer> ask(const HelperJob& job, const CancelToken* cancel);

  pid_t id() const { return id_; }

 private:
  HelperProcess(pid_t id, int socket) : id_(id), socket_(socket) {}
  llvm::Error wait_ready(int file, short events, const CancelToken* cancel);
  llvm::Expected<HelperAnswer> exchange(const std::string& frame, const CancelToken* cancel);
  /// Ends the process, having waited so long for it to end by itself; how it ended.
  std::string end(int grace_ms);
  bool has_ended();

  pid_t id_;
  int socket_;
  bool has_ended_ = false;
  int status_ = -1;  // as waitpid has it, -1 where somebody else took it
};

// ---- the helper's side ----------------------------------------------------------------------------------

/// Makes the kernel kill this process with its parent, for which it takes the thread that started it. False
/// where `parent` is not the parent any more.
bool follow_parent(pid_t parent);

/// Answers every job with `answer_job` until `input` ends. An error is a broken stream.
llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job);

}  // namespace minuet
