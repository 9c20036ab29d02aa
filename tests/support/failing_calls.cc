#include "tests/support/failing_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace {

struct State {
  bool active = false;
  int at = 0, error = 0, calls = 0;
  std::string failed;
  bool lost_bytes = false;
  int pauses = 0;
};
State state;

bool fails(const char* call) {
  if (!state.active || state.pauses > 0 || state.calls++ != state.at) return false;
  state.failed = call;
  errno = state.error;
  return true;
}

bool is_written(int file) {
  struct stat status;
  const int flags = ::fcntl(file, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && ::fstat(file, &status) == 0 &&
         S_ISREG(status.st_mode);
}

void lose_half(int file) {
  struct stat status;
  state.lost_bytes = is_written(file);
  // What was there before it was opened to append is not lost.
  const bool is_new = state.lost_bytes && (::fcntl(file, F_GETFL) & O_APPEND) == 0;
  if (is_new && ::fstat(file, &status) == 0 && ::ftruncate(file, status.st_size / 2) != 0) std::abort();
  errno = state.error;
}

mode_t mode_of(int flags, va_list list) { return (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0; }

}  // namespace

namespace minuet {

FailingCalls::FailingCalls(int at, int error) {
  if (state.active) std::abort();
  state = {true, at, error, 0, "", false, 0};
}
FailingCalls::~FailingCalls() { state.active = false; }
int FailingCalls::calls() const { return state.calls; }
std::string FailingCalls::failed() const { return state.failed; }
bool FailingCalls::lost_bytes() const { return state.lost_bytes; }

PausedFailures::PausedFailures() { ++state.pauses; }
PausedFailures::~PausedFailures() { --state.pauses; }

}  // namespace minuet

// The names are the linker's (--wrap). NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl50-cpp)
extern "C" {
// Headers give each call several names: for large files, and without a mode where a fortified header has
// checked that none is needed.
#define MINUET_WRAP_OPEN(name)                                    \
  int __real_##name(const char* path, int flags, ...);            \
  int __wrap_##name(const char* path, int flags, ...) {           \
    va_list list;                                                 \
    va_start(list, flags);                                        \
    const mode_t mode = mode_of(flags, list);                     \
    va_end(list);                                                 \
    return fails("open") ? -1 : __real_##name(path, flags, mode); \
  }
#define MINUET_WRAP_OPENAT(name)                                            \
  int __real_##name(int folder, const char* path, int flags, ...);          \
  int __wrap_##name(int folder, const char* path, int flags, ...) {         \
    va_list list;                                                           \
    va_start(list, flags);                                                  \
    const mode_t mode = mode_of(flags, list);                               \
    va_end(list);                                                           \
    return fails("openat") ? -1 : __real_##name(folder, path, flags, mode); \
  }
#define MINUET_WRAP_OPEN_2(name)                  \
  int __real_##name(const char* path, int flags); \
  int __wrap_##name(const char* path, int flags) { return fails("open") ? -1 : __real_##name(path, flags); }
#define MINUET_WRAP_OPENAT_2(name)                                    \
  int __real_##name(int folder, const char* path, int flags);         \
  int __wrap_##name(int folder, const char* path, int flags) {        \
    return fails("openat") ? -1 : __real_##name(folder, path, flags); \
  }
MINUET_WRAP_OPEN(open)
MINUET_WRAP_OPEN(open64)
MINUET_WRAP_OPEN_2(__open_2)
MINUET_WRAP_OPEN_2(__open64_2)
MINUET_WRAP_OPENAT(openat)
MINUET_WRAP_OPENAT(openat64)
MINUET_WRAP_OPENAT_2(__openat_2)
MINUET_WRAP_OPENAT_2(__openat64_2)

ssize_t __real_writev(int file, const struct iovec* parts, int count);
ssize_t __wrap_writev(int file, const struct iovec* parts, int count) {
  if (!fails("write")) return __real_writev(file, parts, count);
  state.lost_bytes = is_written(file);
  errno = state.error;
  return -1;
}

ssize_t __real_write(int file, const void* bytes, size_t size);
ssize_t __wrap_write(int file, const void* bytes, size_t size) {
  if (!fails("write")) return __real_write(file, bytes, size);
  state.lost_bytes = is_written(file);
  errno = state.error;
  return -1;
}

int __real_close(int file);
int __wrap_close(int file) {
  const bool failed = fails("close");
  if (failed) lose_half(file);
  const int result = __real_close(file);
  return failed ? (errno = state.error, -1) : result;
}

int __real_fsync(int file);
int __wrap_fsync(int file) {
  if (!fails("fsync")) return __real_fsync(file);
  if (state.error != EINVAL) lose_half(file);  // with EINVAL the file system says that it cannot sync
  return -1;
}

int __real_rename(const char* from, const char* to);
int __wrap_rename(const char* from, const char* to) { return fails("rename") ? -1 : __real_rename(from, to); }

int __real_renameat(int a, const char* from, int b, const char* to);
int __wrap_renameat(int a, const char* from, int b, const char* to) {
  return fails("renameat") ? -1 : __real_renameat(a, from, b, to);
}

int __real_fstat(int file, struct stat* status);
int __wrap_fstat(int file, struct stat* status) { return fails("fstat") ? -1 : __real_fstat(file, status); }

int __real_stat(const char* path, struct stat* status);
int __wrap_stat(const char* path, struct stat* status) {
  return fails("stat") ? -1 : __real_stat(path, status);
}

int __real_fstat64(int file, struct stat64* status);
int __wrap_fstat64(int file, struct stat64* status) {
  return fails("fstat") ? -1 : __real_fstat64(file, status);
}

int __real_stat64(const char* path, struct stat64* status);
int __wrap_stat64(const char* path, struct stat64* status) {
  return fails("stat") ? -1 : __real_stat64(path, status);
}

int __real_fdatasync(int file);
int __wrap_fdatasync(int file) {
  if (!fails("fsync")) return __real_fdatasync(file);
  if (state.error != EINVAL) lose_half(file);
  return -1;
}

int __real_fchmod(int file, mode_t mode);
int __wrap_fchmod(int file, mode_t mode) { return fails("fchmod") ? -1 : __real_fchmod(file, mode); }

int __real_chmod(const char* path, mode_t mode);
int __wrap_chmod(const char* path, mode_t mode) { return fails("chmod") ? -1 : __real_chmod(path, mode); }

int __real_flock(int file, int operation);
int __wrap_flock(int file, int operation) { return fails("flock") ? -1 : __real_flock(file, operation); }

int __real_mkdirat(int folder, const char* path, mode_t mode);
int __wrap_mkdirat(int folder, const char* path, mode_t mode) {
  return fails("mkdirat") ? -1 : __real_mkdirat(folder, path, mode);
}
}  // NOLINTEND(bugprone-reserved-identifier,cert-dcl50-cpp)
