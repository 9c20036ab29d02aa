#include "codegen/base/own_thread.h"

#include <optional>

namespace minuet {
namespace {

thread_local std::optional<sigset_t> signals_of_host;  // Is empty in a thread of the host.

}  // namespace

sigset_t host_signals() {
  if (signals_of_host) return *signals_of_host;
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return now;
}

void become_own_thread(const sigset_t& of_host) { signals_of_host = of_host; }

}  // namespace minuet
