// Files of /proc and /sys, whose sizes are not known before they are read.
#pragma once

#include <string>

namespace minuet {

/// The whole text of a file; empty where it cannot be read.
std::string read_system_file(const std::string& path);

}  // namespace minuet
