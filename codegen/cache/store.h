// Entries on disk: one file each, published whole, read with suspicion (R6, R7, R10-R12). Thread-safe.
//
// <directory>/v<format>/obj/<2 hex>/<62 hex>. Every operation opens the directory anew and checks it
// again, so that no descriptor is held and a directory that was removed comes back. Nothing here
// is an error for a caller: what fails is a miss, or an entry that is not kept, and a warning.
// Prune (R9) will work on obj/, locks between processes (R14) will lie beside it in lock/.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/entry.h"
#include "codegen/cache/file_system.h"

namespace minuet {

class Store {
 public:
  using Warn = std::function<void(const std::string&)>;

  Store(std::string directory, TrustPolicy policy, FileSystem& system, Warn warn)
      : directory_(std::move(directory)), policy_(policy), system_(system), warn_(std::move(warn)) {}

  /// Makes the directory and says whether it may be used.
  llvm::Error check();

  /// The entry with that build key. One that is damaged or not ours is removed and is a miss.
  std::optional<Entry> load(const std::string& build_key);

  /// Writes to a file of its own, then renames it. The caller goes on with its own copy.
  void publish(const std::string& build_key, const std::string& bytes);

  const std::string& directory() const { return directory_; }

 private:
  llvm::Expected<FileHandle> open_shelf(const std::string& build_key, bool make);
  llvm::Expected<std::string> read_file(int shelf, const std::string& name, struct stat& status);
  llvm::Error write_file(int shelf, const std::string& temporary, const std::string& bytes);
  void remove_if_same(int shelf, const std::string& name, const struct stat& status);

  std::string directory_;
  TrustPolicy policy_;
  FileSystem& system_;
  Warn warn_;
};

}  // namespace minuet
