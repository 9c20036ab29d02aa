// For tests of the store: entries to keep, file systems that misbehave, work in a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "codegen/base/sha256.h"
#include "codegen/cache/store.h"
#include "codegen/compile/entry.h"
#include "tests/codegen/fakes.h"
#include "tests/support/environment.h"

namespace minuet {

inline TrustPolicy own_policy() { return {::geteuid(), false}; }

/// A key and the bytes to publish under it: about `size` of them, that zstd cannot make fewer.
struct Sample {
  std::string key, bytes;
};
inline Sample make_sample(const std::string& name, std::size_t size = 100) {
  std::minstd_rand random(static_cast<unsigned>(std::stoul(sha256_hex(name).substr(0, 8), nullptr, 16)));
  std::string text;
  while (text.size() < size) text += static_cast<char>(random() >> 8);
  FakeCompiler compiler;
  const KernelSource source = make_source(name, text);
  Entry entry;
  entry.request_key = sha256_hex("request " + name);
  entry.build_key = sha256_hex("build " + name);
  entry.name_expression = source.name_expression;
  entry.binary = llvm::cantFail(compiler.compile({source, "sm_90a"}, {}));
  return {entry.build_key, write_entry(entry)};
}

inline Store make_store(const std::string& directory, Warnings* warnings = nullptr, StoreOptions options = {},
                        FileSystem& system = real_file_system()) {
  const Store::Warn warn = warnings != nullptr ? warnings->sink() : [](const std::string&) {};
  return Store(directory, own_policy(), system, warn, options);
}

/// Files with entries, half written ones too, of a cache in `directory`.
inline std::vector<std::string> entries_in(const std::string& directory) {
  return files_below(directory + "/v1/obj");
}

/// Folders of a test are in memory while this lives, where there is such a place: for tests that make
/// thousands of files.
class MemoryFolders {
 public:
  MemoryFolders() {
    if (::getenv("TMPDIR") == nullptr && ::access("/dev/shm", W_OK) == 0) ours_.emplace("TMPDIR", "/dev/shm");
  }

 private:
  std::optional<EnvironmentVariable> ours_;
};

/// Sets when a file was last used.
inline void set_age(const std::string& path, std::chrono::seconds age) {
  struct timespec then;
  ::clock_gettime(CLOCK_REALTIME, &then);
  then.tv_sec -= age.count();
  const struct timespec times[2] = {then, then};
  EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0) << path;
}

/// Writes are not forced to the disk: nothing in a test must outlive a power cut.
class QuickFileSystem : public FileSystem {
 public:
};

/// What a close() that fails may have lost, as on a network's file system; nothing of a file that is only
/// read.
inline void lose_half(int file) {
  struct stat status;
  const int flags = ::fcntl(file, F_GETFL);
  if ((flags & O_ACCMODE) == O_RDONLY || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return;
  EXPECT_EQ(::ftruncate(file, status.st_size / 2), 0);
}

/// Fails one call, the `at`-th, with `error`; counts the calls, of each kind too.
class FailingFileSystem : public QuickFileSystem {
 public:
  FailingFileSystem(int at, int error) : at_(at), error_(error) {}
  int calls() const { return calls_; }
  const std::map<std::string, int>& kinds() const { return kinds_; }
  const std::string& failed() const { return failed_; }  // the kind of the one that failed

  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    return fails("open") ? -1 : FileSystem::open_at(folder, path, flags, mode);
  }
  int close(int file) override {
    const bool failed = fails("close");
    if (failed) lose_half(file);
    const int result = FileSystem::close(file);
    return failed ? (errno = error_, -1) : result;
  }
  int stat_file(int file, struct stat* status) override {
    return fails("stat_file") ? -1 : FileSystem::stat_file(file, status);
  }
  int stat_at(int folder, const char* path, struct stat* status) override {
    return fails("stat_at") ? -1 : FileSystem::stat_at(folder, path, status);
  }
  ssize_t read(int file, void* bytes, std::size_t size) override {
    return fails("read") ? -1 : FileSystem::read(file, bytes, size > 7 ? size / 2 : size);  // short ones too
  }
  ssize_t write(int file, const void* bytes, std::size_t size) override {
    return fails("write") ? -1 : FileSystem::write(file, bytes, size > 7 ? size / 2 : size);
  }
  int rename_at(int folder, const char* from, const char* to) override {
    return fails("rename") ? -1 : FileSystem::rename_at(folder, from, to);
  }
  int unlink_at(int folder, const char* path) override {
    return fails("unlink") ? -1 : FileSystem::unlink_at(folder, path);
  }
  int make_folder_at(int folder, const char* path, mode_t mode) override {
    return fails("make_folder") ? -1 : FileSystem::make_folder_at(folder, path, mode);
  }
  int remove_folder_at(int folder, const char* path) override {
    return fails("remove_folder") ? -1 : FileSystem::remove_folder_at(folder, path);
  }
  ssize_t read_link_at(int folder, const char* path, char* target, std::size_t size) override {
    return fails("read_link") ? -1 : FileSystem::read_link_at(folder, path, target, size);
  }
  int touch_at(int folder, const char* path) override {
    return fails("touch") ? -1 : FileSystem::touch_at(folder, path);
  }
  int list(int folder, std::vector<std::string>* names) override {
    return fails("list") ? -1 : FileSystem::list(folder, names);
  }
  int lock(int file, int operation) override {
    return fails("lock") ? -1 : FileSystem::lock(file, operation);
  }

 private:
  bool fails(const char* kind) {
    ++kinds_[kind];
    if (calls_++ != at_) return false;
    failed_ = kind;
    errno = error_;
    return true;
  }
  int at_, error_, calls_ = 0;
  std::map<std::string, int> kinds_;
  std::string failed_;
};

/// Runs `work` in a child process, and gives what it gave ("" is success), or how the child ended.
/// For what changes the whole process: limits, mounts, the user. Call it where no thread runs.
inline std::string in_child(const std::function<std::string()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child < 0) return "no child";
  if (child == 0) {
    const std::string text = work();
    const bool sent = text.empty() || ::write(ends[1], text.data(), text.size()) > 0;
    ::_exit(sent ? 0 : 9);
  }
  ::close(ends[1]);
  std::string text;
  char bytes[4096];
  for (ssize_t count; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;) {
    text.append(bytes, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) text += " killed by signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) text += " exit " + std::to_string(WEXITSTATUS(status));
  return text;
}

}  // namespace minuet
