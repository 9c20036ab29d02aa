// Opens a cloud file and picks the reader by the name's end.
#pragma once

#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// What the user says about the columns of a file.
struct ColumnOptions {
  std::optional<int> columns;           ///< numbers in a row of a .bin file; 4 where it is not said
  std::optional<int> intensity_column;  ///< the place of the intensity in .bin and .npy files, from 3 on
  std::optional<std::string> intensity_field =
      std::nullopt;  ///< the name of the intensity in .ply and .pcd files

  bool any() const { return columns || intensity_column || intensity_field; }
};

/// .bin (float32 rows), .ply, .pcd, .npy, in any case. Errors and the cloud's warnings name the file.
llvm::Expected<Cloud> read_cloud(llvm::StringRef path, const ColumnOptions& options);

}  // namespace minuet::tool
