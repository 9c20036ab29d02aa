// Stores tuning entries on disk as <directory>/<subfolder>/<environment hash>/<bucket hash>.json. The
// subfolder is the constructor's `below`, an environment is a GPU with a toolkit (TuningEnvironment), and a
// bucket is a group of problems that share one measurement (TuningBucket).
//
// Each entry is one file and is published as a whole, so that concurrent processes lose nothing. If two
// processes have entries for one bucket, the entries are joined under a lock. Folders and files are trusted
// by the rules of the kernel cache (cache_directory.h). Nothing is pruned, because each result costs a
// measurement and thousands of them take a few megabytes. The class is thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cache/store.h"
#include "codegen/choose/tuning_entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// Holds the entries of one TuningEnvironment in the order of their file names, and the files that were
/// skipped with the reasons.
struct TuningFolder {
  std::vector<TuningEntry> entries;
  std::vector<std::string> skipped;
};

/// Passes a warning to `warn` for each file that was skipped.
void warn_of_skipped(const TuningFolder& folder, const std::function<void(const std::string&)>& warn);

/// Returns the name of the folder of results inside a kernel cache's directory. It is beside the folders of
/// kernels, whose names have the version of the kernel format, because tuning results have a version of their
/// own.
std::string tuning_folder_of_cache();

class TuningStore {
 public:
  /// `below` is a folder inside `directory`, such as "tune", or is empty. The owner and the mode of both
  /// folders are checked.
  TuningStore(std::string directory, std::string below, TrustPolicy policy, FileSystem& system)
      : root_{std::move(directory), policy, system, std::move(below)} {}

  /// Tests that results of this TuningEnvironment can be written, so that an error is known before anything
  /// is measured.
  llvm::Error check_writable(const std::string& environment_hash);

  /// Replaces the stored entry of the same environment and bucket (tuning_key.h). Returns FailedPrecondition
  /// if the stored entry has a newer schema, because this version would lose its data.
  llvm::Error publish(const TuningEntry& entry);

  using Join = llvm::function_ref<TuningEntry(const TuningEntry& mine, const TuningEntry& there)>;
  /// Publishes each entry joined with the stored one by `join`, or the entry alone if no stored entry of the
  /// same kernels can be read. All entries must have one environment. Concurrent processes lose nothing of
  /// each other, with three exceptions. If the file system has no locks, another process holds the lock for
  /// 10 seconds, or `cancelled` (which may be empty) returns true, the last process to write wins.
  llvm::Error publish_joined(llvm::ArrayRef<TuningEntry> entries, Join join,
                             const std::function<bool()>& cancelled = {});

  /// Returns the entries of a TuningEnvironment, or none if the environment has no folder. Skips files that
  /// are not entries of this schema and this environment.
  llvm::Expected<TuningFolder> load(const std::string& environment_hash);

  /// Returns the hash of each TuningEnvironment that has a folder, in ascending order.
  llvm::Expected<std::vector<std::string>> environments();

 private:
  llvm::Expected<TuningEntry> read_entry(int folder, const std::string& environment_hash,
                                         const std::string& name);
  FileLock lock_folder(OpenFolder open_folder, const std::function<bool()>& cancelled);
  /// Returns the names in a folder in ascending order, because file systems list folders in different orders.
  /// Returns none if the folder does not exist.
  llvm::Expected<std::vector<std::string>> names_in(const std::vector<std::string>& parts);

  StoreRoot root_;
};

}  // namespace minuet
