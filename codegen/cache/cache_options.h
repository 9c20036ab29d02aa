// What a kernel cache is told: by its caller, else by the environment, which is read once.
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
  std::string directory;  // empty: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet, HOME/.cache/minuet (R10)
  bool use_disk = true;
  std::optional<bool> shared;              // nothing: MINUET_CACHE_SHARED (R10)
  std::uint64_t most_bytes = 0;            // of the directory (R9); 0: MINUET_CACHE_MAX_BYTES, else 1 GiB
  std::vector<BundlePlace> bundles;        // looked up first (R21)
  std::optional<std::string> bundle_path;  // then these, with colons between; nothing: MINUET_BUNDLE_PATH
  std::optional<BundlePolicy> policy;      // nothing: SameMajor
  bool ptx = false;                        // PTX of bundles too, where there is no code (R23)
  std::string library_folder;              // minuet-*.bundle in it come last; empty: none
  std::optional<bool> no_jit;              // nothing: MINUET_NO_JIT (R22)
  std::optional<std::string> record;       // file that misses are appended to; nothing: MINUET_RECORD (R22)
  std::chrono::milliseconds lock_bound{60000};   // for another process's compile of the same kernel (R14)
  std::shared_ptr<Trace> trace;                  // where spans go; null: nowhere (R32)
  std::function<void(const std::string&)> warn;  // called at most once per kind of trouble
};

/// `options` with what the caller left open taken from the environment, but for the directory.
/// InvalidArgument for a variable that has no meaning, such as MINUET_NO_JIT=maybe.
llvm::Expected<CacheOptions> with_environment(CacheOptions options, const Environment& environment);

}  // namespace minuet
