#include "tools/minuet/writers/ply.h"

#include <string>

#include "tools/minuet/error.h"
#include "tools/minuet/writers/npy.h"

namespace minuet::tool {

llvm::Error write_ply(llvm::StringRef path, const PlyTable& table) {
  std::string bytes =
      llvm::formatv(
          "ply\nformat binary_little_endian 1.0\ncomment written by minuet\nelement vertex {0}\n"
          "property float x\nproperty float y\nproperty float z\n",
          table.positions.size())
          .str();
  if (table.labelled) bytes += "property int label\n";
  for (int c = 0; !table.labelled && c < table.channels; ++c) {
    bytes += "property float feature_" + std::to_string(c) + "\n";
  }
  bytes += "end_header\n";
  const size_t channels = static_cast<size_t>(table.channels);
  for (size_t row = 0; row < table.positions.size(); ++row) {
    bytes.append(reinterpret_cast<const char*>(table.positions[row].data()), 12);
    if (table.labelled) {
      bytes.append(reinterpret_cast<const char*>(&table.labels[row]), 4);
    } else {
      bytes.append(reinterpret_cast<const char*>(table.features.data() + row * channels), 4 * channels);
    }
  }
  return write_file(path, bytes);
}

}  // namespace minuet::tool
