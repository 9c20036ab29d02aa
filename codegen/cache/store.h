// The store of kernels on disk. Each entry is a file that is written atomically and checked when it is read.
// Thread-safe.
//
//   <directory>/v<format>/obj/<2 hex>/<62 hex>   the entry of a build key
//                         obj/<2 hex>/tmp-...    an entry that is being written
//                         obj/<2 hex>/aside-...  a foreign folder that blocked an entry's path; kept
//                         lock/<64 hex>          the lock for building this key (file_lock.h)
//                         compilers/<id>         an empty file for each compiler that has entries
//                         pruned                 its time is that of the last prune (prune.cc)
//                         size                   the size of the store (size_record.h)
//
// Folders of other formats belong to other versions of the library, which may be in use, and are never
// changed.
//
// Only functions that return Error or Expected report errors. For the others, a failure is a miss, an entry
// that is not kept or a lock that is not held, usually with a warning.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/base/error.h"
#include "codegen/base/file_lock.h"
#include "codegen/base/file_system.h"
#include "codegen/compile/entry.h"

namespace minuet {

/// The folder <directory>/<top> of files that are written atomically, with its policies.
struct StoreRoot {
  std::string directory;
  TrustPolicy policy;
  FileSystem& system;
  std::string top;  ///< empty: the directory itself
  bool read_only = false;

  /// Opens <top>/<part>/... and checks each part like the directory itself. Every call walks the path again,
  /// so that no descriptor is kept open and a directory that was removed is created again. A read-only store
  /// creates nothing, even with Missing::Make.
  llvm::Expected<FileHandle> open(const std::vector<std::string>& parts, Missing missing) const;
  /// Returns <directory>/<top>/<part>/...
  std::string path(const std::vector<std::string>& parts) const;

  /// Returns the bytes of a file in an open folder, and its `status`. Returns NotFound if it is missing, and
  /// InvalidArgument if it is not a regular file, not trusted, longer than `most_bytes`, or truncated
  /// meanwhile.
  llvm::Expected<std::string> read_file(int folder, const std::string& name, std::uint64_t most_bytes,
                                        struct stat& status) const;
  /// Writes a temporary file and renames it. Does not sync it, because readers detect a file that a crash
  /// left incomplete.
  llvm::Error write_file(int folder, const std::string& name, llvm::StringRef bytes) const;
};

// ---- files of the store -------------------------------------------------------------------------------

/// Returns true if `text` is 64 lower-case hex digits, the form of the keys in keys.h.
bool is_key(llvm::StringRef text);

/// Returns a file name with this prefix that is unique among all threads, processes and hosts.
std::string unique_name(llvm::StringRef prefix);
/// The prefix of files that are being written. A prune removes those left by killed processes.
inline constexpr const char* kTemporaryPrefix = "tmp-";
/// The prefix to which a folder that blocks an entry's path is renamed.
inline constexpr const char* kAsidePrefix = "aside-";

/// Returns true if `then` is at least `age` before or after now. Times in the future count, because a file
/// server with a wrong clock may set them and they might not pass for a long time.
bool is_older(const struct timespec& then, std::chrono::seconds age);

/// The result of remove_if_same(). Gone: the file did not exist any more.
enum class Removal { Removed, Gone, Kept };
/// Removes the file `name` if it is still the file that was `seen`. Checks it directly before the removal,
/// because another process may have used or replaced it.
Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen);

/// A limit of bytes with which keep_limits() does nothing, for commands that only look at a folder.
inline constexpr std::uint64_t kNoByteLimit = UINT64_MAX;

struct StoreLimits {
  std::uint64_t bytes = 1ull << 30;
  std::uint64_t files = 20000;
  std::chrono::seconds interval = std::chrono::minutes(20);     ///< between two prunes, over all processes
  std::chrono::seconds touch_interval = std::chrono::hours(1);  ///< precision of the time of last use
  std::chrono::seconds orphan_age = std::chrono::hours(1);      ///< age at which a temporary file is removed
};

