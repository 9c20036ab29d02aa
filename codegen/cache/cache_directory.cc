#include "codegen/cache/cache_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "llvm/ADT/SmallVector.h"

namespace minuet {
namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

/// Absolute, without empty, "." and ".." parts.
bool is_plain_absolute(const std::string& path) {
  if (path.empty() || path.front() != '/') return false;
  llvm::SmallVector<llvm::StringRef, 16> parts;
  llvm::StringRef(path).split(parts, '/', -1, /*KeepEmpty=*/false);
  return std::none_of(parts.begin(), parts.end(), [](llvm::StringRef part) { return part == ".."; });
}

/// Refuses a link that sits in a folder where anybody may put one. `path` is made part by part.
llvm::Error walk(const std::string& directory, FileSystem& system) {
  llvm::SmallVector<llvm::StringRef, 16> parts;
  llvm::StringRef(directory).split(parts, '/', -1, /*KeepEmpty=*/false);
  std::string path;
  bool sticky_parent = false;
  for (llvm::StringRef part : parts) {
    path += "/" + part.str();
    struct stat status;
    if (system.stat_at(AT_FDCWD, path.c_str(), &status) != 0) {
      if (errno != ENOENT) return make_error(StatusCode::FailedPrecondition, "{0}: {1}", path, reason(errno));
      if (system.make_folder_at(AT_FDCWD, path.c_str(), 0700) != 0 && errno != EEXIST) {
        return make_error(StatusCode::FailedPrecondition, "{0} cannot be made: {1}", path, reason(errno));
      }
      if (system.stat_at(AT_FDCWD, path.c_str(), &status) != 0) {
        return make_error(StatusCode::FailedPrecondition, "{0}: {1}", path, reason(errno));
      }
    }
    if (S_ISLNK(status.st_mode) && sticky_parent) {
      return make_error(StatusCode::FailedPrecondition, "{0} is a link in a folder that anybody may write to",
                        path);
    }
    sticky_parent = (status.st_mode & S_ISVTX) != 0;
  }
  return llvm::Error::success();
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
}

llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment) {
  struct Choice {
    const char* name;
    std::string value;
    const char* below;
  };
  const Choice choices[] = {{"the given directory", from_caller, ""},
                            {"MINUET_CACHE_DIR", environment("MINUET_CACHE_DIR"), ""},
                            {"XDG_CACHE_HOME", environment("XDG_CACHE_HOME"), "/minuet"},
                            {"HOME", environment("HOME"), "/.cache/minuet"}};
  for (const Choice& choice : choices) {
    if (choice.value.empty()) continue;
    if (!is_plain_absolute(choice.value)) {
      return make_error(StatusCode::FailedPrecondition,
                        "{0} is '{1}', which is no absolute path without '..': set it to one", choice.name,
                        choice.value);
    }
    return choice.value + choice.below;
  }
  return make_error(StatusCode::FailedPrecondition,
                    "none of MINUET_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
}

bool TrustPolicy::trusts(const struct stat& status) const {
  if (shared) return true;
  const bool owner_fits = status.st_uid == user || status.st_uid == 0;
  return owner_fits && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

TrustPolicy process_policy(const Environment& environment) {
  return {::geteuid(), environment("MINUET_CACHE_SHARED") == "1"};
}

llvm::Expected<FileHandle> open_cache_directory(const std::string& directory, const TrustPolicy& policy,
                                                FileSystem& system) {
  MINUET_TRY(walk(directory, system));
  FileHandle folder(system,
                    system.open_at(AT_FDCWD, directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  struct stat status;
  if (!folder.good() || system.stat_file(folder.get(), &status) != 0) {
    return make_error(StatusCode::FailedPrecondition, "{0} cannot be opened: {1}", directory, reason(errno));
  }
  if (!policy.trusts(status)) {
    return make_error(
        StatusCode::FailedPrecondition,
        "{0} belongs to user {1} with mode {2}{3}{4}: others could put kernels there (chmod go-w, or "
        "MINUET_CACHE_SHARED=1 where that is meant)",
        directory, status.st_uid, status.st_mode >> 6 & 7, status.st_mode >> 3 & 7, status.st_mode & 7);
  }
  return folder;
}

}  // namespace minuet
