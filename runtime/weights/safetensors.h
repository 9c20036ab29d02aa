// Reads safetensors files: an 8-byte header length, a JSON header, then the bytes of the tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace minuet {

/// The end of an error message about a parameter that is infinite or NaN.
inline constexpr const char* kAllowNonFiniteHint =
    "; the option allow_non_finite_parameters takes parameters as they are";

/// The tensors of one file. open() reads the file; read() converts one tensor.
class SafetensorsFile {
 public:
  static llvm::Expected<SafetensorsFile> open(llvm::StringRef path);

  std::vector<std::string> names() const;
  /// Returns the texts of "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  llvm::Expected<std::vector<int64_t>> shape(llvm::StringRef name) const;
  /// Returns the values of an F32, F64, F16 or BF16 tensor as fp32. Returns InvalidArgument if its shape is
  /// not `shape` and, unless `allow_non_finite`, if a value is NaN, infinite, or beyond the range of fp32,
  /// where it becomes infinite.
  llvm::Expected<std::vector<float>> read(llvm::StringRef name, const std::vector<int64_t>& shape,
                                          bool allow_non_finite = false) const;
  const std::string& path() const { return path_; }

 private:
  struct Tensor {
    std::string type;
    std::vector<int64_t> shape;
    const char* data = nullptr;
    uint64_t bytes = 0;
  };
  llvm::Error parse();
  /// Checks that every byte belongs to exactly one tensor, as the format requires.
  llvm::Error check_ranges(llvm::StringRef data) const;
  llvm::Error read_metadata(const llvm::json::Value& value);
  llvm::Expected<const Tensor*> find(llvm::StringRef name) const;

  std::string path_;
  std::unique_ptr<llvm::MemoryBuffer> buffer_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Returns InvalidArgument: the weights file has no such tensor.
llvm::Error no_tensor_error(const std::string& path, llvm::StringRef name);
/// Formats a shape, for example "[27, 4, 8]".
std::string shape_text(const std::vector<int64_t>& shape);
/// Returns the product of the sizes. It must not overflow, as is known of a tensor that was read.
int64_t element_count(const std::vector<int64_t>& shape);
/// Formats a number, for example "1e+300" or "nan".
std::string number_text(double value);
/// Formats the position of element `index` of a tensor, for example "[26, 3, 7]".
std::string place_text(const std::vector<int64_t>& shape, std::size_t index);

}  // namespace minuet
