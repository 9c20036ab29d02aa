// Where the library or program that this code is in lies. Thread-safe.
#pragma once

#include <string>

namespace minuet {

/// Its path, absolute, whatever folder the process is in and was in. Symbolic links stay.
std::string own_image();

/// The folder it is in.
std::string own_folder();

/// Without symbolic links, absolute; empty where there is no such file.
std::string real_path(const char* path);

}  // namespace minuet
