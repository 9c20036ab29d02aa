#include "codegen/base/cache_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "llvm/ADT/SmallVector.h"

namespace minuet {
namespace {

using Parts = llvm::SmallVector<llvm::StringRef, 16>;

Parts parts_of(llvm::StringRef path) {
  Parts parts;
  path.split(parts, '/', -1, /*KeepEmpty=*/false);
  return parts;
}

/// Returns true if the path is absolute and has no ".." parts.
bool is_plain_absolute(const std::string& path) {
  if (path.empty() || path.front() != '/') return false;
  const Parts parts = parts_of(path);
  return std::none_of(parts.begin(), parts.end(), [](llvm::StringRef part) { return part == ".."; });
}

llvm::Error failure(const std::string& path, const char* what, int error) {
  return make_error(StatusCode::FailedPrecondition, "{0}{1}: {2}", path, what, errno_text(error));
}

llvm::Error does_not_exist(const std::string& path) {
  return make_error(StatusCode::NotFound, "{0} does not exist", path);
}

/// Opens the folders of a path one by one, beginning with "/", and keeps the current one open. So the folder
/// that was checked is the folder that is used, even if another process renames parts of the path meanwhile.
/// Symbolic links are read, and the folders of their targets are opened in the same way, so that links inside
/// the target of a link are checked too.
class PathWalker {
 public:
  PathWalker(const TrustPolicy& policy, FileSystem& system, Missing missing)
      : policy_(policy), system_(system), missing_(missing), folder_(system, -1) {}

  llvm::Expected<FileHandle> to(const std::string& directory) {
    push(directory, /*of_link=*/false);
    MINUET_TRY(start_at_root());
    while (!todo_.empty()) {
      const Part part = std::move(todo_.back());
      todo_.pop_back();
      MINUET_TRY(step(part));
    }
    return std::move(folder_);
  }

 private:
  struct Part {
    std::string name;
    bool of_link;
  };
  // O_PATH opens folders for which this user has no read permission. O_DIRECTORY makes the kernel mount a
  // file system that is mounted on demand.
  static constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  static constexpr int kMostLinks = 40;  // Linux follows at most this number of links in a path.

  void push(llvm::StringRef path, bool of_link) {
    const Parts parts = parts_of(path);
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) todo_.push_back({part->str(), of_link});
  }

  llvm::Error start_at_root() {
    path_.clear();
    folder_ = FileHandle(system_, system_.open_at(AT_FDCWD, "/", kFlags, 0));
    return folder_.good() ? llvm::Error::success() : failure("/", " cannot be opened", errno);
  }

  llvm::Error step(const Part& part) {
    const std::string path = path_ + "/" + part.name;
    FileHandle next(system_, system_.open_at(folder_.get(), part.name.c_str(), kFlags, 0));
    // A missing part of a link's target is not created, because a file system is probably not mounted there.
    if (!next.good() && errno == ENOENT && missing_ == Missing::Make && !part.of_link) {
      if (system_.make_folder_at(folder_.get(), part.name.c_str(), policy_.folder_mode()) != 0 &&
          errno != EEXIST) {
        return failure(path, " cannot be made", errno);
      }
      next = FileHandle(system_, system_.open_at(folder_.get(), part.name.c_str(), kFlags, 0));
    }
    if (!next.good() && (errno == ENOTDIR || errno == ELOOP)) return follow(part, path);
    if (!next.good() && errno == ENOENT) return does_not_exist(path);
    if (!next.good()) return failure(path, " cannot be opened", errno);
    folder_ = std::move(next);
    path_ = path;
    return llvm::Error::success();
  }

  llvm::Error follow(const Part& part, const std::string& path) {
    char target[PATH_MAX];
    const ssize_t size = system_.read_link_at(folder_.get(), part.name.c_str(), target, sizeof target);
    if (size < 0) return failure(path, " is not a folder", errno == EINVAL ? ENOTDIR : errno);
    struct stat above;
    if (system_.stat_file(folder_.get(), &above) != 0) return failure(path_, "", errno);
    if ((above.st_mode & S_ISVTX) != 0 || !policy_.trusts(above)) {
      return make_error(StatusCode::FailedPrecondition,
                        "{0} is a link in a folder that other users may write to: name the link's target",
                        path);
    }
    if (++links_ > kMostLinks) return failure(path, "", ELOOP);
    const llvm::StringRef text(target, static_cast<std::size_t>(size));
    push(text, /*of_link=*/true);
    return text.take_front(1) == "/" ? start_at_root() : llvm::Error::success();
  }

