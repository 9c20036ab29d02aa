// The options of a kernel cache. Options that the caller leaves open come from the environment, which is read
// once.
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
  std::string directory;  ///< empty: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet or HOME/.cache/minuet
  bool use_disk = true;
  std::optional<bool> shared;              ///< trust other users' entries; unset: MINUET_CACHE_SHARED
  std::uint64_t most_bytes = 0;            ///< limit of the directory; 0: MINUET_CACHE_MAX_BYTES, else 1 GiB
  std::vector<BundlePlace> bundles;        ///< searched first
  std::optional<std::string> bundle_path;  ///< searched next; separated by colons; unset: MINUET_BUNDLE_PATH
  std::optional<BundlePolicy> policy;      ///< unset: SameMajor
  bool ptx = false;                        ///< true: use PTX of bundles if they have no compiled code
  std::string library_folder;              ///< its minuet-*.bundle files are searched last; empty: none
  std::optional<bool> no_jit;              ///< true: never compile; unset: MINUET_NO_JIT
  std::optional<std::string> record;       ///< file to which misses are appended; unset: MINUET_RECORD
  std::chrono::milliseconds lock_bound{60000};   ///< longest wait for another process's compile
  std::shared_ptr<Trace> trace;                  ///< receives spans; may be null
  std::function<void(const std::string&)> warn;  ///< called at most once per kind of warning
};

/// Returns `options` with unset options, except the directory, taken from the environment. Returns
/// InvalidArgument if a variable has an invalid value, such as MINUET_NO_JIT=maybe.
llvm::Expected<CacheOptions> with_environment(CacheOptions options, const Environment& environment);

}  // namespace minuet
