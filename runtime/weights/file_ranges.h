// Finds bytes of a file that belong to several of its parts, or to none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace minuet {

/// Says which bytes of a file a part has.
struct FileRange {
  std::uint64_t begin = 0, end = 0;
  std::string name;
};

/// Sorts the ranges by their begins, and empty ones before others that begin at the same byte.
void sort_ranges(std::vector<FileRange>& ranges);

}  // namespace minuet
