// Which directory the cache uses, and whether it may be trusted (R10).
#pragma once

#include <unistd.h>

#include <functional>
#include <string>

#include "codegen/base/error.h"
#include "codegen/base/file_system.h"

namespace minuet {

using Environment = std::function<std::string(const char*)>;  // "" for what is not set
Environment process_environment();

/// Explicit, else MINUET_CACHE_DIR, else XDG_CACHE_HOME/minuet, else HOME/.cache/minuet. An error
/// with the reason where that is no absolute path, or there is none. HOME and the parent of
/// XDG_CACHE_HOME must be there: a service with HOME=/nonexistent wants no new folder in "/".
llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment,
                                                   FileSystem& system = real_file_system());

/// What makes a folder or a file of the cache trustworthy: nobody but us could have written it.
struct TrustPolicy {
  uid_t user = ::geteuid();
  bool shared = false;  // MINUET_CACHE_SHARED=1: other users' entries are welcome
  bool trusts(const struct stat& status) const;
  mode_t folder_mode() const { return shared ? 0777 : 0700; }
  mode_t file_mode() const { return shared ? 0666 : 0600; }
};
TrustPolicy process_policy(const Environment& environment);

/// What to do about a folder that is not there.
enum class Missing { Make, Fail };  // Fail: an error with code NotFound

/// Opens `directory`, made with mode 0700 where it is not there. Refused, with the reason: a folder
/// of somebody else or one others may write to, and a link anywhere in a folder where others may
/// put one (such as /tmp).
llvm::Expected<FileHandle> open_cache_directory(const std::string& directory, const TrustPolicy& policy,
                                                FileSystem& system, Missing missing = Missing::Make);

/// Opens the folder `name` in an open one, by the same rules, but no link at all. `path` is its
/// name for messages.
llvm::Expected<FileHandle> open_trusted_folder(int parent, const std::string& name, const std::string& path,
                                               const TrustPolicy& policy, FileSystem& system,
                                               Missing missing);

}  // namespace minuet
