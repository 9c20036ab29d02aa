// Entries on disk: one file each, published whole, read with suspicion (R6, R7, R9-R12, R14). Thread-safe.
//
//   <directory>/v<format>/obj/<2 hex>/<62 hex>   the entry of a build key
//                         obj/<2 hex>/tmp-...    one that is being written
//                         obj/<2 hex>/aside-...  a folder that stood in an entry's place; never ours, so kept
//                         lock/<64 hex>          one process builds this key (file_lock.h)
//                         compilers/<id>         whose entries there are: an empty file
//                         pruned                 its time is that of the last prune (prune.cc)
//                         size                   how much there is (size_record.h)
//
// Other formats' folders are other versions' of the library, which may be in use: never touched here (R12).
//
// Nothing here but what says Expected is an error for a caller: what fails is a miss, an entry that
// is not kept, or a lock that is not held, and a warning.
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

/// A folder of files that are there whole or not at all: <directory>/<top>, where it is, whom it trusts,
/// whether anything may be changed in it.
struct StoreRoot {
  std::string directory;
  TrustPolicy policy;
  FileSystem& system;
  std::string top;  // empty: the directory itself
  bool read_only = false;

  /// Opens <top>/<part>/..., each part checked like the directory itself. Every call walks anew, so that no
  /// descriptor is held and a directory that was removed comes back. Missing::Make makes nothing where the
  /// store is read only.
  llvm::Expected<FileHandle> open(const std::vector<std::string>& parts, Missing missing) const;
  /// <directory>/<top>/<part>/...
  std::string path(const std::vector<std::string>& parts) const;

  /// A file of an open folder, and its `status`. NotFound where it is not there, InvalidArgument where it is
  /// no good: no regular file, not trusted, longer than `most_bytes`.
  llvm::Expected<std::string> read_file(int folder, const std::string& name, std::uint64_t most_bytes,
                                        struct stat& status) const;
  /// Writes a file of its own, then renames it. Not synced: what a crash tears, its reader finds (R6).
  llvm::Error write_file(int folder, const std::string& name, llvm::StringRef bytes) const;
};

// ---- what lies in it ----------------------------------------------------------------------------------

/// 64 lower-case hex digits, as keys.h makes them.
bool is_key(llvm::StringRef text);

/// A prefix and a rest that no other process and no other thread uses now.
std::string unique_name(llvm::StringRef prefix);
/// What files have for a prefix until they are whole; prune removes those left by killed processes.
inline constexpr const char* kTemporaryPrefix = "tmp-";
/// What a folder that stood in an entry's place is renamed to.
inline constexpr const char* kAsidePrefix = "aside-";

/// Whether `then` is that long ago. A time as far in the future counts too: of a file server whose
/// clock is wrong, it would else never pass.
bool is_older(const struct timespec& then, std::chrono::seconds age);

enum class Removal { Removed, Gone, Kept };
/// Unlinks `name` where it is still the file that was `seen`: looked at again just before, since
/// others may have used or replaced it.
Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen);

/// Under this limit of bytes keep_limits() does nothing. Commands that only look at a folder set it.
inline constexpr std::uint64_t kNoByteLimit = UINT64_MAX;

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

// ---- the store ----------------------------------------------------------------------------------------

struct StoreOptions {
  StoreLimits limits = {};
  bool read_only = false;  // nothing is made, locked, touched, removed or written; what is missing is a miss
  int format = kEntryFormat;  // names the folder (R12)
};

class Store {
 public:
  using Warn = std::function<void(const std::string&)>;

  Store(std::string directory, TrustPolicy policy, FileSystem& system, Warn warn, StoreOptions options = {})
      : root_{std::move(directory), policy, system, "v" + std::to_string(options.format), options.read_only},
        limits_(options.limits),
        warn_(std::move(warn)) {}

  /// Makes the directory and says whether it may be used.
  llvm::Error check();

  /// The entry with that build key. One that is damaged or not ours is removed and is a miss.
  std::optional<Entry> find(const std::string& build_key);

  /// Writes to a file of its own, then renames it. The caller goes on with its own copy. Prunes where
  /// the last prune is long ago, when it has released `lock`: nobody is to wait for that.
  void publish(const std::string& build_key, const std::string& bytes, FileLock* lock = nullptr);

  /// That entries of this compiler are kept here, for who cannot ask one.
  bool note_compiler(const std::string& id);
  std::vector<std::string> compilers();

  /// The lock for building `build_key`, waited for at most for `bound`.
  FileLock lock(const std::string& build_key, std::chrono::milliseconds bound, const CancelToken* cancel);

  /// The entry, or why it cannot be used; removes and touches nothing. NotFound where there is none.
  llvm::Expected<Entry> read(const std::string& build_key);
  /// Every entry, the one used longest ago first. Empty where there is no store.
  llvm::Expected<std::vector<StoredEntry>> list();
  /// Every stray but the temporary files and folders put aside that the store itself knows. Empty where there
  /// is no store.
  llvm::Expected<std::vector<Stray>> strays();
  /// Removes entries until what stays is a little within both limits; none where it is within them already.
  /// `force`: however short ago the last prune was. `keep`: a build key that stays in any case, or empty.
  llvm::Expected<PruneResult> prune(const StoreLimits& limits, bool force, const std::string& keep = "");
  /// Prunes by the store's own limits where the record of its size is past them or does not say; else it
  /// reads that one file and looks at no entry. Does nothing under kNoByteLimit. For the time when a folder
  /// is opened, and when a process that published to it is done. An error where it is past them and cannot be
  /// pruned. `keep`: as of prune().
  llvm::Error keep_limits(const std::string& keep = "");
  /// Warns that a prune failed.
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
