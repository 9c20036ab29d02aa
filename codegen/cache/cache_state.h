// The state of a kernel cache within one process: kernels that are being built or are in memory, counters,
// and warnings already given. Thread-safe.
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

/// The source of a binary for its first request.
enum class BinaryOrigin { Memory, Bundle, Disk, Compiled };
constexpr const char* origin_name(BinaryOrigin origin) {
  constexpr const char* kNames[] = {"memory", "bundle", "disk", "compiled"};
  return kNames[static_cast<int>(origin)];
}

/// Counters of one cache in this process. A forked child counts from 0.
struct CacheStats {
  std::int64_t memory_hits = 0, bundle_hits = 0, disk_hits = 0, compiled = 0;
  std::int64_t failures = 0;           ///< failed compiles, including cancelled ones
  std::int64_t waits = 0;              ///< waits for another thread or process that builds the same kernel
  std::int64_t lock_timeouts = 0;      ///< waits for another process that timed out
  std::int64_t cubin_bytes = 0;        ///< from bundles, disk and compiles
  double compile_ms = 0, wait_ms = 0;  ///< summed over threads
};

/// A record that a kernel was obtained, and its origin.
struct CacheEvent {
  std::string display_name;
  std::string arch;
  BinaryOrigin origin;
};

/// The result of a build: the binary or the error. Every waiting thread gets a copy.
using Outcome = std::variant<std::shared_ptr<const Binary>, StatusError>;
/// A build in progress, shared by the threads that wait for it. Finished builds that are kept form the memory
/// layer of the cache.
using PendingBuild = std::shared_future<Outcome>;

/// Returns true if the result of the finished build `landed` is a binary other than `refused`.
bool has_another(const PendingBuild& landed, const Binary& refused);

/// A forked child starts with an empty state, because its parent's builds finish only in the parent.
class CacheState {
 public:
  /// Returns the build of a key. If there is none, or if `refused` is not null and the build has finished
  /// with that binary or an error, starts a new one and sets `ours`: then the caller must do the build and
  /// set its result in `promise`. Otherwise counts a memory hit.
  PendingBuild claim(const std::string& key, const Binary* refused, std::promise<Outcome>& promise,
                     bool& ours);
  /// Removes the build of a key, so that the next request starts a new one.
  void invalidate(const std::string& key);
  /// Returns the binary of a finished build and counts a memory hit, or returns null if there is no binary.
  std::shared_ptr<const Binary> find_landed(const std::string& key);

  void count(const Binary& binary, BinaryOrigin origin);
  void count_failure();
  void count_wait(double milliseconds, bool timed_out);
  CacheStats stats() const;
  std::vector<CacheEvent> events() const;

  /// Stores the build key that this process published last.
  void note_published(const std::string& build_key);
  /// Returns the build key that this process published last, or an empty string if there is none.
  std::string last_published() const;

  /// Returns true the first time that it gets a warning of its kind. The kind is the text before the first
  /// parenthesis or colon.
  bool is_first_of_kind(const std::string& text);

 private:
  struct State {
    std::mutex mutex;  ///< never held during compiles, file accesses or calls of the host
    std::map<std::string, PendingBuild> flights;
    std::set<std::string> warned;
    CacheStats stats;
    std::vector<CacheEvent> events;
    std::string last_published;
  };
  PerProcess<State> state_;
};

}  // namespace minuet
