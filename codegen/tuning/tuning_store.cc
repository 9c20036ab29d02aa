#include "codegen/tuning/tuning_store.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>

#include "codegen/cache/entry.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

namespace minuet {
namespace {

constexpr off_t kMostFileBytes = 1 << 20;
constexpr std::size_t kHashDigits = 64;
constexpr llvm::StringLiteral kSuffix = ".json";

bool is_hash(llvm::StringRef text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), llvm::isHexDigit);
}

/// A name that no other process and no other thread uses now; no reader takes it for an entry.
std::string temporary_name() {
  static std::atomic<unsigned> count{0};
  const long long now = std::chrono::steady_clock::now().time_since_epoch().count();
  return llvm::formatv("tmp-{0}-{1}-{2:x-}", ::getpid(), count++, now).str();
}

/// Names in a folder, ascending: the order of a folder differs between file systems.
llvm::Expected<std::vector<std::string>> names_in(int folder) {
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (stream == nullptr) {
    llvm::Error error = make_system_error("a folder of tuning results cannot be listed");
    if (copy >= 0) ::close(copy);
    return error;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> owner(stream, ::closedir);
  std::vector<std::string> names;
  // An end and an error differ by errno only.
  while (errno = 0, true) {
    const dirent* const entry = ::readdir(stream);
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) return make_system_error("a folder of tuning results cannot be listed");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string tuning_folder_of_cache() { return "tune"; }

llvm::Expected<FileHandle> TuningStore::open_folder(const std::string& environment_hash, bool make) {
  struct stat status;
  // Who only reads makes no folders.
  if (!make && system_.stat_at(AT_FDCWD, directory_.c_str(), &status) != 0 && errno == ENOENT) {
    return make_error(StatusCode::NotFound, "no results yet");
  }
  MINUET_ASSIGN(const FileHandle root, open_cache_directory(directory_, policy_, system_));
  llvm::SmallVector<llvm::StringRef, 4> parts;
  const std::string below = below_ + "/" + environment_hash;
  llvm::StringRef(below).split(parts, '/', -1, /*KeepEmpty=*/false);
  std::string path = ".";
  for (const llvm::StringRef part : parts) {
    path += "/" + part.str();
    if (make && system_.make_folder_at(root.get(), path.c_str(), policy_.shared ? 0777 : 0700) != 0 &&
        errno != EEXIST) {
      return make_system_error(directory_ + "/" + path + " cannot be made");
    }
    // A link here would lead to where others may write.
    if (system_.stat_at(root.get(), path.c_str(), &status) != 0) {
      if (!make && errno == ENOENT) return make_error(StatusCode::NotFound, "no results yet");
      return make_system_error(directory_ + "/" + path);
    }
    if (!S_ISDIR(status.st_mode) || !policy_.trusts(status)) {
      return make_error(StatusCode::FailedPrecondition, "{0}/{1} is no folder of this user alone", directory_,
                        path);
    }
  }
  FileHandle folder(
      system_, system_.open_at(root.get(), path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0));
  if (!folder.good()) return make_system_error(directory_ + "/" + path + " cannot be opened");
  return folder;
}

llvm::Expected<std::string> TuningStore::read_file(int folder, const std::string& name) {
  // Without O_NONBLOCK a fifo in an entry's place would hold us for ever.
  const FileHandle file(
      system_, system_.open_at(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0));
  struct stat status;
  if (!file.good() || system_.stat_file(file.get(), &status) != 0)
    return make_system_error("it cannot be opened");
  if (!S_ISREG(status.st_mode)) return make_error(StatusCode::InvalidArgument, "it is no regular file");
  if (!policy_.trusts(status)) return make_error(StatusCode::InvalidArgument, "others may have written it");
  if (status.st_size > kMostFileBytes) return make_error(StatusCode::InvalidArgument, "it is too long");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system_.read(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return make_system_error("it cannot be read");
    if (count == 0) return make_error(StatusCode::InvalidArgument, "it became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

llvm::Error TuningStore::write_file(int folder, const std::string& temporary, const std::string& bytes) {
  MINUET_TRY(check_file_limit(bytes.size()));
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileHandle file(system_, system_.open_at(folder, temporary.c_str(), flags, policy_.shared ? 0666 : 0600));
  if (!file.good()) return make_system_error("a file cannot be made");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = system_.write(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return make_system_error("a file cannot be written");
    done += static_cast<std::size_t>(count);
  }
  if (system_.sync(file.get()) != 0) return make_system_error("a file cannot be synced");
  return file.close_now() == 0 ? llvm::Error::success() : make_system_error("a file cannot be closed");
}

llvm::Error TuningStore::publish(const TuningEntry& entry) {
  MINUET_ASSIGN(const FileHandle folder, open_folder(environment_hash(entry.environment), /*make=*/true));
  const std::string temporary = temporary_name();
  const std::string name = bucket_hash(entry.bucket) + kSuffix.str();
  llvm::Error error = write_file(folder.get(), temporary, print_entry(entry));
  if (!error && system_.rename_at(folder.get(), temporary.c_str(), name.c_str()) != 0) {
    error = make_system_error("a file cannot be renamed");
  }
  if (error) system_.unlink_at(folder.get(), temporary.c_str());
  return error;
}

llvm::Expected<TuningEntry> TuningStore::read_entry(int folder, const std::string& environment,
                                                    const std::string& name) {
  MINUET_ASSIGN(const std::string bytes, read_file(folder, name));
  MINUET_ASSIGN(TuningEntry entry, parse_entry(bytes));
  // A file that was copied to another GPU's folder says so itself.
  if (environment_hash(entry.environment) != environment ||
      bucket_hash(entry.bucket) + kSuffix.str() != name) {
    return make_error(StatusCode::InvalidArgument, "it is of another environment or bucket than its name");
  }
  return entry;
}

llvm::Expected<TuningFolder> TuningStore::load(const std::string& environment) {
  TuningFolder result;
  llvm::Expected<FileHandle> folder = open_folder(environment, /*make=*/false);
  if (!folder) {
    StatusError status = take_status(folder.takeError());
    if (status.code() == StatusCode::NotFound) return result;
    return llvm::make_error<StatusError>(std::move(status));
  }
  MINUET_ASSIGN(const std::vector<std::string> names, names_in(folder->get()));
  for (const std::string& name : names) {
    if (llvm::StringRef(name).take_back(kSuffix.size()) != kSuffix) continue;
    llvm::Expected<TuningEntry> entry = read_entry(folder->get(), environment, name);
    if (entry) {
      result.entries.push_back(std::move(*entry));
    } else {
      result.skipped.push_back(environment + "/" + name + ": " + take_status(entry.takeError()).message());
    }
  }
  return result;
}

llvm::Expected<std::vector<std::string>> TuningStore::environments() {
  llvm::Expected<FileHandle> folder = open_folder("", /*make=*/false);
  if (!folder) {
    StatusError status = take_status(folder.takeError());
    if (status.code() == StatusCode::NotFound) return std::vector<std::string>{};
    return llvm::make_error<StatusError>(std::move(status));
  }
  MINUET_ASSIGN(std::vector<std::string> names, names_in(folder->get()));
  names.erase(std::remove_if(names.begin(), names.end(), [](auto& name) { return !is_hash(name); }),
              names.end());
  return names;
}

}  // namespace minuet
