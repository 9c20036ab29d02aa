#include "codegen/cache/store.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <random>

#include "codegen/cache/size_record.h"

namespace minuet {
namespace {

constexpr std::uint64_t kMostEntryBytes = 256 << 20;

/// Returns NotFound if errno means a missing file, and FailedPrecondition for other system errors, which may
/// be temporary. InvalidArgument is reserved for files with invalid contents.
llvm::Error failure(const std::string& what) {
  const StatusCode code = errno == ENOENT ? StatusCode::NotFound : StatusCode::FailedPrecondition;
  return make_error(code, "{0}: {1}", what, errno_text(errno));
}

llvm::Error no_attributes() { return failure("its attributes cannot be read"); }

llvm::Error invalid_file(const char* what) { return make_error(StatusCode::InvalidArgument, "{0}", what); }

std::string shelf_name(const std::string& build_key) { return build_key.substr(0, 2); }
std::string file_name(const std::string& build_key) { return build_key.substr(2); }

/// Returns true if `a` and `b` describe the same inode with the same size and modification time.
bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

llvm::Error write_all(FileSystem& system, int file, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t count = system.write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failure("a file cannot be written");
    bytes = bytes.drop_front(static_cast<std::size_t>(count));
  }
  return llvm::Error::success();
}

}  // namespace

std::string StoreRoot::path(const std::vector<std::string>& parts) const {
  std::string path = directory;
  if (!top.empty()) path += "/" + top;
  for (const std::string& part : parts) path += "/" + part;
  return path;
}

llvm::Expected<FileHandle> StoreRoot::open(const std::vector<std::string>& parts, Missing missing) const {
  if (read_only) missing = Missing::Fail;
  MINUET_ASSIGN(FileHandle folder, open_cache_directory(directory, policy, system, missing));
  std::vector<std::string> done;
  auto enter = [&](const std::string& name) -> llvm::Error {
    MINUET_ASSIGN(FileHandle next,
                  open_trusted_folder(folder.get(), name, path(done), policy, system, missing));
    folder = std::move(next);
    return llvm::Error::success();
  };
  if (!top.empty()) MINUET_TRY(enter(top));
  for (const std::string& part : parts) {
    done.push_back(part);
    MINUET_TRY(enter(part));
  }
  return folder;
}

bool is_key(llvm::StringRef text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == llvm::StringRef::npos;
}

std::string unique_name(llvm::StringRef prefix) {
  static std::atomic<unsigned> count{0};
  // `salt` is the time alone if the system has no source of random numbers.
  unsigned long long salt =
      static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  try {
    salt ^= static_cast<unsigned long long>(std::random_device{}()) << 32;
  } catch (const std::exception&) {
  }
  // The process id is unique only within one host, but several hosts may share the directory, so the name
  // also contains `salt`.
  return llvm::formatv("{0}{1}-{2}-{3:x-}", prefix, ::getpid(), count++, salt).str();
}

bool is_older(const struct timespec& then, std::chrono::seconds age) {
  const std::time_t seconds = std::time(nullptr) - then.tv_sec;
  return std::max(seconds, -seconds) >= age.count();
}

Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen) {
  struct stat now;
  if (system.stat_at(folder, name.c_str(), &now) != 0) return errno == ENOENT ? Removal::Gone : Removal::Kept;
  if (!same_file(now, seen)) return Removal::Kept;
  if (system.unlink_at(folder, name.c_str()) == 0) return Removal::Removed;
  return errno == ENOENT ? Removal::Gone : Removal::Kept;
}

