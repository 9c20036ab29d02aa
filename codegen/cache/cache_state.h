// Holds the state of a kernel cache within one process, which consists of kernels that are being built or are
// in memory, counters, and warnings already given. All functions are thread-safe.
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

/// Says from where the cache obtained a binary when it was requested for the first time.
enum class BinaryOrigin { Memory, Bundle, Disk, Compiled };
constexpr const char* origin_name(BinaryOrigin origin) {
  constexpr const char* kNames[] = {"memory", "bundle", "disk", "compiled"};
  return kNames[static_cast<int>(origin)];
}

/// Counts the events of one cache in this process. A forked child counts from 0.
struct CacheStats {
  std::int64_t memory_hits = 0, bundle_hits = 0, disk_hits = 0, compiled = 0;
  std::int64_t failures = 0;  ///< Counts failed compilations, including cancelled ones.
  std::int64_t waits = 0;     ///< Counts waits for another thread or process that builds the same kernel.
  std::int64_t lock_timeouts = 0;      ///< Counts waits for another process that timed out.
  std::int64_t cubin_bytes = 0;        ///< Adds up the sizes of cubins from bundles, disk and compiler.
  double compile_ms = 0, wait_ms = 0;  ///< Both times are sums over all threads.
};

/// Records which kernel the cache obtained, and from where.
struct CacheEvent {
  std::string display_name;
  std::string arch;
  BinaryOrigin origin;
};

/// Holds the result of a build, which finds or compiles a kernel. It is the binary or the error. Every
/// waiting thread gets a copy.
using Outcome = std::variant<std::shared_ptr<const Binary>, StatusError>;
/// Represents a build that is in progress or finished. All threads that need the kernel share it. The cache
/// keeps finished builds, so that later requests find their binaries in memory.
using PendingBuild = std::shared_future<Outcome>;

/// Returns true if the result of the finished build `landed` is a binary other than `refused`.
bool has_another(const PendingBuild& landed, const Binary& refused);

/// Holds the state of a kernel cache within one process. A forked child starts with an empty state, because
/// its parent's builds finish only in the parent.
class CacheState {
 public:
  /// Returns the build that finds or compiles the kernel of a key. Starts a new build if there is none, or if
  /// `refused` (a binary that the driver refused to load) is not null and the build has finished with that
  /// binary or with an error. If it starts one, sets `ours` to true, and the caller must do the build and set
  /// its result in `promise`. Otherwise sets `ours` to false and counts a memory hit.
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

  /// Stores the build key (keys.h) of the kernel that this process has written to disk last.
  void note_published(const std::string& build_key);
  /// Returns the build key (keys.h) of the kernel that this process has written to disk last, or an empty
  /// string if there is none.
  std::string last_published() const;

  /// Returns true if `text` is the first warning of its kind. The kind is the text before the first
  /// parenthesis or colon.
  bool is_first_of_kind(const std::string& text);

 private:
  struct State {
    std::mutex mutex;  ///< Is never held while code compiles, accesses files or calls the host program.
    std::map<std::string, PendingBuild> flights;
    std::set<std::string> warned;
    CacheStats stats;
    std::vector<CacheEvent> events;
    std::string last_published;
  };
  PerProcess<State> state_;
};

}  // namespace minuet
