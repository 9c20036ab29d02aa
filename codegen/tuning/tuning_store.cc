#include "codegen/tuning/tuning_store.h"

#include <algorithm>
#include <chrono>

namespace minuet {
namespace {

constexpr std::uint64_t kMostFileBytes = 1 << 20;
constexpr llvm::StringLiteral kSuffix = ".json";
/// A process locks this file while it joins its entries with stored ones.
constexpr const char* kFolderLock = "lock";
constexpr std::chrono::seconds kFolderLockBound{10};

std::string file_name(const TuningEntry& entry) { return bucket_hash(entry.bucket) + kSuffix.str(); }

}  // namespace

[[gnu::cold]] void warn_of_skipped(const TuningFolder& folder,
                                   const std::function<void(const std::string&)>& warn) {
  for (const std::string& failure : folder.skipped) warn("a tuning result is not used: " + failure);
}

std::string tuning_folder_of_cache() { return "tune"; }

[[gnu::cold]] llvm::Error TuningStore::check_writable(const std::string& environment) {
  MINUET_ASSIGN(const FileHandle folder, root_.open({environment}, Missing::Make));
  const std::string name = unique_name(kTemporaryPrefix);
  MINUET_TRY(root_.write_file(folder.get(), name, "a test"));
  root_.system.unlink_at(folder.get(), name.c_str());
  return llvm::Error::success();
}

[[gnu::cold]] llvm::Error TuningStore::publish(const TuningEntry& entry) {
  const std::string environment = environment_hash(entry.environment), name = file_name(entry);
  MINUET_ASSIGN(const FileHandle folder, root_.open({environment}, Missing::Make));
  struct stat status;
  llvm::Expected<std::string> there = root_.read_file(folder.get(), name, kMostFileBytes, status);
  if (there && has_newer_schema(*there)) {
    return make_error(StatusCode::FailedPrecondition,
                      "{0} was written by a newer version of this library and is not overwritten: remove it, "
                      "or name another folder",
                      root_.path({environment, name}));
  }
  if (!there) llvm::consumeError(there.takeError());
  return root_.write_file(folder.get(), name, write_tuning({entry}));
}

/// Tries repeatedly for short times to take the lock, and checks `cancelled` in between.
[[gnu::cold]] FileLock TuningStore::lock_folder(OpenFolder open_folder,
                                                const std::function<bool()>& cancelled) {
  constexpr std::chrono::milliseconds kTry{50};
  const auto end = std::chrono::steady_clock::now() + kFolderLockBound;
  for (;;) {
    FileLock lock =
        take_file_lock(root_.system, open_folder, kFolderLock, root_.policy.file_mode(), kTry, nullptr);
    const bool is_over = std::chrono::steady_clock::now() >= end || (cancelled && cancelled());
    if (is_over || lock.outcome() != FileLock::Outcome::TimedOut) return lock;
  }
}

[[gnu::cold]] llvm::Error TuningStore::publish_joined(llvm::ArrayRef<TuningEntry> entries, Join join,
                                                      const std::function<bool()>& cancelled) {
  if (entries.empty()) return llvm::Error::success();
  const std::string environment = environment_hash(entries.front().environment);
  const auto open_folder = [&] { return root_.open({environment}, Missing::Make); };
  MINUET_ASSIGN(const FileHandle folder, open_folder());
  // The entries are published even if the lock was not obtained, because they are worth more than the data
  // that another process may lose.
  const FileLock lock = lock_folder(open_folder, cancelled);
  for (const TuningEntry& entry : entries) {
    llvm::Expected<TuningEntry> there = read_entry(folder.get(), environment, file_name(entry));
    if (!there) llvm::consumeError(there.takeError());
    const bool is_same = there && there->kernels == entry.kernels;
    MINUET_TRY(publish(is_same ? join(entry, *there) : entry));
  }
  return llvm::Error::success();
}

[[gnu::cold]] llvm::Expected<TuningEntry> TuningStore::read_entry(int folder, const std::string& environment,
                                                                  const std::string& name) {
  struct stat status;
  MINUET_ASSIGN(const std::string bytes, root_.read_file(folder, name, kMostFileBytes, status));
  std::vector<std::string> skipped;
  MINUET_ASSIGN(const std::vector<TuningEntry> entries, read_tuning(bytes, &skipped));
  if (!skipped.empty()) return make_error(StatusCode::InvalidArgument, "{0}", skipped.front());
  // A file that was copied from another GPU's folder names another environment.
  if (entries.size() != 1 || environment_hash(entries[0].environment) != environment ||
      file_name(entries[0]) != name) {
    return make_error(StatusCode::InvalidArgument,
                      "it is for another device, toolkit or problem than its path says: remove it");
  }
  return entries[0];
}

llvm::Expected<std::vector<std::string>> TuningStore::names_in(const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  llvm::Expected<FileHandle> folder = root_.open(parts, Missing::Fail);
  if (!folder) {
    StatusError status = take_status(folder.takeError());
    if (status.code() == StatusCode::NotFound) return names;
    return llvm::make_error<StatusError>(std::move(status));
  }
  if (root_.system.list(folder->get(), &names) != 0)
    return make_system_error(root_.path(parts) + " cannot be listed");
  std::sort(names.begin(), names.end());
  return names;
}

[[gnu::cold]] llvm::Expected<TuningFolder> TuningStore::load(const std::string& environment) {
  TuningFolder result;
  MINUET_ASSIGN(const std::vector<std::string> names, names_in({environment}));
  if (names.empty()) return result;
  MINUET_ASSIGN(const FileHandle folder, root_.open({environment}, Missing::Fail));
  for (const std::string& name : names) {
    if (llvm::StringRef(name).take_back(kSuffix.size()) != kSuffix) continue;
    llvm::Expected<TuningEntry> entry = read_entry(folder.get(), environment, name);
    if (entry) {
      result.entries.push_back(std::move(*entry));
    } else {
      result.skipped.push_back(environment + "/" + name + ": " + take_status(entry.takeError()).message());
    }
  }
  return result;
}

llvm::Expected<std::vector<std::string>> TuningStore::environments() {
  MINUET_ASSIGN(std::vector<std::string> names, names_in({}));
  names.erase(std::remove_if(names.begin(), names.end(), [](auto& name) { return !is_key(name); }),
              names.end());
  return names;
}

}  // namespace minuet
