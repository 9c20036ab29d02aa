// Formats names and lists of names for the messages about weights files.
#pragma once

#include <string>
#include <vector>

namespace minuet {

inline std::string quoted(const std::string& name) { return "\"" + name + "\""; }

constexpr std::size_t kMostListed = 8;
/// Lists at most kMostListed items and counts the others, for example "a, b and 3 more".
std::string list_text(const std::vector<std::string>& items, const char* between = ", ");

}  // namespace minuet