  const TrustPolicy policy_;
  FileSystem& system_;
  const Missing missing_;
  FileHandle folder_;
  std::string path_;        // Holds the path of folder_, for error messages.
  std::vector<Part> todo_;  // Holds the parts of the path that are still to be opened, in reverse order.
  int links_ = 0;
};

llvm::Error check_trust(const FileHandle& folder, const std::string& path, const TrustPolicy& policy,
                        FileSystem& system) {
  struct stat status;
  if (system.stat_file(folder.get(), &status) != 0) return failure(path, "", errno);
  if (policy.trusts(status)) return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "{0} belongs to user {1} with mode {2}{3}{4}: others could put kernels there (run chmod go-w if it is "
      "yours, or set MINUET_CACHE_SHARED=1 if you trust them)",
      path, status.st_uid, status.st_mode >> 6 & 7, status.st_mode >> 3 & 7, status.st_mode & 7);
}

/// Returns the parent folder of `path`.
std::string above(llvm::StringRef path) {
  const std::string parent = path.rtrim('/').rsplit('/').first.str();
  return parent.empty() ? "/" : parent;
}

llvm::Error check_base(const char* name, const std::string& base, FileSystem& system) {
  if (base.empty()) return llvm::Error::success();
  const FileHandle folder(system,
                          system.open_at(AT_FDCWD, base.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
  if (folder.good()) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "{0} puts the cache folder below {1}, which cannot be used: {2}; set MINUET_CACHE_DIR to "
                    "another folder",
                    name, base, errno_text(errno));
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
}

llvm::Expected<std::string> choose_cache_directory(const std::string& from_caller,
                                                   const Environment& environment, FileSystem& system) {
  struct Choice {
    const char* name;
    std::string value;
    const char* below;
    /// Names a folder that must already exist. If it is empty, all folders of the path may be created.
    std::string must_be_there;
  };
  const std::string xdg = environment("XDG_CACHE_HOME"), home = environment("HOME");
  const Choice choices[] = {{"the given directory", from_caller, "", ""},
                            {"MINUET_CACHE_DIR", environment("MINUET_CACHE_DIR"), "", ""},
                            {"XDG_CACHE_HOME", xdg, "/minuet", above(xdg)},
                            {"HOME", home, "/.cache/minuet", home}};
  for (const Choice& choice : choices) {
    if (choice.value.empty()) continue;
    if (!is_plain_absolute(choice.value)) {
      return make_error(StatusCode::FailedPrecondition,
                        "{0} is '{1}': set it to an absolute path without '..'", choice.name, choice.value);
    }
    MINUET_TRY(check_base(choice.name, choice.must_be_there, system));
    return llvm::StringRef(choice.value).rtrim('/').str() + choice.below;
  }
  return make_error(StatusCode::FailedPrecondition,
                    "none of MINUET_CACHE_DIR, XDG_CACHE_HOME and HOME is set: set one of them");
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
                                                FileSystem& system, Missing missing) {
  MINUET_ASSIGN(const FileHandle place, PathWalker(policy, system, missing).to(directory));
  MINUET_TRY(check_trust(place, directory, policy, system));
  FileHandle folder(system, system.open_at(place.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (!folder.good()) return failure(directory, " cannot be opened", errno);
  return folder;
}

llvm::Expected<FileHandle> open_trusted_folder(int parent, const std::string& name, const std::string& path,
                                               const TrustPolicy& policy, FileSystem& system,
                                               Missing missing) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileHandle folder(system, system.open_at(parent, name.c_str(), kFlags, 0));
  if (!folder.good() && errno == ENOENT) {
    if (missing == Missing::Fail) return does_not_exist(path);
    if (system.make_folder_at(parent, name.c_str(), policy.folder_mode()) != 0 && errno != EEXIST) {
      return failure(path, " cannot be made", errno);
    }
    folder = FileHandle(system, system.open_at(parent, name.c_str(), kFlags, 0));
  }
  if (!folder.good()) return failure(path, " cannot be opened", errno);
  MINUET_TRY(check_trust(folder, path, policy, system));
  return folder;
}

}  // namespace minuet
