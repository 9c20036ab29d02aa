// What `minuet cache` looks at: the entries of a cache folder or of a bundle.
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
  std::string what;  ///< a key, or a path
  std::string reason;
};

/// One kernel as it lies there, unread.
struct StoredKernel {
  std::string key;  ///< build key in a folder, request key in a bundle: 64 hex digits
  int64_t stored_bytes = 0;
  double age_hours = 0;  ///< since it was published or last used; 0 in a bundle
};

/// A cache folder, or a bundle.
class CacheSource {
 public:
  explicit CacheSource(Store store) : store_(std::move(store)) {}
  explicit CacheSource(std::unique_ptr<Bundle> bundle) : bundle_(std::move(bundle)) {}

  std::string where() const { return bundle_ ? bundle_->path() : store_->directory(); }
  llvm::Expected<std::vector<StoredKernel>> list();
  /// The checked entry, or what is wrong with it. Removes nothing.
  llvm::Expected<Entry> read(const std::string& key);
  /// What is wrong beyond the entries that are listed.
  llvm::Expected<std::vector<Damage>> other_damage();

 private:
  std::optional<Store> store_;
  std::unique_ptr<Bundle> bundle_;
};

/// By the flags: --bundle, else the cache folder that the library would use.
llvm::Expected<CacheSource> open_cache_source(const Arguments& arguments);

/// The cache folder itself.
llvm::Expected<Store> open_cache_store(const Arguments& arguments, bool read_only);

}  // namespace minuet::tool
