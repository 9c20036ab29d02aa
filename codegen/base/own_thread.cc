#include "codegen/base/own_thread.h"

#include <optional>

namespace minuet {
namespace {

/// Holds the value that become_own_thread() stored. It is empty in a thread of the host program.
thread_local std::optional<sigset_t> signals_of_host;

}  // namespace

sigset_t host_signals() {
  if (signals_of_host) return *signals_of_host;
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return now;
}

void become_own_thread(const sigset_t& of_host) { signals_of_host = of_host; }

}  // namespace minuet
