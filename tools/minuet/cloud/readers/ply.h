// Stanford PLY: ascii, binary little and big endian; any scalar types, other elements skipped.
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Points from element "vertex": x, y, z in metres, and the intensity by assign_targets
/// (readers/cloud_builder.h).
///
/// Numbers of an ascii file are words: the ends of lines mean nothing to them. An error names the row, the
/// property and the word. A fault of an element behind the vertices is a warning, because such elements are
/// thrown away. It is an error all the same where the vertices of an ascii file do not stand one on a line,
/// for then the fault may be theirs.
llvm::Expected<Cloud> read_ply(llvm::StringRef bytes, const std::optional<std::string>& intensity_field);
llvm::Expected<Cloud> read_ply(llvm::StringRef bytes);

}  // namespace minuet::tool
