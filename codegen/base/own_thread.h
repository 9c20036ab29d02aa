// Threads of the library's in the host's process, which take none of its signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace minuet {

/// The signals that the host's code in this thread goes by: in a thread of ours, those of the host's thread
/// that the work began in.
sigset_t host_signals();

/// For what the host is called back for: while it lives, this thread blocks what the host's would. Else what
/// a callback starts, a process too, could not be stopped by any signal.
class HostSignals {
 public:
  HostSignals() : HostSignals(host_signals()) {}
  HostSignals(const HostSignals&) = delete;
  HostSignals& operator=(const HostSignals&) = delete;
  ~HostSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  explicit HostSignals(const sigset_t& signals) { ::pthread_sigmask(SIG_SETMASK, &signals, &before_); }
  sigset_t before_;
};

/// This thread is one of ours, begun by one with those signals.
void become_own_thread(const sigset_t& of_host);

/// A thread of ours. std::system_error where the system gives none.
template <class Work>
std::thread start_own_thread(Work work) {
  const sigset_t of_host = host_signals();
  sigset_t all, before;
  ::sigfillset(&all);
  // From its first instruction on.
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& signals;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &signals, nullptr); }
  } const restore{before};
  return std::thread([of_host, work = std::move(work)]() mutable {
    become_own_thread(of_host);
    work();
  });
}

}  // namespace minuet
