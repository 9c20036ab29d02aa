// A file that is there whole or not at all.
#pragma once

#include <string>

#include "codegen/base/error.h"

namespace minuet {

/// Writes beside `path` and renames: who opens `path` finds the old bytes or the new ones. Its owner may
/// change it, all may read it, less the umask: what others may change is not trusted later. An error names
/// it.
llvm::Error write_whole_file(const std::string& path, llvm::StringRef bytes);

}  // namespace minuet
