// Stanford PLY: ascii, binary little and big endian; any scalar types, other elements skipped.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// Points from element "vertex": x, y, z in metres, and intensity where there is a property of such a name
/// (target_of).
llvm::Expected<Cloud> read_ply(llvm::StringRef bytes);

}  // namespace minuet::tool
