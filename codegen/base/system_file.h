// Reads files of /proc and /sys, whose sizes are not known in advance.
#pragma once

#include <string>

namespace minuet {

/// Returns the whole text of a file, or an empty string if it cannot be read.
std::string read_system_file(const std::string& path);

}  // namespace minuet
