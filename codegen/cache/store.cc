#include "codegen/cache/store.h"

#include <cerrno>

namespace minuet {
namespace {

constexpr off_t kMostEntryBytes = 256 << 20;

/// NotFound for what is not there, InvalidArgument for what is no good: the rest may pass by itself.
llvm::Error trouble(const std::string& what) {
  const StatusCode code = errno == ENOENT ? StatusCode::NotFound : StatusCode::FailedPrecondition;
  return make_error(code, "{0}: {1}", what, errno_text(errno));
}

llvm::Error no_good(const char* what) { return make_error(StatusCode::InvalidArgument, "{0}", what); }

std::string shelf_name(const std::string& build_key) { return build_key.substr(0, 2); }
std::string file_name(const std::string& build_key) { return build_key.substr(2); }

}  // namespace

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

llvm::Expected<std::string> Store::read_file(int shelf, const std::string& name, struct stat& status) {
  FileSystem& system = root_.system;
  // Without O_NONBLOCK a fifo that takes an entry's place just now would hold us for ever.
  const FileHandle file(
      system, system.open_at(shelf, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0));
  if (!file.good()) return trouble("it cannot be opened");
  if (system.stat_file(file.get(), &status) != 0) return trouble("it cannot be looked at");
  if (!S_ISREG(status.st_mode)) return no_good("it is no regular file");
  if (!root_.policy.trusts(status)) return no_good("others may have written it");
  if (status.st_size > kMostEntryBytes) return no_good("it is too long");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system.read(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return trouble("it cannot be read");
    if (count == 0) return no_good("it became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

llvm::Expected<Entry> Store::read_from(int shelf, const std::string& build_key, struct stat& status) {
  const std::string name = file_name(build_key);
  if (root_.system.stat_at(shelf, name.c_str(), &status) != 0) return trouble("it cannot be looked at");
  // Opening a device or a fifo may do something by itself.
  if (!S_ISREG(status.st_mode)) return no_good("it is no regular file");
  MINUET_ASSIGN(const std::string bytes, read_file(shelf, name, status));
  MINUET_ASSIGN(Entry entry, read_entry(bytes));
  if (entry.build_key != build_key) return no_good("it is another kernel's");
  return entry;
}

llvm::Expected<Entry> Store::read(const std::string& build_key) {
  if (!is_key(build_key)) {
    return make_error(StatusCode::NotFound, "'{0}' is no key of 64 lower-case hex digits", build_key);
  }
  MINUET_ASSIGN(const FileHandle shelf, open_shelf(build_key, Missing::Fail));
  struct stat status;
  return read_from(shelf.get(), build_key, status);
}

std::optional<Entry> Store::load(const std::string& build_key) {
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
    // For prune, where the file system keeps no time of the last access. A failure is nobody's trouble.
    if (!root_.read_only && is_older(seen.st_mtim, limits_.touch_interval)) {
      root_.system.touch_at(shelf->get(), name.c_str());
    }
    return std::move(*entry);
  }
  const StatusError status = take_status(entry.takeError());
  if (status.code() == StatusCode::NotFound) return std::nullopt;
  warn_("an entry of the kernel cache is not used (" + root_.directory + ", " + build_key +
        "): " + status.message());
  // A file that cannot be read for want of descriptors or rights is not to blame.
  if (status.code() == StatusCode::InvalidArgument) clear_place(shelf->get(), name, seen);
  return std::nullopt;
}

/// Makes room for the entry that will be published, and destroys nothing that is not ours.
void Store::clear_place(int shelf, const std::string& name, const struct stat& seen) {
  if (root_.read_only) return;
  if (!S_ISDIR(seen.st_mode)) {
    remove_if_same(root_.system, shelf, name, seen);
  } else if (root_.system.remove_folder_at(shelf, name.c_str()) != 0 &&
             (errno == ENOTEMPTY || errno == EEXIST)) {
    root_.system.rename_at(shelf, name.c_str(), unique_name(kAsidePrefix).c_str());
  }
}

llvm::Error Store::write_file(const FileHandle& file, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = root_.system.write(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return trouble("a file cannot be written");
    done += static_cast<std::size_t>(count);
  }
  return llvm::Error::success();  // what a crash tears, the entry's digest finds (R6)
}

llvm::Error Store::keep(const std::string& build_key, const std::string& bytes) {
  MINUET_TRY(check_file_limit(bytes.size()));
  FileSystem& system = root_.system;
  MINUET_ASSIGN(const FileHandle shelf, open_shelf(build_key, Missing::Make));
  const std::string temporary = unique_name(kTemporaryPrefix);
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileHandle file(system, system.open_at(shelf.get(), temporary.c_str(), flags, root_.policy.file_mode()));
  if (!file.good()) return trouble("a file cannot be made");
  llvm::Error error = write_file(file, bytes);
  if (file.close_now() != 0 && !error) error = trouble("a file cannot be closed");
  if (!error && system.rename_at(shelf.get(), temporary.c_str(), file_name(build_key).c_str()) != 0) {
    error = trouble("a file cannot be renamed");
  }
  if (error) system.unlink_at(shelf.get(), temporary.c_str());
  return error;
}

bool Store::note_compiler(const std::string& id) {
  if (root_.read_only) return true;
  llvm::Expected<FileHandle> folder = root_.open({"compilers"}, Missing::Make);
  // Where it cannot be said, the entries can still be found by who asks the compiler.
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
  std::sort(ids.rbegin(), ids.rend());  // the newest version first, whatever the folder's order
  return ids;
}

void Store::publish(const std::string& build_key, const std::string& bytes, FileLock* lock) {
  if (root_.read_only) return;
  llvm::Error failure = keep(build_key, bytes);
  if (lock != nullptr) lock->release();
  if (llvm::Error error = std::move(failure)) {
    warn_("a kernel is not kept on disk (" + root_.directory +
          "): " + take_status(std::move(error)).message());
    return;
  }
  llvm::Expected<PruneResult> pruned = prune_entries(root_, limits_, build_key, /*force=*/false);
  if (!pruned) {
    warn_("the kernel cache is not pruned (" + root_.directory +
          "): " + take_status(pruned.takeError()).message());
  }
}

}  // namespace minuet
