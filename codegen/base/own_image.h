// Finds the file of the library or program that contains this code. All functions are thread-safe.
#pragma once

#include <string>

namespace minuet {

/// Returns the absolute path of the library or program that contains this code, even if the process has
/// changed its working directory. Symbolic links in the path of a library are not resolved.
std::string own_image();

/// Returns the folder that contains own_image().
std::string own_folder();

/// Returns the absolute path of a file without symbolic links, or an empty string if the file does not exist.
std::string real_path(const char* path);

}  // namespace minuet
