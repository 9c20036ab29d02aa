#include "tools/minuet/readers/bin.h"

#include "tools/minuet/error.h"
#include "tools/minuet/readers/scalar.h"

namespace minuet::tool {

llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, int columns) {
  const size_t row = 4 * static_cast<size_t>(columns);
  if (bytes.size() % row != 0) {
    return bad_input(
        "{0} bytes are not whole rows of {1} float32 ({2} bytes each): the file is truncated or has another "
        "number of columns (--columns)",
        bytes.size(), columns, row);
  }
  Cloud cloud;
  cloud.points.resize(bytes.size() / row);
  const int used = columns < 4 ? columns : 4;
  for (size_t i = 0; i < cloud.points.size(); ++i) {
    cloud.points[i] = {};
    for (int c = 0; c < used; ++c) {
      const char* value = bytes.data() + i * row + 4 * static_cast<size_t>(c);
      cloud.points[i][static_cast<size_t>(c)] = static_cast<float>(decode_scalar(Scalar::F32, value, false));
    }
  }
  return cloud;
}

}  // namespace minuet::tool
