// Compares rows of an ascii PLY file with its header, to find a wrong number of points in the header.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "tools/minuet/cloud/readers/ply_header.h"

namespace minuet::tool {

/// Holds the text of the points as the header counts them. All views refer to the file's bytes.
struct PointRows {
  bool are_lines = true;     ///< Whether every row is one line.
  llvm::StringRef last_row;  ///< The line of the last row; empty where there is none.
  llvm::StringRef behind;    ///< The text behind the rows.
};

/// Says why the header may count the points wrongly, as the end of a sentence about a fault behind the
/// points. Returns nothing where the rows give no reason. `behind` are the elements behind the points, and
/// `more_follows` says that the fault is a text longer than the header promises. Pure.
std::string doubt_about_points(const PointRows& rows, llvm::ArrayRef<PlyElement> behind, bool more_follows);

}  // namespace minuet::tool
