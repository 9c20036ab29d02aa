// Entries on disk: one file each, published whole, read with suspicion (R6, R7, R9-R12, R14). Thread-safe.
//
//   <directory>/v<format>/obj/<2 hex>/<62 hex>   the entry of a build key
//                         obj/<2 hex>/tmp-...    one that is being written
//                         obj/<2 hex>/aside-...  a folder that stood in an entry's place; never ours, so kept
//                         lock/<64 hex>          one process builds this key (file_lock.h)
//                         compilers/<id>         whose entries there are: an empty file
//                         pruned                 its time is that of the last prune (prune.h)
//
// Other formats' folders are other versions' of the library, which may be in use: never touched here (R12).
//
// Nothing here but what says Expected is an error for a caller: what fails is a miss, an entry that
// is not kept, or a lock that is not held, and a warning.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/entry.h"
#include "codegen/cache/file_lock.h"
#include "codegen/cache/file_system.h"
#include "codegen/cache/prune.h"
#include "codegen/cache/store_root.h"

namespace minuet {

struct StoreOptions {
  StoreLimits limits = {};
  bool read_only = false;  // nothing is made, locked, touched, removed or written; what is missing is a miss
  int format = kEntryFormat;  // names the folder (R12)
};

class Store {
 public:
  using Warn = std::function<void(const std::string&)>;

  Store(std::string directory, TrustPolicy policy, FileSystem& system, Warn warn, StoreOptions options = {})
      : root_{std::move(directory), policy, system, options.format, options.read_only},
        limits_(options.limits),
        warn_(std::move(warn)) {}

  /// Makes the directory and says whether it may be used.
  llvm::Error check();

  /// The entry with that build key. One that is damaged or not ours is removed and is a miss.
  std::optional<Entry> load(const std::string& build_key);

  /// Writes to a file of its own, then renames it. The caller goes on with its own copy. Prunes where
  /// the last prune is long ago, when it has released `lock`: nobody is to wait for that.
  void publish(const std::string& build_key, const std::string& bytes, FileLock* lock = nullptr);

  /// That entries of this compiler are kept here, for who cannot ask one.
  bool note_compiler(const std::string& id);
  std::vector<std::string> compilers();

  /// The lock for building `build_key`, waited for at most for `bound`.
  FileLock lock(const std::string& build_key, std::chrono::milliseconds bound, const CancelToken* cancel) {
    return take_build_lock(root_, build_key, bound, cancel);
  }

  /// The entry, or why it cannot be used; removes and touches nothing. NotFound where there is none.
  llvm::Expected<Entry> read(const std::string& build_key);
  llvm::Expected<std::vector<StoredEntry>> list() { return list_entries(root_); }
  llvm::Expected<std::vector<Stray>> strays() { return list_strays(root_); }
  llvm::Expected<PruneResult> prune(const StoreLimits& limits, bool force) {
    return prune_entries(root_, limits, /*keep=*/"", force);
  }

  const std::string& directory() const { return root_.directory; }
  std::string entry_path(const std::string& build_key) const;

 private:
  llvm::Expected<FileHandle> open_shelf(const std::string& build_key, Missing missing);
  llvm::Expected<Entry> read_from(int shelf, const std::string& build_key, struct stat& status);
  llvm::Expected<std::string> read_file(int shelf, const std::string& name, struct stat& status);
  llvm::Error keep(const std::string& build_key, const std::string& bytes);
  llvm::Error write_file(const FileHandle& file, const std::string& bytes);
  void clear_place(int shelf, const std::string& name, const struct stat& seen);

  StoreRoot root_;
  StoreLimits limits_;
  Warn warn_;
};

}  // namespace minuet
