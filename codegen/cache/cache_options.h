// Defines the options of a kernel cache. Options that the caller does not set are taken from environment
// variables, which are read once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/base/error.h"
#include "codegen/bundle/bundle_set.h"

namespace minuet {

class Trace;

struct CacheOptions {
  /// Names the folder of the cache. If it is empty, the folder is MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet or
  /// HOME/.cache/minuet.
  std::string directory;
  bool use_disk = true;
  /// Says whether cache files of other users are trusted. If it is unset, MINUET_CACHE_SHARED decides.
  std::optional<bool> shared;
  /// Limits the size of the folder. If it is 0, the limit is MINUET_CACHE_MAX_BYTES, or 1 GiB without that
  /// variable.
  std::uint64_t most_bytes = 0;
  /// Names the bundles that are searched first.
  std::vector<BundlePlace> bundles;
  /// Lists bundles that are searched next, separated by colons. If it is unset, MINUET_BUNDLE_PATH is used.
  std::optional<std::string> bundle_path;
  /// Decides which kernels of bundles are used. If it is unset, SameMajor is used.
  std::optional<BundlePolicy> policy;
  /// Allows the use of PTX for a kernel that no bundle has as a cubin.
  bool ptx = false;
  /// Names a folder whose minuet-*.bundle files are searched last. If it is empty, no such folder is
  /// searched.
  std::string library_folder;
  /// Forbids compiling if it is true. If it is unset, MINUET_NO_JIT decides.
  std::optional<bool> no_jit;
  /// Names a file to which requests for kernels that no bundle has are appended. If it is unset,
  /// MINUET_RECORD is used.
  std::optional<std::string> record;
  /// Limits the wait for another process that compiles the same kernel.
  std::chrono::milliseconds lock_bound{60000};
  /// Receives the durations of the cache's steps (trace.h), and may be null.
  std::shared_ptr<Trace> trace;
  /// Receives warnings, at most one of each kind (CacheState::is_first_of_kind()).
  std::function<void(const std::string&)> warn;
};

/// Returns `options`, in which unset options have the values of their environment variables or their
/// defaults. Only the directory remains unset. Returns InvalidArgument if a variable has an invalid value,
/// such as MINUET_NO_JIT=maybe.
llvm::Expected<CacheOptions> with_environment(CacheOptions options, const Environment& environment);

}  // namespace minuet
