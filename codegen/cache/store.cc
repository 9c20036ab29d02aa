#include "codegen/cache/store.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>

namespace minuet {
namespace {

constexpr off_t kMostEntryBytes = 256 << 20;

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

llvm::Error trouble(const std::string& what) {
  return make_error(StatusCode::FailedPrecondition, "{0}: {1}", what, reason(errno));
}

std::string shelf_name(const std::string& build_key) { return build_key.substr(0, 2); }
std::string file_name(const std::string& build_key) { return build_key.substr(2); }

/// A name that no other process and no other thread uses now.
std::string temporary_name() {
  static std::atomic<unsigned> count{0};
  // random_device reads the system's own source; the time stands in where it has none.
  unsigned long long salt =
      static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  try {
    salt ^= static_cast<unsigned long long>(std::random_device{}()) << 32;
  } catch (const std::exception&) {
  }
  return llvm::formatv("tmp-{0}-{1}-{2:x-}", ::getpid(), count++, salt).str();
}

bool is_missing(int error) { return error == ENOENT; }

}  // namespace

llvm::Error Store::check() {
  llvm::Expected<FileHandle> folder = open_cache_directory(directory_, policy_, system_);
  return folder ? llvm::Error::success() : folder.takeError();
}

llvm::Expected<FileHandle> Store::open_shelf(const std::string& build_key, bool make) {
  MINUET_ASSIGN(const FileHandle root, open_cache_directory(directory_, policy_, system_));
  const std::string parts[] = {"v" + std::to_string(kEntryFormat), "obj", shelf_name(build_key)};
  std::string path;
  for (const std::string& part : parts) {
    path += (path.empty() ? "" : "/") + part;
    if (make && system_.make_folder_at(root.get(), path.c_str(), policy_.shared ? 0777 : 0700) != 0 &&
        errno != EEXIST) {
      return trouble(directory_ + "/" + path + " cannot be made");
    }
    // Each part is ours to trust like the root: a link here would lead out of it.
    struct stat status;
    if (system_.stat_at(root.get(), path.c_str(), &status) != 0) {
      if (!make && is_missing(errno)) return make_error(StatusCode::NotFound, "no shelf yet");
      return trouble(directory_ + "/" + path);
    }
    if (!S_ISDIR(status.st_mode) || !policy_.trusts(status)) {
      return make_error(StatusCode::FailedPrecondition, "{0}/{1} is no folder of this user alone", directory_,
                        path);
    }
  }
  FileHandle shelf(
      system_, system_.open_at(root.get(), path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
  if (!shelf.good()) return trouble(directory_ + "/" + path + " cannot be opened");
  return shelf;
}

llvm::Expected<std::string> Store::read_file(int shelf, const std::string& name, struct stat& status) {
  // Without O_NONBLOCK a fifo in an entry's place would hold us for ever.
  const FileHandle file(
      system_, system_.open_at(shelf, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0));
  if (!file.good()) return trouble("it cannot be opened");
  if (system_.stat_file(file.get(), &status) != 0) return trouble("it cannot be looked at");
  if (!S_ISREG(status.st_mode)) return make_error(StatusCode::InvalidArgument, "it is no regular file");
  if (!policy_.trusts(status)) return make_error(StatusCode::InvalidArgument, "others may have written it");
  if (status.st_size > kMostEntryBytes) return make_error(StatusCode::InvalidArgument, "it is too long");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system_.read(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return trouble("it cannot be read");
    if (count == 0) return make_error(StatusCode::InvalidArgument, "it became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

std::optional<Entry> Store::load(const std::string& build_key) {
  llvm::Expected<FileHandle> shelf = open_shelf(build_key, /*make=*/false);
  if (!shelf) {
    const StatusError status = take_status(shelf.takeError());
    if (status.code() != StatusCode::NotFound) warn_("the kernel cache is not read: " + status.message());
    return std::nullopt;
  }
  const std::string name = file_name(build_key);
  struct stat seen = {};
  if (system_.stat_at(shelf->get(), name.c_str(), &seen) != 0) return std::nullopt;
  llvm::Expected<std::string> bytes = read_file(shelf->get(), name, seen);
  llvm::Expected<Entry> entry = bytes ? read_entry(*bytes) : llvm::Expected<Entry>(bytes.takeError());
  if (entry && entry->build_key != build_key) {
    entry = make_error(StatusCode::InvalidArgument, "it is another kernel's");
  }
  if (entry) return std::move(*entry);
  const StatusError status = take_status(entry.takeError());
  warn_("an entry of the kernel cache is not used (" + directory_ + ", " + build_key +
        "): " + status.message());
  // A file that cannot be read for want of descriptors or rights is not to blame.
  if (status.code() == StatusCode::InvalidArgument || !S_ISREG(seen.st_mode)) {
    remove_if_same(shelf->get(), name, seen);
  }
  return std::nullopt;
}

void Store::remove_if_same(int shelf, const std::string& name, const struct stat& status) {
  struct stat now;
  if (system_.stat_at(shelf, name.c_str(), &now) != 0) return;
  if (now.st_ino == status.st_ino && now.st_dev == status.st_dev) system_.unlink_at(shelf, name.c_str());
}

llvm::Error Store::write_file(int shelf, const std::string& temporary, const std::string& bytes) {
  // Past this limit a write would not fail but raise SIGXFSZ, and the host may have no handler.
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < bytes.size()) {
    return make_error(StatusCode::FailedPrecondition, "the entry has {0} bytes, and files may have {1}",
                      bytes.size(), limit.rlim_cur);
  }
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileHandle file(system_, system_.open_at(shelf, temporary.c_str(), flags, policy_.shared ? 0666 : 0600));
  if (!file.good()) return trouble("a file cannot be made");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system_.write(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return trouble("a file cannot be written");
    done += static_cast<std::size_t>(count);
  }
  if (system_.sync(file.get()) != 0) return trouble("a file cannot be synced");
  if (file.close_now() != 0) return trouble("a file cannot be closed");
  return llvm::Error::success();
}

void Store::publish(const std::string& build_key, const std::string& bytes) {
  auto keep = [&]() -> llvm::Error {
    MINUET_ASSIGN(const FileHandle shelf, open_shelf(build_key, /*make=*/true));
    const std::string temporary = temporary_name();
    llvm::Error written = write_file(shelf.get(), temporary, bytes);
    if (!written && system_.rename_at(shelf.get(), temporary.c_str(), file_name(build_key).c_str()) != 0) {
      written = trouble("a file cannot be renamed");
    }
    if (written) system_.unlink_at(shelf.get(), temporary.c_str());
    return written;
  };
  if (llvm::Error error = keep()) {
    warn_("a kernel is not kept on disk (" + directory_ + "): " + take_status(std::move(error)).message());
  }
}

}  // namespace minuet
