#include "tools/minuet/commands/cache_source.h"

#include <chrono>

#include "llvm/Support/FileSystem.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

llvm::Expected<std::string> cache_directory(const Arguments& arguments) {
  MINUET_ASSIGN(const std::string folder, absolute_cache_folder(arguments.cache));
  // The default folder may be missing, and then counts as empty. A folder that the user named must exist.
  bool is_folder = folder.empty();
  if (!is_folder) {
    const std::error_code error = llvm::sys::fs::is_directory(folder, is_folder);
    if (error && error != std::errc::no_such_file_or_directory)
      return bad_input("the cache folder '{0}' cannot be read: {1}", folder, system_text(error));
  }
  if (!is_folder)
    return bad_input("there is no cache folder '{0}': name an existing folder with --cache", folder);
  return as_user_error(choose_cache_directory(folder, process_environment()));
}

}  // namespace

llvm::Expected<std::vector<StoredKernel>> CacheSource::list() {
  std::vector<StoredKernel> kernels;
  for (std::size_t i = 0; bundle_ && i < bundle_->size(); ++i) {
    const BundleItem item = bundle_->item(i);
    kernels.push_back({item.request_key, static_cast<int64_t>(item.stored_bytes), 0});
  }
  if (bundle_) return kernels;
  MINUET_ASSIGN(const std::vector<StoredEntry> entries, as_user_error(store_->list()));
  const auto now = std::chrono::system_clock::now();
  for (const StoredEntry& entry : entries) {
    const std::chrono::duration<double, std::ratio<3600>> age = now - entry.modified;
    kernels.push_back({entry.build_key, static_cast<int64_t>(entry.bytes), age.count()});
  }
  return kernels;
}

llvm::Expected<Entry> CacheSource::read(const std::string& key) {
  if (!bundle_) return store_->read(key);
  const auto index = bundle_->find(key);
  if (!index) return make_error(StatusCode::NotFound, "the bundle has no kernel with the key '{0}'", key);
  return bundle_->read(*index);
}

llvm::Expected<std::vector<Damage>> CacheSource::other_damage() {
  std::vector<Damage> damage;
  if (!bundle_) {
    MINUET_ASSIGN(const std::vector<ForeignFile> strays, as_user_error(store_->strays()));
    for (const ForeignFile& stray : strays) damage.push_back({stray.path, stray.reason});
    return damage;
  }
  llvm::Expected<BundleCheck> check = bundle_->verify();
  if (!check) return std::vector<Damage>{{where(), take_status(check.takeError()).message()}};
  for (const BundleDamage& one : check->damaged) {
    if (!bundle_->find(one.what)) damage.push_back({where(), one.what + ": " + one.reason});
  }
  return damage;
}

llvm::Expected<Store> open_cache_store(const Arguments& arguments, bool read_only) {
  MINUET_ASSIGN(const std::string directory, cache_directory(arguments));
  StoreOptions options;
  options.read_only = read_only;
  Store store(
      directory, process_policy(process_environment()), real_file_system(),
      [](const std::string& text) { std::fprintf(stderr, "minuet: %s\n", text.c_str()); }, options);
  MINUET_TRY(as_user_error(store.check()));
  return store;
}

llvm::Expected<CacheSource> open_cache_source(const Arguments& arguments) {
  if (arguments.bundle.empty()) {
    MINUET_ASSIGN(Store store, open_cache_store(arguments, /*read_only=*/true));
    return CacheSource(std::move(store));
  }
  MINUET_ASSIGN(std::unique_ptr<Bundle> bundle, as_user_error(Bundle::open(arguments.bundle)));
  return CacheSource(std::move(bundle));
}

}  // namespace minuet::tool