llvm::Expected<std::string> StoreRoot::read_file(int folder, const std::string& name,
                                                 std::uint64_t most_bytes, struct stat& status) const {
  // Another process may replace the file by a FIFO at this moment. Without O_NONBLOCK, opening it could block
  // forever.
  const FileHandle file(
      system, system.open_at(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0));
  if (!file.good()) return failure("it cannot be opened");
  if (system.stat_file(file.get(), &status) != 0) return no_attributes();
  if (!S_ISREG(status.st_mode)) return invalid_file(kNotRegularFile);
  if (!policy.trusts(status)) return invalid_file("other users may have written it");
  if (static_cast<std::uint64_t>(status.st_size) > most_bytes) return invalid_file("it is too long");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system.read(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure("it cannot be read");
    if (count == 0) return invalid_file("it became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

llvm::Error StoreRoot::write_file(int folder, const std::string& name, llvm::StringRef bytes) const {
  MINUET_TRY(check_file_limit(bytes.size()));
  const std::string temporary = unique_name(kTemporaryPrefix);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileHandle file(system, system.open_at(folder, temporary.c_str(), flags, policy.file_mode()));
  if (!file.good()) return failure("a file cannot be made");
  llvm::Error error = write_all(system, file.get(), bytes);
  if (file.close_now() != 0 && !error) error = failure("a file cannot be closed");
  if (!error && system.rename_at(folder, temporary.c_str(), name.c_str()) != 0) {
    error = failure("a file cannot be renamed");
  }
  if (error) system.unlink_at(folder, temporary.c_str());
  return error;
}

std::string Store::entry_path(const std::string& build_key) const {
  return root_.path({"obj", shelf_name(build_key), file_name(build_key)});
}

llvm::Error Store::check() {
  const Missing missing = root_.read_only ? Missing::Fail : Missing::Make;
  llvm::Expected<FileHandle> folder =
      open_cache_directory(root_.directory, root_.policy, root_.system, missing);
  if (folder) return llvm::Error::success();
  StatusError status = take_status(folder.takeError());
  if (root_.read_only && status.code() == StatusCode::NotFound) return llvm::Error::success();
  return llvm::make_error<StatusError>(std::move(status));
}

llvm::Expected<FileHandle> Store::open_shelf(const std::string& build_key, Missing missing) {
  return root_.open({"obj", shelf_name(build_key)}, missing);
}

llvm::Expected<Entry> Store::read_from(int shelf, const std::string& build_key, struct stat& status) {
  const std::string name = file_name(build_key);
  if (root_.system.stat_at(shelf, name.c_str(), &status) != 0) return no_attributes();
  // Check the type first, because opening a device or a FIFO may have side effects.
  if (!S_ISREG(status.st_mode)) return invalid_file(kNotRegularFile);
  MINUET_ASSIGN(const std::string bytes, root_.read_file(shelf, name, kMostEntryBytes, status));
  MINUET_ASSIGN(Entry entry, read_entry(bytes));
  if (entry.build_key != build_key) return invalid_file("it is the entry of another kernel");
  return entry;
}

llvm::Expected<Entry> Store::read(const std::string& build_key) {
  if (!is_key(build_key)) {
    return make_error(StatusCode::NotFound, "'{0}' is not a key of 64 lower-case hex digits", build_key);
  }
  MINUET_ASSIGN(const FileHandle shelf, open_shelf(build_key, Missing::Fail));
  struct stat status;
  return read_from(shelf.get(), build_key, status);
}

std::optional<Entry> Store::find(const std::string& build_key) {
  llvm::Expected<FileHandle> shelf = open_shelf(build_key, Missing::Fail);
  if (!shelf) {
    const StatusError status = take_status(shelf.takeError());
    if (status.code() != StatusCode::NotFound) warn_("the kernel cache is not read: " + status.message());
    return std::nullopt;
  }
  const std::string name = file_name(build_key);
  struct stat seen = {};
  llvm::Expected<Entry> entry = read_from(shelf->get(), build_key, seen);
  if (entry) {
    // The modification time records the last use for prune(), because file systems may not keep access times.
    // A failure to set it is ignored.
    if (!root_.read_only && is_older(seen.st_mtim, limits_.touch_interval)) {
      root_.system.touch_at(shelf->get(), name.c_str());
    }
    return std::move(*entry);
  }
  const StatusError status = take_status(entry.takeError());
  if (status.code() == StatusCode::NotFound) return std::nullopt;
  warn_("an entry of the kernel cache is not used (" + root_.directory + ", " + build_key +
        "): " + status.message());
  // Remove only a file with invalid contents, not one that cannot be read for lack of descriptors or
  // permissions.
  if (status.code() == StatusCode::InvalidArgument) clear_place(shelf->get(), name, seen);
  return std::nullopt;
}

/// Clears the path of an entry that will be published. Removes a file or an empty folder, and renames any
/// other folder, which may contain another program's data.
void Store::clear_place(int shelf, const std::string& name, const struct stat& seen) {
  if (root_.read_only) return;
  if (!S_ISDIR(seen.st_mode)) {
    remove_if_same(root_.system, shelf, name, seen);
  } else if (root_.system.remove_folder_at(shelf, name.c_str()) != 0 &&
             (errno == ENOTEMPTY || errno == EEXIST)) {
    root_.system.rename_at(shelf, name.c_str(), unique_name(kAsidePrefix).c_str());
  }
}

bool Store::note_compiler(const std::string& id) {
  if (root_.read_only) return true;
  llvm::Expected<FileHandle> folder = root_.open({"compilers"}, Missing::Make);
  // A failure to record the compiler is not serious, because processes that can identify the compiler find
  // its kernels without the record.
  if (!folder) return llvm::consumeError(folder.takeError()), false;
  const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const FileHandle made(root_.system,
                        root_.system.open_at(folder->get(), id.c_str(), flags, root_.policy.file_mode()));
  return made.good();
}

std::vector<std::string> Store::compilers() {
  std::vector<std::string> ids;
  llvm::Expected<FileHandle> folder = root_.open({"compilers"}, Missing::Fail);
  if (!folder) return llvm::consumeError(folder.takeError()), ids;
  static_cast<void>(root_.system.list(folder->get(), &ids));
  // The result must not depend on the order in which the folder lists files.
  std::sort(ids.begin(), ids.end());
  return ids;
}

void Store::warn_not_pruned(llvm::Error error) {
  warn_("the kernel cache is not pruned (" + root_.directory +
        "): " + take_status(std::move(error)).message());
}

void Store::publish(const std::string& build_key, const std::string& bytes, FileLock* lock) {
  if (root_.read_only) return;
  llvm::Error failure = [&]() -> llvm::Error {
    MINUET_ASSIGN(const FileHandle shelf, open_shelf(build_key, Missing::Make));
    return root_.write_file(shelf.get(), file_name(build_key), bytes);
  }();
  if (lock != nullptr) lock->release();
  if (llvm::Error error = std::move(failure)) {
    warn_("a kernel is not kept on disk (" + root_.directory +
          "): " + take_status(std::move(error)).message());
    return;
  }
  add_to_size(root_, bytes.size());
  llvm::Expected<PruneResult> pruned = prune(limits_, /*force=*/false, build_key);
  if (!pruned) {
    warn_not_pruned(pruned.takeError());
  }
}

FileLock Store::lock(const std::string& build_key, std::chrono::milliseconds bound,
                     const CancelToken* cancel) {
  const auto open_folder = [&]() -> llvm::Expected<FileHandle> {
    if (root_.read_only)
      return make_error(StatusCode::NotFound,
                        "the kernel cache is open for reading only, so it has no locks");
    return root_.open({"lock"}, Missing::Make);
  };
  return take_file_lock(root_.system, open_folder, build_key, root_.policy.file_mode(), bound, cancel);
}

}  // namespace minuet
