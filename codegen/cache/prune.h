// Keeps the store within its limits (R9): the entries that nobody read for longest go first.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/cache/store_root.h"
#include "codegen/error.h"

namespace minuet {

struct StoreLimits {
  std::uint64_t bytes = 1ull << 30;
  std::uint64_t files = 20000;
  std::chrono::seconds interval = std::chrono::minutes(20);  // between two prunes, of all processes
  std::chrono::seconds touch_interval =
      std::chrono::hours(1);                                // how exactly the time of the last use is kept
  std::chrono::seconds orphan_age = std::chrono::hours(1);  // when a file half written is given up
};

/// An entry as its folder tells of it, unread.
struct StoredEntry {
  std::string build_key;
  std::string path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point modified;  // published or last used, whichever is later
};

struct PruneResult {
  bool ran = false;  // false: the last one was not long ago, or another process prunes now
  std::uint64_t entries = 0, bytes = 0;  // that stay
  std::uint64_t removed_entries = 0, removed_bytes = 0;
  std::uint64_t removed_orphans = 0;  // half written files of killed processes
  std::uint64_t removed_locks = 0;    // lock files that nobody held
};

/// What lies among the entries and is none.
struct Stray {
  std::string path, reason;
};

/// Every stray but the temporary files and folders put aside that the store itself knows. Empty where there
/// is no store.
llvm::Expected<std::vector<Stray>> list_strays(const StoreRoot& root);

/// Every entry, the one used longest ago first. Empty where there is no store.
llvm::Expected<std::vector<StoredEntry>> list_entries(const StoreRoot& root);

/// Removes entries until what stays is a little within both limits; none where it is within them
/// already. `keep`: a build key that stays in any case, or empty. `force`: however short ago the
/// last prune was.
llvm::Expected<PruneResult> prune_entries(const StoreRoot& root, const StoreLimits& limits,
                                          const std::string& keep, bool force);

}  // namespace minuet
