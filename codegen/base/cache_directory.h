// Chooses the directory of the kernel cache and checks that it can be trusted.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "codegen/base/error.h"
#include "codegen/base/file_system.h"

namespace minuet {

/// Represents the environment: returns the value of the variable with the given name, or "" if it is not set.
using Environment = std::function<std::string(const char*)>;
Environment process_environment();

/// Returns the first of these that is set: `from_caller`, MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet and
/// HOME/.cache/minuet. Returns an error with the reason if the chosen path is not absolute or contains "..",
/// or if none is set. HOME and the parent of XDG_CACHE_HOME must exist, so that a service with
/// HOME=/nonexistent creates no new folder in "/".
llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment,
                                                   FileSystem& system = real_file_system());

/// Decides whether a folder or file of the cache is trusted. Unless `shared` is true, it must belong to
/// `user` or root, and no other user may have permission to write to it.
struct TrustPolicy {
  uid_t user = ::geteuid();
  bool shared = false;  ///< Is true if cache files of other users are trusted (MINUET_CACHE_SHARED=1).
  bool trusts(const struct stat& status) const;
  mode_t folder_mode() const { return shared ? 0777 : 0700; }
  mode_t file_mode() const { return shared ? 0666 : 0600; }
};
TrustPolicy process_policy(const Environment& environment);

/// Says what happens if a folder is missing. Make creates the folder, and Fail returns an error with code
/// NotFound.
enum class Missing { Make, Fail };

/// Opens `directory`. Missing::Make creates missing folders with mode 0700, or 0777 if `policy` is shared.
/// Returns an error with the reason if `policy` does not trust the folder, or if any part of the path is a
/// symbolic link in a folder where other users can create links (such as /tmp).
llvm::Expected<FileHandle> open_cache_directory(const std::string& directory, const TrustPolicy& policy,
                                                FileSystem& system, Missing missing = Missing::Make);

/// Opens the folder `name` inside the open folder `parent` by the same rules as open_cache_directory(), but
/// refuses every symbolic link. Error messages call the folder `path`.
llvm::Expected<FileHandle> open_trusted_folder(int parent, const std::string& name, const std::string& path,
                                               const TrustPolicy& policy, FileSystem& system,
                                               Missing missing);

}  // namespace minuet
