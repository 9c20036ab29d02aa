// The store's versioned folder, for those who work in it: load and publish, prune, locks.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/file_system.h"
#include "codegen/error.h"

namespace minuet {

/// <directory>/v<format>: where it is, whom it trusts, whether anything may be changed in it.
struct StoreRoot {
  std::string directory;
  TrustPolicy policy;
  FileSystem& system;
  int format;
  bool read_only;

  /// Opens v<format>/<part>/..., each part checked like the directory itself. Every call walks anew,
  /// so that no descriptor is held and a directory that was removed comes back. Missing::Make makes
  /// nothing where the store is read only.
  llvm::Expected<FileHandle> open(const std::vector<std::string>& parts, Missing missing) const;
  /// <directory>/v<format>/<part>/...
  std::string path(const std::vector<std::string>& parts) const;
};

/// 64 lower-case hex digits, as keys.h makes them.
bool is_key(llvm::StringRef text);

/// A prefix and a rest that no other process and no other thread uses now.
std::string unique_name(llvm::StringRef prefix);
/// What files have for a prefix until they are whole; prune removes those left by killed processes.
inline constexpr const char* kTemporaryPrefix = "tmp-";
/// What a folder that stood in an entry's place is renamed to.
inline constexpr const char* kAsidePrefix = "aside-";

/// The same inode with the same content, as far as stat tells.
bool same_file(const struct stat& a, const struct stat& b);

/// Whether `then` is that long ago. A time as far in the future counts too: of a file server whose
/// clock is wrong, it would else never pass.
bool is_older(const struct timespec& then, std::chrono::seconds age);

enum class Removal { Removed, Gone, Kept };
/// Unlinks `name` where it is still the file that was `seen`: looked at again just before, since
/// others may have used or replaced it.
Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen);

}  // namespace minuet
