// Apart from the other fakes: whoever fuzzes needs those, and not the whole cache.
#include "tests/codegen/fakes.h"

namespace minuet {

std::unique_ptr<KernelCache> make_cache(const std::string& directory, std::shared_ptr<Compiler> compiler,
                                        Warnings* warnings, FileSystem& system) {
  CacheOptions options;
  options.directory = directory;
  options.use_disk = !directory.empty();
  if (warnings != nullptr) options.warn = warnings->sink();
  return llvm::cantFail(
      KernelCache::create(std::move(options), std::move(compiler), make_environment({}), system));
}

}  // namespace minuet
