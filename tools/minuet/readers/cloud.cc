#include "tools/minuet/readers/cloud.h"

#include "llvm/Support/Path.h"
#include "tools/minuet/error.h"
#include "tools/minuet/readers/bin.h"
#include "tools/minuet/readers/npy.h"
#include "tools/minuet/readers/pcd.h"
#include "tools/minuet/readers/ply.h"
#include "tools/minuet/readers/scalar.h"

namespace minuet::tool {

llvm::Expected<Cloud> read_cloud(llvm::StringRef path, int columns) {
  const std::string kind = llvm::sys::path::extension(path).lower();
  if (kind != ".bin" && kind != ".ply" && kind != ".pcd" && kind != ".npy") {
    return bad_input("'{0}' does not end in .bin, .ply, .pcd or .npy", path);
  }
  MINUET_ASSIGN(const auto file, read_file(path));
  const llvm::StringRef bytes = file->getBuffer();
  llvm::Expected<Cloud> cloud = kind == ".bin"   ? read_bin(bytes, columns)
                                : kind == ".ply" ? read_ply(bytes)
                                : kind == ".pcd" ? read_pcd(bytes)
                                                 : read_npy(bytes);
  if (!cloud) return in_file(path, cloud.takeError());
  return cloud;
}

}  // namespace minuet::tool
