// Starts threads of the library in the process of the host, which is the program that uses the library. These
// threads block all signals, so that the host's threads receive the signals.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace minuet {

/// Returns the signal mask for host code in this thread. In a thread of the library, it is the mask of the
/// host's thread that started the work.
sigset_t host_signals();

/// Sets host_signals() as the signal mask of this thread during a callback into the host. Otherwise a thread
/// or process that the callback starts would inherit a mask that blocks all signals, and no signal could stop
/// it.
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

/// Marks this thread as a thread of the library. `of_host` is the signal mask of the host's thread that
/// started it.
void become_own_thread(const sigset_t& of_host);

/// Starts a thread of the library. Throws std::system_error if the system cannot create one.
template <class Work>
std::thread start_own_thread(Work work) {
  const sigset_t of_host = host_signals();
  sigset_t all, before;
  ::sigfillset(&all);
  // A new thread inherits the mask of the thread that starts it, so it blocks signals from its first
  // instruction.
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
