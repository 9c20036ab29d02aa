// Errors for files that are not what their names say.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

/// The error for bytes that do not begin as `wanted` does. It says what the file is where the bytes are known
/// (codegen/base/file_kind.h), and else "it is not <wanted> (<why>)".
llvm::Error wrong_file(llvm::StringRef bytes, const char* wanted, const char* why);

/// For files that may begin with any bytes: an error only where the bytes cannot be chance.
llvm::Error refuse_certain_other_file(llvm::StringRef bytes, const char* wanted);

}  // namespace minuet::tool
