// Reads the entries of a cache folder or of a bundle for `minuet cache`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/bundle/bundle.h"
#include "codegen/cache/store.h"
#include "codegen/compile/entry.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/flags/arguments.h"

namespace minuet::tool {

struct Damage {
  std::string what;  ///< Names what is damaged, by a key or a path.
  std::string reason;
};

/// Describes a listed kernel whose entry has not been read yet.
struct StoredKernel {
  /// Holds a SHA-256 in 64 hex digits. In a bundle it is the hash of what is compiled (request_key()), and in
  /// a cache folder the hash of that together with the compiler (build_key()).
  std::string key;
  int64_t stored_bytes = 0;
  /// Counts the hours since the kernel was stored or last used. The value is 0 for a bundle.
  double age_hours = 0;
};

/// Reads either a cache folder or a bundle, which is a file of kernels compiled ahead of time.
class CacheSource {
 public:
  explicit CacheSource(Store store) : store_(std::move(store)) {}
  explicit CacheSource(std::unique_ptr<Bundle> bundle) : bundle_(std::move(bundle)) {}

  std::string where() const { return bundle_ ? bundle_->name() : store_->directory(); }
  llvm::Expected<std::vector<StoredKernel>> list();
  /// Returns the entry after checking it, or an error that says what is wrong with it. Does not
  /// remove damaged entries.
  llvm::Expected<Entry> read(const std::string& key);
  /// Returns what is damaged in the cache folder or bundle besides the entries that list() returns.
  llvm::Expected<std::vector<Damage>> other_damage();

 private:
  std::optional<Store> store_;
  std::unique_ptr<Bundle> bundle_;
};

/// Opens the bundle that --bundle names, or without that flag the cache folder that the library would use.
llvm::Expected<CacheSource> open_cache_source(const Arguments& arguments);

/// Opens the cache folder that the library would use. A folder named on the command line must exist.
llvm::Expected<Store> open_cache_store(const Arguments& arguments, bool read_only);

}  // namespace minuet::tool