/// Facts about an entry that are known without reading it.
struct StoredEntry {
  std::string build_key;
  std::string path;
  std::uint64_t bytes = 0;
  std::chrono::system_clock::time_point modified;  ///< publication or last use, the later one
};

struct PruneResult {
  bool ran = false;                      ///< false if the last prune is recent or another process is pruning
  std::uint64_t entries = 0, bytes = 0;  ///< remaining
  std::uint64_t removed_entries = 0, removed_bytes = 0;
  std::uint64_t removed_orphans = 0;  ///< incomplete files of killed processes
  std::uint64_t removed_locks = 0;    ///< lock files that were not in use
};

/// A file or folder among the entries that is not an entry.
struct ForeignFile {
  std::string path, reason;
};

// ---- the store ----------------------------------------------------------------------------------------

struct StoreOptions {
  StoreLimits limits = {};
  bool read_only = false;     ///< true: create, lock, touch, remove and write nothing
  int format = kEntryFormat;  ///< the version in the folder's name
};

class Store {
 public:
  using Warn = std::function<void(const std::string&)>;

  Store(std::string directory, TrustPolicy policy, FileSystem& system, Warn warn, StoreOptions options = {})
      : root_{std::move(directory), policy, system, "v" + std::to_string(options.format), options.read_only},
        limits_(options.limits),
        warn_(std::move(warn)) {}

  /// Creates the directory if necessary and returns an error if it cannot be used. For a read-only store, a
  /// missing directory is not an error.
  llvm::Error check();

  /// Returns the entry of a build key, or nothing on a miss. An entry that is damaged or not trusted is
  /// removed and is a miss.
  std::optional<Entry> find(const std::string& build_key);

  /// Writes an entry atomically. Failures are only warnings. Afterwards releases `lock` and then prunes if
  /// the last prune is longer ago than the interval, so that no other process waits for the prune.
  void publish(const std::string& build_key, const std::string& bytes, FileLock* lock = nullptr);

  /// Records that the store has entries of this compiler, for processes that cannot identify a compiler.
  /// Returns false on failure.
  bool note_compiler(const std::string& id);
  /// Returns the recorded compiler ids, sorted.
  std::vector<std::string> compilers();

  /// Takes the lock for building `build_key`; waits at most for `bound`.
  FileLock lock(const std::string& build_key, std::chrono::milliseconds bound, const CancelToken* cancel);

  /// Returns the entry, or the reason why it cannot be used. Changes nothing. Returns NotFound if there is
  /// none.
  llvm::Expected<Entry> read(const std::string& build_key);
  /// Returns all entries, the least recently used first; empty if there is no store.
  llvm::Expected<std::vector<StoredEntry>> list();
  /// Returns all strays, except temporary files and renamed folders of the store itself; empty if there is no
  /// store.
  llvm::Expected<std::vector<ForeignFile>> strays();
  /// If the entries exceed a limit, removes the least recently used ones until both limits are met with some
  /// margin. Also removes old temporary files and unused lock files. Does nothing if the last prune is
  /// recent, unless `force`. The entry with the build key `keep` is not removed; `keep` may be empty.
  llvm::Expected<PruneResult> prune(const StoreLimits& limits, bool force, const std::string& keep = "");
  /// Prunes by the store's own limits if the recorded size exceeds them or is unknown; otherwise reads only
  /// that record. Does nothing with kNoByteLimit. Called when a folder is opened and when a cache that
  /// published to it is destroyed. Returns an error if the record exceeds the limits and the prune fails.
  /// `keep` is as in prune().
  llvm::Error keep_limits(const std::string& keep = "");
  /// Warns that a prune failed with `error`.
  void warn_not_pruned(llvm::Error error);

  const std::string& directory() const { return root_.directory; }
  std::string entry_path(const std::string& build_key) const;

 private:
  llvm::Expected<FileHandle> open_shelf(const std::string& build_key, Missing missing);
  llvm::Expected<Entry> read_from(int shelf, const std::string& build_key, struct stat& status);
  void clear_place(int shelf, const std::string& name, const struct stat& seen);

  StoreRoot root_;
  StoreLimits limits_;
  Warn warn_;
};

}  // namespace minuet
