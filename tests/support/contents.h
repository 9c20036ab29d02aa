// Whole files.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace minuet {

/// All bytes of the file; none where there is no such file. By the buffer: a byte at a time takes long where
/// nothing is optimized.
inline std::string contents(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

}  // namespace minuet
