// Provides the texts of the headers that a compile may include: the headers of our kernels, and those of one
// version of CUDA and CCCL. Only the helper program contains them. A group of headers is unpacked at its
// first use and kept. All functions are thread-safe.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/embed/header_blob.h"

namespace minuet {

/// Returns the embedded headers for a translation unit with this text. Of our own headers these are exactly
/// the included ones. If the unit includes one of the toolkit's headers, the whole group of that header (CUDA
/// or CCCL) is returned. CUB is therefore unpacked only for kernels that include it. Returns InvalidArgument
/// for an include that is an absolute path or contains "..".
llvm::Expected<std::vector<Header>> headers_for(llvm::StringRef text);

/// Returns the text of an embedded header if its group is unpacked, and an empty string otherwise. Error
/// reports use it.
llvm::StringRef unpacked_header(llvm::StringRef name);

}  // namespace minuet
