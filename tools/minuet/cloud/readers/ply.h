// Reads Stanford PLY files, which are ascii, binary little-endian or binary big-endian, with any scalar
// types.
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Reads points from the element "vertex". A point has x, y and z in metres and the intensity that
/// assign_targets() selects (readers/cloud_builder.h). Skips other elements.
///
/// In an ascii file, line ends and blanks separate numbers in the same way. An error names the row, the
/// property and the word. A fault in an element after the vertices is only a warning, because such elements
/// are not used, unless the rows of an ascii file suggest that the number of vertices is wrong
/// (readers/ply_rows.h).
llvm::Expected<Cloud> read_ply(llvm::StringRef bytes, const std::optional<std::string>& intensity_field);
llvm::Expected<Cloud> read_ply(llvm::StringRef bytes);

}  // namespace minuet::tool
