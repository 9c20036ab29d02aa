// NumPy's .npy files, versions 1.0 to 3.0: any shape, C or Fortran order, both byte orders.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen/base/file_kind.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {

/// A parsed header, and the bytes behind it (they point into the file's).
struct NpyArray {
  Scalar type = Scalar::F32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  llvm::StringRef data;

  /// Where element (row, column) of a two-dimensional array starts.
  const char* at(int64_t row, int64_t column) const;
};

/// Checks the header wholly, and that the data are all there. `wanted` chooses the advice about a file that
/// is something else.
llvm::Expected<NpyArray> parse_npy(llvm::StringRef bytes, WantedFile wanted = WantedFile::Array);

/// Float [N, 3 or more]: points (x, y, z and intensity as in read_bin). Integer [N, 3], or batch first [N,
/// 4]: voxels.
llvm::Expected<Cloud> read_npy(llvm::StringRef bytes, std::optional<int> intensity_column);
llvm::Expected<Cloud> read_npy(llvm::StringRef bytes);

/// Integer [N, ndim], or batch first [N, 1 + ndim].
llvm::Expected<Cloud> read_npy_coordinates(llvm::StringRef bytes, int ndim);

/// Float or integer [N, C], row-major.
llvm::Expected<std::vector<float>> read_npy_matrix(llvm::StringRef bytes, int64_t& rows, int64_t& columns);

}  // namespace minuet::tool
