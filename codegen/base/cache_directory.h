// Chooses the directory of the kernel cache and checks that it can be trusted.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "codegen/base/error.h"
#include "codegen/base/file_system.h"

namespace minuet {

/// Returns the value of an environment variable, or "" if it is not set.
using Environment = std::function<std::string(const char*)>;
Environment process_environment();

/// Returns `from_caller`, else MINUET_CACHE_DIR, else XDG_CACHE_HOME/minuet, else HOME/.cache/minuet: the
/// first that is set. Returns an error with the reason if that is not an absolute path, or if none is set.
/// HOME and the parent of XDG_CACHE_HOME must exist, so that a service with HOME=/nonexistent gets no new
/// folder in "/".
llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment,
                                                   FileSystem& system = real_file_system());

/// Decides whether a folder or file of the cache can be trusted: only this user or root may be able to write
/// it.
struct TrustPolicy {
  uid_t user = ::geteuid();
  bool shared = false;  ///< true if entries of other users are trusted (MINUET_CACHE_SHARED=1)
  bool trusts(const struct stat& status) const;
  mode_t folder_mode() const { return shared ? 0777 : 0700; }
  mode_t file_mode() const { return shared ? 0666 : 0600; }
};
TrustPolicy process_policy(const Environment& environment);

/// Make: a missing folder is created. Fail: it is an error with code NotFound.
enum class Missing { Make, Fail };

/// Opens `directory`. Missing::Make creates missing folders with mode 0700, or 0777 if `policy` is shared.
/// Returns an error with the reason if the folder belongs to another user, if others can write to it, or if
/// any part of the path is a symbolic link in a folder where others can create one (such as /tmp).
llvm::Expected<FileHandle> open_cache_directory(const std::string& directory, const TrustPolicy& policy,
                                                FileSystem& system, Missing missing = Missing::Make);

/// Opens the folder `name` inside the open folder `parent` by the same rules, but refuses every symbolic
/// link. `path` names the folder in error messages.
llvm::Expected<FileHandle> open_trusted_folder(int parent, const std::string& name, const std::string& path,
                                               const TrustPolicy& policy, FileSystem& system,
                                               Missing missing);

}  // namespace minuet
