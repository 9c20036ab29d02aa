// Reads NumPy's .npy files of the versions 1.0 to 3.0, with any shape, in C or Fortran order and in both byte
// orders.
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

/// Holds the parsed header, and a view of the data in the file's bytes.
struct NpyArray {
  Scalar type = Scalar::F32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  llvm::StringRef data;

  /// Returns the address of element (row, column) of a two-dimensional array.
  const char* at(int64_t row, int64_t column) const;
};

/// Parses the header, and checks that the data are complete. `wanted` selects the advice in the error for a
/// file of another kind.
llvm::Expected<NpyArray> parse_npy(llvm::StringRef bytes, WantedFile wanted = WantedFile::Array);

/// Reads points from a float array [N, 3 or more], whose columns mean the same as in read_bin(). From an
/// integer array [N, 3], or [N, 4] with the batch index first, it reads voxels instead.
llvm::Expected<Cloud> read_npy(llvm::StringRef bytes, std::optional<int> intensity_column);
llvm::Expected<Cloud> read_npy(llvm::StringRef bytes);

/// Reads voxels from an integer array [N, ndim], or [N, 1 + ndim] with the batch index first.
llvm::Expected<Cloud> read_npy_coordinates(llvm::StringRef bytes, int ndim);

/// Reads a float or integer array [N, C] into row-major values, and sets `rows` to N and `columns` to C.
llvm::Expected<std::vector<float>> read_npy_matrix(llvm::StringRef bytes, int64_t& rows, int64_t& columns);

}  // namespace minuet::tool
