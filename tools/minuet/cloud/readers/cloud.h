// Reads a cloud file with the reader that the extension of its name selects.
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Holds the values of the flags about the columns of a file.
struct ColumnOptions {
  /// Holds the number of float32 values per row of a .bin file, which is 4 if this is not set.
  std::optional<int> columns;
  /// Holds the index of the intensity in .bin and .npy files, which is at least 3.
  std::optional<int> intensity_column;
  /// Holds the name of the intensity in .ply and .pcd files.
  std::optional<std::string> intensity_field = std::nullopt;

  bool any() const { return columns || intensity_column || intensity_field; }
};

/// Reads a .bin (float32 rows), .ply, .pcd or .npy file. The case of the extension does not matter. Errors
/// and the cloud's warnings name the file.
llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options);

}  // namespace minuet::tool
