// Writes files atomically.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// Writes a temporary file beside `path`, syncs it and renames it to `path`, so that a reader of `path` finds
/// either the old bytes or the new ones. The mode is 0644 less the umask, because the library does not trust
/// files that other users can change. Errors name `path`.
llvm::Error write_whole_file(const std::string& path, llvm::StringRef bytes);

}  // namespace minuet
