// What one process knows of its kernels: flights, counters, what it has warned of. Thread-safe.
#pragma once

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/cache/kernel_cache.h"

namespace minuet {

/// What a build gave: the binary, or why there is none. Copied to all who wait.
using Outcome = std::variant<std::shared_ptr<const Binary>, StatusError>;
/// A build that is under way or, once it has landed, the memory layer (R13).
using Flight = std::shared_future<Outcome>;

/// A forked child begins with nothing: a thread that it does not have may hold the lock of its parent's
/// state for ever, and the parent's flights land in the parent only (R16).
class CacheState {
 public:
  CacheState();
  CacheState(const CacheState&) = delete;
  CacheState& operator=(const CacheState&) = delete;
  ~CacheState();

  /// The flight of a request key. `ours`: the caller has to land it, through `promise`.
  Flight claim(const std::string& key, std::promise<Outcome>& promise, bool& ours);
  /// The same, but for a flight that has landed with `refused` or a failure: that is ours to do again.
  Flight claim_instead_of(const Binary& refused, const std::string& key, std::promise<Outcome>& promise,
                          bool& ours);
  void forget(const std::string& key);

  void count(const Binary& binary, BinaryOrigin origin);
  void count_failures(std::int64_t count);
  void count_wait(double milliseconds, bool timed_out);
  CacheStats stats() const;
  std::vector<CacheEvent> events() const;

  /// True once a kind of trouble; the text up to the first parenthesis or colon is its kind.
  bool is_news(const std::string& text);

 private:
  struct State;
  State& state() const;
  mutable std::atomic<State*> state_;
};

}  // namespace minuet
