// The kernel cache with its parts given, for tests: another file system, another environment.
#pragma once

#include <memory>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/file_system.h"
#include "codegen/cache/kernel_cache.h"

namespace minuet {

llvm::Expected<std::unique_ptr<KernelCache>> make_kernel_cache(CacheOptions options,
                                                               std::shared_ptr<Compiler> compiler,
                                                               const Environment& environment,
                                                               FileSystem& system);

}  // namespace minuet
