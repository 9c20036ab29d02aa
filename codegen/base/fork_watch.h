// Whether this is still the process that things were made in (R16). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace minuet {

/// Forks are seen from here on.
void watch_forks();

/// Forks between the process that watched first and this one: another value means another process,
/// in which no thread of the earlier one goes on. 0 before that.
std::uint64_t fork_generation();

/// A T of this process. A forked child begins with a new one: a thread that it does not have may hold a lock
/// of its parent's T for ever, or be in the middle of a change. That one is left as it is, not even deleted.
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
