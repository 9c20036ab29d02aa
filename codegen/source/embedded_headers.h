// The texts of the headers that a compile may see: our kernels' and those of one CUDA and CCCL, all embedded
// (R3), in the helper program alone. Thread-safe; a group is unpacked at its first use and kept.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/embed/header_blob.h"

namespace minuet {

/// The embedded headers that a unit with this text needs: of ours exactly those it includes, of
/// the toolkit a whole group where one of its headers is named, so that a kernel without CUB pays
/// nothing for CUB (R29). InvalidArgument for an include that would leave the embedded set.
llvm::Expected<std::vector<Header>> headers_for(llvm::StringRef text);

/// Text of an embedded header that was unpacked before, else empty: for error reports.
llvm::StringRef unpacked_header(llvm::StringRef name);

}  // namespace minuet
