// What one process knows about the kernels of a cache: builds under way or landed, counters, warnings that
// were given. Thread-safe.
#pragma once

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/base/fork_watch.h"
#include "codegen/compile/compiler.h"

namespace minuet {

/// Where a binary came from, for the one who asked first.
enum class BinaryOrigin { Memory, Bundle, Disk, Compiled };
constexpr const char* origin_name(BinaryOrigin origin) {
  constexpr const char* kNames[] = {"memory", "bundle", "disk", "compiled"};
  return kNames[static_cast<int>(origin)];
}

/// What one cache did in this process; a forked child counts from 0 (R32).
struct CacheStats {
  std::int64_t memory_hits = 0, bundle_hits = 0, disk_hits = 0, compiled = 0;
  std::int64_t failures = 0;           // compiles that gave an error, cancelled ones included
  std::int64_t waits = 0;              // for another thread's or another process's work on the same kernel
  std::int64_t lock_timeouts = 0;      // waits for another process that ended with a compile of our own
  std::int64_t cubin_bytes = 0;        // from bundles, disk and compiles
  double compile_ms = 0, wait_ms = 0;  // summed over threads
};

/// One line of a cache's history: which kernel, from where.
struct CacheEvent {
  std::string display_name;
  std::string arch;
  BinaryOrigin origin;
};

/// What a build gave: the binary, or why there is none. Copied to all who wait.
using Outcome = std::variant<std::shared_ptr<const Binary>, StatusError>;
/// A build that is under way or, once it has landed, the memory layer (R13).
using Flight = std::shared_future<Outcome>;

/// True where the build has landed with a binary other than `refused`.
bool has_another(const Flight& landed, const Binary& refused);

/// A forked child begins with nothing: its parent's flights land in the parent only (R16).
class CacheState {
 public:
  /// The flight of a key. `ours`: the caller has to land it, through `promise`. So it is, too, where
  /// `refused` is given and the flight has landed with that or with a failure.
  Flight claim(const std::string& key, const Binary* refused, std::promise<Outcome>& promise, bool& ours);
  void invalidate(const std::string& key);
  /// What has landed under the key, counted as a hit; null where nothing has, or a failure.
  std::shared_ptr<const Binary> find_landed(const std::string& key);

  void count(const Binary& binary, BinaryOrigin origin);
  void count_failure();
  void count_wait(double milliseconds, bool timed_out);
  CacheStats stats() const;
  std::vector<CacheEvent> events() const;

  /// The build key that this process published last; empty where it has published none.
  void note_published(const std::string& build_key);
  std::string last_published() const;

  /// True once a kind of trouble; the text up to the first parenthesis or colon is its kind.
  bool is_news(const std::string& text);

 private:
  struct State {
    std::mutex mutex;  // never held while compiling, reading, writing or warning
    std::map<std::string, Flight> flights;
    std::set<std::string> warned;
    CacheStats stats;
    std::vector<CacheEvent> events;
    std::string last_published;
  };
  PerProcess<State> state_;
};

}  // namespace minuet
