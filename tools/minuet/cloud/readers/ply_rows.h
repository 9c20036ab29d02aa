// Compares the rows of an ascii PLY file with its header to find a wrong number of points in the header.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "tools/minuet/cloud/readers/ply_header.h"

namespace minuet::tool {

/// The text around the end of the points, as the header counts them. All views refer to the file's bytes.
struct PointRows {
  bool are_lines = true;     ///< true if every row is one line
  llvm::StringRef last_row;  ///< line of the last row; empty if there is none
  llvm::StringRef behind;    ///< text after the rows
};

/// Returns the reason why the header may count the points wrongly, as the end of a sentence about a fault
/// after the points, or an empty string if the rows give no reason. `behind` are the elements after the
/// points. `more_follows` is true if the fault is a text longer than the header promises. Pure.
std::string doubt_about_points(const PointRows& rows, llvm::ArrayRef<PlyElement> behind, bool more_follows);

}  // namespace minuet::tool
