// Compares the rows of an ascii PLY file with its header to find a wrong number of points in the header.
#pragma once

#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "tools/minuet/cloud/readers/ply_header.h"

namespace minuet::tool {

/// Describes the text around the end of the points, which the header's number of points determines. The
/// StringRef members point into the file's bytes.
struct PointRows {
  bool are_lines = true;     ///< Tells whether each point has a line of its own.
  llvm::StringRef last_row;  ///< Holds the line of the last point, or nothing if there are no points.
  llvm::StringRef behind;    ///< Holds the text after the points.
};

/// Returns why the header's number of points may be wrong, or an empty string if the rows give no reason. The
/// caller appends this text to its error about a fault after the points. `behind` holds the elements after
/// the points. `more_follows` is true if the fault is that the text is longer than the header promises. This
/// function is pure.
std::string doubt_about_points(const PointRows& rows, llvm::ArrayRef<PlyElement> behind, bool more_follows);

}  // namespace minuet::tool
