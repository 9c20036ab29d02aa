// Reads a cloud file with the reader that the end of its name selects.
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// The values of the flags about the columns of a file.
struct ColumnOptions {
  std::optional<int> columns;           ///< numbers per row of a .bin file; 4 if not set
  std::optional<int> intensity_column;  ///< index of the intensity in .bin and .npy files, at least 3
  std::optional<std::string> intensity_field =
      std::nullopt;  ///< name of the intensity in .ply and .pcd files

  bool any() const { return columns || intensity_column || intensity_field; }
};

/// Reads a .bin (float32 rows), .ply, .pcd or .npy file. The case of the extension does not matter. Errors
/// and the cloud's warnings name the file.
llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options);

}  // namespace minuet::tool
