#include "codegen/compile/pch_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace minuet {
namespace {

constexpr char kPrefix[] = "minuet-pch-";
constexpr char kLockName[] = "lock";
constexpr int kMostAttempts = 100;

std::string parent_or_default(const std::string& parent) {
  if (!parent.empty()) return parent;
  const char* const from_environment = std::getenv("TMPDIR");
  return from_environment != nullptr && from_environment[0] == '/' ? from_environment : "/tmp";
}

bool is_prefixed(const char* name) { return std::strncmp(name, kPrefix, sizeof kPrefix - 1) == 0; }

/// The folder, where it is one and ours: anybody may put links and folders of that name into /tmp.
int open_own_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (folder >= 0 && ::fstat(folder, &status) == 0 && status.st_uid == ::geteuid()) return folder;
  if (folder >= 0) ::close(folder);
  return -1;
}

/// The lock file of an open folder, locked, or -1 and errno: EWOULDBLOCK where another has it.
int take_lock(int folder) {
  const int lock = ::openat(folder, kLockName, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (lock < 0) return -1;
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  const int why = errno;
  ::close(lock);
  errno = why;
  return -1;
}

/// False where a sweep removed the file between our opening and our locking it.
bool is_still_there(int folder, int lock) {
  struct stat named, held;
  return ::fstatat(folder, kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 && ::fstat(lock, &held) == 0 &&
         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

/// What NVRTC writes lies flat in the folder. The lock file goes last, so that what is left of a removal
/// that was cut short is still an orphan.
void remove_folder(int folder, const std::string& path) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const entries = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (entries == nullptr && copy >= 0) ::close(copy);
  if (entries != nullptr) {
    while (const dirent* entry = ::readdir(entries)) {
      if (std::strcmp(entry->d_name, kLockName) != 0) ::unlinkat(folder, entry->d_name, 0);
    }
    ::closedir(entries);
  }
  ::unlinkat(folder, kLockName, 0);
  ::rmdir(path.c_str());
}

bool remove_orphan(const std::string& path) {
  const int folder = open_own_folder(path);
  if (folder < 0) return false;
  const int lock = take_lock(folder);
  if (lock >= 0) {
    remove_folder(folder, path);
    ::close(lock);
  }
  ::close(folder);
  return lock >= 0;
}

/// A new folder with its lock held, its path in `path`; -1 and errno where there can be none.
int make_locked_folder(const std::string& parent, std::string& path) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    path = parent + "/" + kPrefix + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return -1;
    const int folder = open_own_folder(path);
    const int lock = folder >= 0 ? take_lock(folder) : -1;
    const int why = errno;
    const bool is_ours = lock >= 0 && is_still_there(folder, lock);
    const bool is_hopeless = folder >= 0 && lock < 0 && why != EWOULDBLOCK && why != ENOENT;
    if (is_hopeless) remove_folder(folder, path);
    if (folder >= 0) ::close(folder);
    if (is_ours) return lock;
    // Else another process's sweep took the folder for an orphan before our lock was on it, and removes it.
    if (lock >= 0) ::close(lock);
    errno = why;
    if (is_hopeless) return -1;
  }
  errno = EAGAIN;
  return -1;
}

}  // namespace

int sweep_pch_folders(const std::string& parent) {
  const std::string folder = parent_or_default(parent);
  DIR* const entries = ::opendir(folder.c_str());
  if (entries == nullptr) return 0;
  int removed = 0;
  while (const dirent* entry = ::readdir(entries)) {
    if (is_prefixed(entry->d_name) && remove_orphan(folder + "/" + entry->d_name)) ++removed;
  }
  ::closedir(entries);
  return removed;
}

llvm::Expected<std::unique_ptr<PchFolder>> PchFolder::create(const std::string& parent) {
  sweep_pch_folders(parent);
  std::string path;
  const int lock = make_locked_folder(parent_or_default(parent), path);
  if (lock < 0) {
    return make_error(StatusCode::Unavailable, "no folder for precompiled headers in {0}: {1}",
                      parent_or_default(parent), errno_text(errno));
  }
  return std::unique_ptr<PchFolder>(new PchFolder(std::move(path), lock, ::getpid()));
}

PchFolder::~PchFolder() {
  if (::getpid() == owner_) {
    const int folder = open_own_folder(path_);
    if (folder >= 0) {
      remove_folder(folder, path_);
      ::close(folder);
    }
  }
  ::close(lock_);
}

}  // namespace minuet
