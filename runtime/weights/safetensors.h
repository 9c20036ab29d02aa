// Reads safetensors files. Such a file has an 8-byte header length, a JSON header, and then the bytes of the
// tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace minuet {

/// Ends each error message about a parameter that is infinite or NaN.
inline constexpr const char* kAllowNonFiniteHint =
    "; the option allow_non_finite_parameters takes parameters as they are";

/// Holds the tensors of one file. open() reads the file, and read() converts one tensor.
class SafetensorsFile {
 public:
  static llvm::Expected<SafetensorsFile> open(llvm::StringRef path);

  std::vector<std::string> names() const;
  /// Returns the texts in the header's entry "__metadata__", by their keys.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  llvm::Expected<std::vector<int64_t>> shape(llvm::StringRef name) const;
  /// Returns the values of an F32, F64, F16 or BF16 tensor as fp32. Returns InvalidArgument if its shape is
  /// not `shape`. Unless `allow_non_finite` is set, also returns InvalidArgument if a value is NaN, infinite,
  /// or so large that it becomes infinite in fp32.
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

/// Returns InvalidArgument with the message that the weights file has no tensor of this name.
llvm::Error no_tensor_error(const std::string& path, llvm::StringRef name);
/// Formats a shape, for example "[27, 4, 8]".
std::string shape_text(const std::vector<int64_t>& shape);
/// Returns the product of the sizes, which must not overflow. SafetensorsFile::open() checks this for the
/// tensors of a file.
int64_t element_count(const std::vector<int64_t>& shape);
/// Formats a number, for example "1e+300" or "nan".
std::string number_text(double value);
/// Formats the position of element `index` of a tensor, for example "[26, 3, 7]".
std::string place_text(const std::vector<int64_t>& shape, std::size_t index);

}  // namespace minuet
