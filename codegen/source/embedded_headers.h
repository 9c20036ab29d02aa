// The texts of the headers that a compile may include: those of our kernels and those of one version of CUDA
// and CCCL. They are embedded in the helper program only. Thread-safe. A group is unpacked at its first use
// and kept.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/embed/header_blob.h"

namespace minuet {

/// Returns the embedded headers for a unit with this text: of our kernels exactly the included ones, of the
/// toolkit the whole group if one of its headers is included. A kernel without CUB therefore does not pay for
/// CUB. Returns InvalidArgument for an include that would leave the embedded set.
llvm::Expected<std::vector<Header>> headers_for(llvm::StringRef text);

/// Returns the text of an embedded header if its group is unpacked, else an empty string. Used for error
/// reports.
llvm::StringRef unpacked_header(llvm::StringRef name);

}  // namespace minuet
