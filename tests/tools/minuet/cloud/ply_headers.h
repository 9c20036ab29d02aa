// Makes headers of PLY files for tests.
#pragma once

#include <string>

namespace minuet::tool {

/// Makes the header of one vertex element with these property lines.
inline std::string vertex_header(int count, const std::string& properties,
                                 const std::string& format = "ascii") {
  return "ply\nformat " + format + " 1.0\nelement vertex " + std::to_string(count) + "\n" + properties +
         "end_header\n";
}

inline const std::string kXyz = "property float x\nproperty float y\nproperty float z\n";
inline const std::string kXyzi = kXyz + "property float intensity\n";
}  // namespace minuet::tool
