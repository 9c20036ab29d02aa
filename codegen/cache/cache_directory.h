// Which directory the cache uses, and whether it may be trusted (R10).
#pragma once

#include <functional>
#include <string>

#include "codegen/cache/file_system.h"
#include "codegen/error.h"

namespace minuet {

using Environment = std::function<std::string(const char*)>;  // "" for what is not set
Environment process_environment();

/// Explicit, else MINUET_CACHE_DIR, else XDG_CACHE_HOME/minuet, else HOME/.cache/minuet. An error
/// with the reason where that is no absolute path, or there is none.
llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment);

/// What makes a folder or a file of the cache trustworthy: nobody but us could have written it.
struct TrustPolicy {
  uid_t user = 0;
  bool shared = false;  // MINUET_CACHE_SHARED=1: other users' entries are welcome
  bool trusts(const struct stat& status) const;
};
TrustPolicy process_policy(const Environment& environment);

/// Opens `directory`, made with mode 0700 where it is not there. Refused, with the reason: a folder
/// of somebody else or one others may write to, and a link anywhere in a folder where others may
/// put one (a sticky one such as /tmp).
llvm::Expected<FileHandle> open_cache_directory(const std::string& directory, const TrustPolicy& policy,
                                                FileSystem& system);

}  // namespace minuet
