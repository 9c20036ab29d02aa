// Defines the store of kernels on disk. Each entry, which is one compiled kernel (entry.h), is a file that is
// written atomically and checked when it is read. All functions are thread-safe. The store has the following
// files below <directory>/v<format>/:
//
//   obj/<2 hex>/<62 hex>   holds the entry of the build key with these 64 hex digits.
//   obj/<2 hex>/tmp-...    holds an entry that is being written.
//   obj/<2 hex>/aside-...  is a foreign folder that blocked the path of an entry and was renamed.
//   lock/<64 hex>          is the lock for building this key (file_lock.h).
//   compilers/<id>         is an empty file for each compiler that has entries.
//   pruned                 has as its modification time that of the last removal of old entries (prune.cc).
//   size                   records the size of the store (size_record.h).
//
// Folders v<format> with another format belong to other versions of the library, which may be in use, and are
// never changed.
//
// Only functions that return llvm::Error or llvm::Expected report errors. For the other functions, a failure
// means that an entry is not found or not kept, or that a lock is not held. These functions usually warn of
// the failure.
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

/// Represents the folder <directory>/<top>, whose files are written atomically, and holds the rules for
/// access to it.
struct StoreRoot {
  std::string directory;
  TrustPolicy policy;
  FileSystem& system;
  std::string top;  ///< If `top` is empty, the folder is `directory` itself.
  bool read_only = false;

  /// Opens <top>/<part>/... and checks each part as it checks the directory itself. Every call opens the
  /// whole path again, so that no descriptor is kept open and a directory that was removed is created again.
  /// A read-only store creates nothing, even with Missing::Make.
  llvm::Expected<FileHandle> open(const std::vector<std::string>& parts, Missing missing) const;
  /// Returns the path <directory>/<top>/<part>/...
  std::string path(const std::vector<std::string>& parts) const;

  /// Returns the bytes of a file in an open folder, and stores its attributes in `status`. Returns NotFound
  /// if the file is missing. Returns InvalidArgument if it is not a regular file, not trusted, longer than
  /// `most_bytes`, or becomes shorter during the call.
  llvm::Expected<std::string> read_file(int folder, const std::string& name, std::uint64_t most_bytes,
                                        struct stat& status) const;
  /// Writes a temporary file and renames it to `name`. Does not sync it, because readers detect a file that a
  /// crash left incomplete.
  llvm::Error write_file(int folder, const std::string& name, llvm::StringRef bytes) const;
};

/// Returns true if `text` has the form of a request key or build key (keys.h), which is 64 lower-case hex
/// digits.
bool is_key(llvm::StringRef text);

/// Returns a file name with this prefix that is unique among all threads, processes and hosts.
std::string unique_name(llvm::StringRef prefix);
/// Begins the names of files that are being written. A prune removes such files if killed processes have left
/// them.
inline constexpr const char* kTemporaryPrefix = "tmp-";
/// Begins the new name of a folder that blocked the path of an entry and was renamed.
inline constexpr const char* kAsidePrefix = "aside-";

/// Returns true if `then` is at least `age` before or after now. Times in the future count too, because a
/// file server with a wrong clock may have set them, and it might take very long until they are in the past.
bool is_older(const struct timespec& then, std::chrono::seconds age);

/// Says what remove_if_same() has done. Gone means that the file did not exist any more. Kept means that it
/// has changed or cannot be removed.
enum class Removal { Removed, Gone, Kept };
/// Removes the file `name` if it is still the file with the attributes `seen`. The file is checked directly
/// before the removal, because another process may have used or replaced it.
Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen);

/// If StoreLimits::bytes has this value, keep_limits() does nothing. Commands that only look at a folder use
/// this value.
inline constexpr std::uint64_t kNoByteLimit = UINT64_MAX;

struct StoreLimits {
  std::uint64_t bytes = 1ull << 30;
  std::uint64_t files = 20000;
  /// Sets the least time between two prunes that are not forced, whichever processes make them.
  std::chrono::seconds interval = std::chrono::minutes(20);
  /// Sets the precision of the recorded time of an entry's last use: it is updated only if it is older than
  /// this.
  std::chrono::seconds touch_interval = std::chrono::hours(1);
  /// Sets the age from which on a prune removes a temporary file.
  std::chrono::seconds orphan_age = std::chrono::hours(1);
};

/// Describes an entry with facts that are known without reading its file.
struct StoredEntry {
  std::string build_key;
  std::string path;
  std::uint64_t bytes = 0;
  /// Gives the time of publication or of last use, whichever is later.
  std::chrono::system_clock::time_point modified;
};

struct PruneResult {
  bool ran = false;  ///< Is false if the last prune is recent or another process is pruning.
  std::uint64_t entries = 0, bytes = 0;  ///< Count the entries that remain and their bytes.
  std::uint64_t removed_entries = 0, removed_bytes = 0;
  std::uint64_t removed_orphans = 0;  ///< Counts removed temporary files, which killed processes had left.
  std::uint64_t removed_locks = 0;    ///< Counts removed lock files, which were not in use.
};

/// Describes a file or folder among the entries that is not an entry.
struct ForeignFile {
  std::string path, reason;
};

struct StoreOptions {
  StoreLimits limits = {};
  bool read_only = false;     ///< Is true if the store must change nothing on disk.
  int format = kEntryFormat;  ///< Gives the number in the name of the folder v<format>.
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

  /// Returns the entry of a build key (keys.h), or std::nullopt if there is no usable one. An entry that is
  /// damaged or not trusted is removed, unless the store is read-only.
  std::optional<Entry> find(const std::string& build_key);

  /// Writes an entry atomically. A failure only causes a warning. Afterwards releases `lock`, which may be
  /// null, and then prunes if the last prune is longer ago than the interval. The lock is released first, so
  /// that no other process waits for the prune.
  void publish(const std::string& build_key, const std::string& bytes, FileLock* lock = nullptr);

  /// Records that the store has kernels of this compiler, so that processes that cannot identify a compiler
  /// find them. Returns false on failure.
  bool note_compiler(const std::string& id);
  /// Returns the recorded compiler ids, sorted.
  std::vector<std::string> compilers();

  /// Takes the lock for building `build_key`, and waits for it at most for `bound`.
  FileLock lock(const std::string& build_key, std::chrono::milliseconds bound, const CancelToken* cancel);

  /// Returns the entry, or an error with the reason why it cannot be used. Changes nothing. Returns NotFound
  /// if there is no entry.
  llvm::Expected<Entry> read(const std::string& build_key);
  /// Returns all entries, the least recently used first. The list is empty if there is no store.
  llvm::Expected<std::vector<StoredEntry>> list();
  /// Returns the files and folders among the entries that are not entries, except temporary files and renamed
  /// folders of the store itself. The list is empty if there is no store.
  llvm::Expected<std::vector<ForeignFile>> strays();
  /// Removes the least recently used entries if the entries exceed a limit, until both limits are met with
  /// some margin. Also removes old temporary files and unused lock files. Does nothing if the last prune is
  /// recent, unless `force` is true. The entry with the build key `keep`, which may be empty, is not removed.
  llvm::Expected<PruneResult> prune(const StoreLimits& limits, bool force, const std::string& keep = "");
  /// Prunes to the store's own limits if the recorded size exceeds them or is unknown. Otherwise reads only
  /// that record. Does nothing if the store's limit is kNoByteLimit. A cache calls this function when it
  /// opens the folder, and when it is destroyed after it has published entries. Returns an error if the
  /// recorded size exceeds the limits and the prune fails. `keep` is as in prune().
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
