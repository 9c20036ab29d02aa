// Lists the files of the store of kernels on disk (store.h) and removes entries beyond its limits, the least
// recently used first.

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "codegen/cache/size_record.h"
#include "codegen/cache/store.h"

namespace minuet {
namespace {

/// Names the file that a pruning process locks. The modification time of the file is that of the last prune.
constexpr const char* kStamp = "pruned";

struct Found {
  std::string path;  ///< Gives the path relative to obj/, such as "ab/cdef...".
  struct stat status;
};

/// Holds the entries of the store, and temporary files that killed processes may have left (orphans).
struct Scan {
  std::vector<Found> entries, orphans;
};

std::string build_key_of(const std::string& path) { return path.substr(0, 2) + path.substr(3); }

bool used_before(const Found& a, const Found& b) {
  const struct timespec &x = a.status.st_mtim, &y = b.status.st_mtim;
  return std::tie(x.tv_sec, x.tv_nsec, a.path) < std::tie(y.tv_sec, y.tv_nsec, b.path);
}

void scan_shelf(const StoreRoot& root, int objects, const std::string& name, Scan& scan) {
  llvm::Expected<FileHandle> shelf =
      open_trusted_folder(objects, name, root.path({"obj", name}), root.policy, root.system, Missing::Fail);
  std::vector<std::string> files;
  // Skip a folder that cannot be read and continue with the others.
  if (!shelf) return llvm::consumeError(shelf.takeError());
  if (root.system.list(shelf->get(), &files) != 0) return;
  for (const std::string& file : files) {
    const bool is_entry = is_key(name + file), is_orphan = llvm::StringRef(file).find(kTemporaryPrefix) == 0;
    struct stat status;
    if ((!is_entry && !is_orphan) || root.system.stat_at(shelf->get(), file.c_str(), &status) != 0) continue;
    // Skip everything that is not a regular file. Store::find() deals with a folder that has the name of an
    // entry.
    if (S_ISREG(status.st_mode))
      (is_entry ? scan.entries : scan.orphans).push_back({name + "/" + file, status});
  }
}

/// Opens the folder obj/. Returns std::nullopt if it does not exist, because then nothing was ever stored.
llvm::Expected<std::optional<FileHandle>> open_objects(const StoreRoot& root) {
  llvm::Expected<FileHandle> objects = root.open({"obj"}, Missing::Fail);
  if (objects) return std::move(*objects);
  StatusError status = take_status(objects.takeError());
  if (status.code() == StatusCode::NotFound) return std::nullopt;
  return llvm::make_error<StatusError>(std::move(status));
}

llvm::Expected<std::vector<std::string>> names_in(const StoreRoot& root, int objects) {
  std::vector<std::string> names;
  if (root.system.list(objects, &names) == 0) return names;
  return make_error(StatusCode::FailedPrecondition, "{0} cannot be listed: {1}", root.path({"obj"}),
                    errno_text(errno));
}

/// Returns the entries and the temporary files below obj/. The least recently used entry comes first.
llvm::Expected<Scan> scan_objects(const StoreRoot& root, int objects) {
  Scan scan;
  MINUET_ASSIGN(const std::vector<std::string> shelves, names_in(root, objects));
  for (const std::string& shelf : shelves) {
    if (shelf.size() == 2) scan_shelf(root, objects, shelf, scan);
  }
  std::sort(scan.entries.begin(), scan.entries.end(), used_before);
  return scan;
}

/// Returns the size to which a prune reduces the store. It is below the limit, so that there is room for
/// entries published before the next prune.
std::uint64_t with_slack(std::uint64_t limit) { return limit - limit / 20; }

void remove_entries(const StoreRoot& root, int objects, const std::vector<Found>& entries,
                    const StoreLimits& limits, const std::string& keep, PruneResult& result) {
  for (const Found& entry : entries) result.bytes += static_cast<std::uint64_t>(entry.status.st_size);
  result.entries = entries.size();
  if (result.bytes <= limits.bytes && result.entries <= limits.files) return;
  for (const Found& entry : entries) {
    if (result.bytes <= with_slack(limits.bytes) && result.entries <= with_slack(limits.files)) return;
    if (build_key_of(entry.path) == keep) continue;
    const Removal removal = remove_if_same(root.system, objects, entry.path, entry.status);
    if (removal == Removal::Kept) continue;
    const auto bytes = static_cast<std::uint64_t>(entry.status.st_size);
    --result.entries;
    result.bytes -= bytes;
    if (removal == Removal::Removed) ++result.removed_entries, result.removed_bytes += bytes;
  }
}

void remove_orphans(const StoreRoot& root, int objects, const std::vector<Found>& orphans,
                    const StoreLimits& limits, PruneResult& result) {
  for (const Found& orphan : orphans) {
    if (is_older(orphan.status.st_mtim, limits.orphan_age) &&
        remove_if_same(root.system, objects, orphan.path, orphan.status) == Removal::Removed) {
      ++result.removed_orphans;
    }
  }
}

/// Removes lock files that are not in use. A lock file is removed only while this process holds its lock, and
/// only if it still has its name. Processes that wait for it detect the removal (file_lock.cc) and create a
/// new one.
void remove_locks(const StoreRoot& root, PruneResult& result) {
  llvm::Expected<FileHandle> folder = root.open({"lock"}, Missing::Fail);
  std::vector<std::string> names;
  if (!folder) return llvm::consumeError(folder.takeError());
  if (root.system.list(folder->get(), &names) != 0) return;
  for (const std::string& name : names) {
    if (!is_key(name)) continue;
    LockableFile file(root.system, root.system.open_at(folder->get(), name.c_str(),
                                                       O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0));
    struct stat status;
    if (file.good() && file.try_lock() && root.system.stat_file(file.get(), &status) == 0 &&
        remove_if_same(root.system, folder->get(), name, status) == Removal::Removed) {
      ++result.removed_locks;
    }
  }
}

/// Returns true if the last prune is longer ago than limits.interval, or if there was none.
bool is_due(const StoreRoot& root, const FileHandle& version, const StoreLimits& limits) {
  struct stat status;
  return root.system.stat_at(version.get(), kStamp, &status) != 0 ||
         is_older(status.st_mtim, limits.interval);
}

/// Locks the file kStamp and sets its modification time to now. Returns a file that is not good() if the last
/// prune is recent or if another process is pruning. In a new store, this function creates the file, so that
/// the last prune counts as recent unless `force` is true.
llvm::Expected<LockableFile> claim_stamp(const StoreRoot& root, const FileHandle& version,
                                         const StoreLimits& limits, bool force) {
  LockableFile none(root.system, -1);
  if (!force && !is_due(root, version, limits)) return none;
  const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  LockableFile stamp(root.system, root.system.open_at(version.get(), kStamp, flags, root.policy.file_mode()));
  auto failure = [&] {
    return make_error(StatusCode::FailedPrecondition, "{0}: {1}", root.path({kStamp}), errno_text(errno));
  };
  if (!stamp.good()) return failure();
  // If the file system has no locks, two simultaneous prunes do no harm, because each process checks a file
  // again before it removes the file.
  if (!stamp.try_lock() && errno == EWOULDBLOCK) return none;
  // Another process may have pruned between the check above and the lock.
  if (!force && !is_due(root, version, limits)) return none;
  // The time is set before the work, so that other processes do not retry at once if this process ends during
  // the work.
  if (root.system.touch_at(version.get(), kStamp) != 0) return failure();
  return stamp;
}

}  // namespace

llvm::Expected<std::vector<ForeignFile>> Store::strays() {
  const StoreRoot& root = root_;
  std::vector<ForeignFile> strays;
  MINUET_ASSIGN(const std::optional<FileHandle> objects, open_objects(root));
  if (!objects) return strays;
  MINUET_ASSIGN(const std::vector<std::string> shelves, names_in(root, objects->get()));
  for (const std::string& name : shelves) {
    const std::string path = root.path({"obj", name});
    if (!is_key(name + std::string(62, '0'))) {
      strays.push_back(
          {path, "its name is not two hex digits, so it does not belong to the kernel cache: move it away"});
      continue;
    }
    llvm::Expected<FileHandle> shelf =
        open_trusted_folder(objects->get(), name, path, root.policy, root.system, Missing::Fail);
    if (!shelf) {
      StatusError status = take_status(shelf.takeError());
      if (status.code() != StatusCode::NotFound) strays.push_back({path, status.message()});
      continue;
    }
    std::vector<std::string> files;
    if (root.system.list(shelf->get(), &files) != 0) strays.push_back({path, errno_text(errno)});
    for (const std::string& file : files) {
      struct stat status;
      if (llvm::StringRef(file).find(kTemporaryPrefix) == 0 || llvm::StringRef(file).find(kAsidePrefix) == 0)
        continue;
      if (!is_key(name + file)) {
        strays.push_back(
            {path + "/" + file,
             "its name is not the key of a kernel, so it does not belong to the kernel cache: move it away"});
      } else if (root.system.stat_at(shelf->get(), file.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        strays.push_back({path + "/" + file, kNotRegularFile});
      }
    }
  }
  return strays;
}

llvm::Expected<std::vector<StoredEntry>> Store::list() {
  const StoreRoot& root = root_;
  MINUET_ASSIGN(const std::optional<FileHandle> objects, open_objects(root));
  if (!objects) return std::vector<StoredEntry>();
  MINUET_ASSIGN(const Scan scan, scan_objects(root, objects->get()));
  std::vector<StoredEntry> entries;
  for (const Found& found : scan.entries) {
    const auto modified = std::chrono::seconds(found.status.st_mtim.tv_sec) +
                          std::chrono::nanoseconds(found.status.st_mtim.tv_nsec);
    entries.push_back({build_key_of(found.path), root.path({"obj", found.path}),
                       static_cast<std::uint64_t>(found.status.st_size),
                       std::chrono::system_clock::time_point(
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(modified))});
  }
  return entries;
}

llvm::Expected<PruneResult> Store::prune(const StoreLimits& limits, bool force, const std::string& keep) {
  const StoreRoot& root = root_;
  PruneResult result;
  if (root.read_only)
    return make_error(StatusCode::FailedPrecondition,
                      "the kernel cache is open for reading only, so it cannot be pruned");
  MINUET_ASSIGN(const std::optional<FileHandle> objects, open_objects(root));
  result.ran = !objects.has_value();
  if (result.ran) return result;  // Nothing was ever stored here, so nothing needs to be removed.
  MINUET_ASSIGN(const FileHandle version, root.open({}, Missing::Fail));
  MINUET_ASSIGN(const LockableFile stamp, claim_stamp(root, version, limits, force));
  if (!stamp.good()) return result;
  const bool is_begun = begin_size(root, version.get());
  MINUET_ASSIGN(const Scan scan, scan_objects(root, objects->get()));
  remove_orphans(root, objects->get(), scan.orphans, limits, result);
  remove_entries(root, objects->get(), scan.entries, limits, keep, result);
  remove_locks(root, result);
  if (is_begun) end_size(root, version.get(), {result.bytes, result.entries});
  result.ran = true;
  return result;
}

llvm::Error Store::keep_limits(const std::string& keep) {
  if (root_.read_only || limits_.bytes == kNoByteLimit) return llvm::Error::success();
  const std::optional<StoreSize> size = read_size(root_);
  if (size && size->bytes <= limits_.bytes && size->entries <= limits_.files) return llvm::Error::success();
  llvm::Error error = prune(limits_, /*force=*/true, keep).takeError();
  if (size) return error;
  // The size is unknown and the prune failed, for example because this user can only read the folder. The
  // store may still be within its limits, so this is not an error.
  llvm::consumeError(std::move(error));
  return llvm::Error::success();
}

}  // namespace minuet
