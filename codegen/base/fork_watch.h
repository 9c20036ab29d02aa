// Detects that the process was forked since an object was created. All functions are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace minuet {

/// Registers the handler that counts forks. Forks before the first call are not counted.
void watch_forks();

/// Returns how many forks lead from the process that first called watch_forks() to this one, or 0 if there
/// was no such call. A value that has changed since an earlier call means that this is a child process, in
/// which the parent's other threads do not exist.
std::uint64_t fork_generation();

/// Holds one value of type T for each process. A forked child gets a new T, because a thread that does not
/// exist in the child may have held a lock of the parent's T or may have been changing it at the time of the
/// fork. The child never deletes the parent's T.
template <class T>
class PerProcess {
 public:
  PerProcess() {
    watch_forks();
    now_ = new Owned{fork_generation()};
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    if (now_.load()->generation == fork_generation()) delete now_.load();
  }

  T& get() const {
    Owned* now = now_.load();
    const std::uint64_t generation = fork_generation();
    if (now->generation == generation) return now->value;
    std::unique_ptr<Owned> fresh(new Owned{generation});
    if (now_.compare_exchange_strong(now, fresh.get())) now = fresh.release();
    return now->value;
  }

 private:
  struct Owned {
    std::uint64_t generation;
    T value{};
  };
  mutable std::atomic<Owned*> now_{nullptr};
};

}  // namespace minuet
