#include "tools/minuet/cloud/readers/cloud.h"

#include "tools/minuet/base/error.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/cloud/readers/bin.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/cloud/readers/pcd.h"
#include "tools/minuet/cloud/readers/ply.h"

namespace minuet::tool {

llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options) {
  const std::string kind = extension_of(path);
  const bool is_bin = kind == ".bin", is_npy = kind == ".npy";
  if (!is_bin && !is_npy && kind != ".ply" && kind != ".pcd") {
    return bad_input("the name of the cloud file '{0}' must end in .bin, .ply, .pcd or .npy", path);
  }
  if (options.columns && !is_bin)
    return bad_input("--columns is only for .bin files: omit it for '{0}', whose header gives the columns",
                     path);
  if (options.intensity_column && !is_bin && !is_npy) {
    return bad_input("--intensity-column is for .bin and .npy files; use --intensity-field for '{0}'", path);
  }
  if (options.intensity_field && (is_bin || is_npy)) {
    return bad_input("--intensity-field is for .ply and .pcd files; use --intensity-column for '{0}'", path);
  }
  MINUET_ASSIGN(const auto file, read_file(path));
  const llvm::StringRef bytes = file->getBuffer();
  llvm::Expected<Cloud> read = is_bin           ? read_bin(bytes, options)
                               : kind == ".ply" ? read_ply(bytes, options.intensity_field)
                               : kind == ".pcd" ? read_pcd(bytes, options.intensity_field)
                                                : read_npy(bytes, options.intensity_column);
  MINUET_ASSIGN(Cloud cloud, in_file(path, std::move(read)));
  const auto name_file = [&](std::string& warning) {
    if (!warning.empty()) warning = escaped(("'" + path + "': " + warning).str());
  };
  for (std::string& warning : cloud.warnings) name_file(warning);
  name_file(cloud.no_intensity);
  return cloud;
}

}  // namespace minuet::tool
