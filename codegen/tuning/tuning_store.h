// Tuning entries on disk (R33): <directory>/<below>/<environment hash>/<bucket hash>.json.
//
// One file an entry, published whole, so that processes that tune at once lose nothing; what two of them have
// of one bucket is joined under a lock. The folders and files are trusted by the rules of the kernel cache
// (cache_directory.h). Nothing is pruned here: results cost a measurement each, and thousands of them are a
// few megabytes. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/cache/store.h"
#include "codegen/choose/tuning_entry.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// The entries of one environment in the order of their file names, and what was passed over and why.
struct TuningFolder {
  std::vector<TuningEntry> entries;
  std::vector<std::string> skipped;
};

/// Where results lie in a kernel cache's directory: beside the versions of the kernels' format, for they have
/// a schema of their own.
std::string tuning_folder_of_cache();

class TuningStore {
 public:
  /// `below`: a folder inside `directory` ("tune", or empty), checked like it.
  TuningStore(std::string directory, std::string below, TrustPolicy policy, FileSystem& system)
      : root_{std::move(directory), policy, system, std::move(below)} {}

  /// Whether results of that environment can be kept, tried out: an error is known before anything is
  /// measured.
  llvm::Error check_writable(const std::string& environment_hash);

  /// Takes the place of the entry of that environment and bucket; FailedPrecondition where that is of a newer
  /// schema, which this version would lose.
  llvm::Error publish(const TuningEntry& entry);

  using Join = llvm::function_ref<TuningEntry(const TuningEntry& mine, const TuningEntry& there)>;
  /// The same of each of these, of one environment: of what `join` makes of it and of the entry that is
  /// there, or of it alone where none is that can be read. Two processes that do so at once lose nothing of
  /// each other; where there are no locks, another holds one for long, or `cancelled` (which may be empty)
  /// says to wait no more, the last one's stays.
  llvm::Error publish_joined(llvm::ArrayRef<TuningEntry> entries, Join join,
                             const std::function<bool()>& cancelled = {});

  /// Empty where there is no such environment. A file that is no entry of this schema, or another's, is
  /// skipped.
  llvm::Expected<TuningFolder> load(const std::string& environment_hash);

  /// Hashes of the environments that have a folder, ascending.
  llvm::Expected<std::vector<std::string>> environments();

 private:
  llvm::Expected<TuningEntry> read_entry(int folder, const std::string& environment_hash,
                                         const std::string& name);
  FileLock lock_folder(OpenFolder open_folder, const std::function<bool()>& cancelled);
  /// Ascending: the order of a folder differs between file systems. Empty where there is no such folder.
  llvm::Expected<std::vector<std::string>> names_in(const std::vector<std::string>& parts);

  StoreRoot root_;
};

}  // namespace minuet
