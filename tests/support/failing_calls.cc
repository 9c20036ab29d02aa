#include "tests/support/failing_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
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
};
State state;

bool fails(const char* call) {
  if (!state.active || state.calls++ != state.at) return false;
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
  state = {true, at, error, 0, "", false};
}
FailingCalls::~FailingCalls() { state.active = false; }
int FailingCalls::calls() const { return state.calls; }
std::string FailingCalls::failed() const { return state.failed; }
bool FailingCalls::lost_bytes() const { return state.lost_bytes; }

}  // namespace minuet

// The names are the linker's (--wrap). NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl50-cpp)
extern "C" {
int __real_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return fails("open") ? -1 : __real_open(path, flags, mode);
}

int __real_openat(int folder, const char* path, int flags, ...);
int __wrap_openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return fails("openat") ? -1 : __real_openat(folder, path, flags, mode);
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
