#include "runtime/weights/file_ranges.h"

#include <tuple>

#include "llvm/ADT/STLExtras.h"

namespace minuet {

void sort_ranges(std::vector<FileRange>& ranges) {
  llvm::sort(ranges, [](const FileRange& a, const FileRange& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
}

}  // namespace minuet
