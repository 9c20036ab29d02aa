// Formats names and lists of names for the messages about weights files.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"

namespace minuet {

inline std::string quoted(const std::string& name) { return "\"" + name + "\""; }

constexpr std::size_t kMostListed = 8;
/// Lists at most kMostListed items and counts the others, for example "a, b and 3 more".
std::string list_text(const std::vector<std::string>& items, const char* between = ", ");

/// Returns a name in a file as messages show it: at most 100 bytes of it, in UTF-8 and on one line.
std::string shown_name(llvm::StringRef name);

}  // namespace minuet
