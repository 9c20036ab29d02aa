// Finds the file of the library or program that contains this code. Thread-safe.
#pragma once

#include <string>

namespace minuet {

/// Returns the file's absolute path, also if the process has changed its working directory. Does not resolve
/// symbolic links.
std::string own_image();

/// Returns the folder that contains own_image().
std::string own_folder();

/// Returns the absolute path without symbolic links, or an empty string if the file does not exist.
std::string real_path(const char* path);

}  // namespace minuet
