// Caches with bundles, for tests of where a kernel comes from.
#pragma once

#include <gtest/gtest.h>

#include "codegen/bundle/bundle_writer.h"
#include "codegen/cache/cache_options.h"
#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"
#include "tests/codegen/cache/store_fakes.h"

namespace minuet {

using Variables = std::map<std::string, std::string>;

inline std::unique_ptr<KernelCache> open_cache(CacheOptions options, std::shared_ptr<Compiler> compiler,
                                               const Variables& variables = {}) {
  return llvm::cantFail(KernelCache::create(std::move(options), std::move(compiler),
                                            make_environment(variables), real_file_system()));
}

inline CacheOptions in_folder(const std::string& directory) {
  CacheOptions options;
  options.directory = directory;
  return options;
}

inline CacheOptions without_disk() {
  CacheOptions options;
  options.use_disk = false;
  return options;
}

/// Compiles `names` for `arch` into `path`, a bundle.
inline void make_bundle_of(const std::string& path, const std::vector<std::string>& names,
                           const char* arch = "sm_90a", const char* compiler_id = "nvrtc 13.0 a b") {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->id_ = compiler_id;
  auto cache = open_cache(in_folder(folder.path()), compiler);
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const KernelSource source = make_source(name);
    const auto binary = llvm::cantFail(cache->get_or_compile({source, arch}));
    const std::string key = key_of(source, arch);
    entries.push_back({key, build_key(key, compiler_id), source.name_expression, *binary});
  }
  llvm::cantFail(write_bundle(path, arch, entries));
}

inline bool is_on_disk(KernelCache& cache, const std::string& name) {
  BinaryOrigin origin = BinaryOrigin::Memory;
  llvm::cantFail(cache.get_exactly({make_source(name), "sm_90a"}, {}, origin));
  return origin == BinaryOrigin::Disk;
}

inline BinaryOrigin origin_of(KernelCache& cache, const std::string& name, const char* arch = "sm_90a") {
  llvm::cantFail(cache.get_or_compile({make_source(name), arch}));
  return cache.events().back().origin;
}

inline StatusError failure_of(KernelCache& cache, const KernelSource& source,
                              const CancelToken* cancel = nullptr) {
  llvm::Expected<std::shared_ptr<const Binary>> binary = cache.get_or_compile({source, "sm_90a"}, {cancel});
  return binary ? StatusError(StatusCode::Ok, "") : take_status(binary.takeError());
}

}  // namespace minuet
