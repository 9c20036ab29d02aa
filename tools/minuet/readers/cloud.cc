#include "tools/minuet/readers/cloud.h"

#include "tools/minuet/error.h"
#include "tools/minuet/output_file.h"
#include "tools/minuet/readers/bin.h"
#include "tools/minuet/readers/npy.h"
#include "tools/minuet/readers/pcd.h"
#include "tools/minuet/readers/ply.h"

namespace minuet::tool {

llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options) {
  const std::string kind = extension_of(path);
  const bool is_bin = kind == ".bin", is_npy = kind == ".npy";
  if (!is_bin && !is_npy && kind != ".ply" && kind != ".pcd") {
    return bad_input("'{0}' does not end in .bin, .ply, .pcd or .npy", path);
  }
  if (options.columns && !is_bin)
    return bad_input("--columns is for .bin files, and '{0}' says its own", path);
  if (options.intensity_column && !is_bin && !is_npy) {
    return bad_input("--intensity-column is for .bin and .npy files, and '{0}' names its own", path);
  }
  MINUET_ASSIGN(const auto file, read_file(path));
  const llvm::StringRef bytes = file->getBuffer();
  llvm::Expected<Cloud> cloud = is_bin           ? read_bin(bytes, options)
                                : kind == ".ply" ? read_ply(bytes)
                                : kind == ".pcd" ? read_pcd(bytes)
                                                 : read_npy(bytes, options.intensity_column);
  if (!cloud) return in_file(path, cloud.takeError());
  return cloud;
}

}  // namespace minuet::tool
