// Reads safetensors files: an 8-byte header length, a JSON header, then the tensors' bytes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace minuet {

/// The end of an error about a parameter that is infinite or NaN.
inline constexpr const char* kAllowNonFiniteHint =
    "; the option allow_non_finite_parameters takes parameters as they are";

/// Every tensor of one file; the file is read once, its tensors on demand.
class SafetensorsFile {
 public:
  static llvm::Expected<SafetensorsFile> open(llvm::StringRef path);

  std::vector<std::string> names() const;
  /// The texts of "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  llvm::Expected<std::vector<int64_t>> shape(llvm::StringRef name) const;
  /// Values as fp32, from F32, F64, F16 or BF16. InvalidArgument where the shape is another, and, unless
  /// `allow_non_finite`, where a value is NaN, infinite, or past fp32, which becomes infinite.
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
  /// The format has no bytes that belong to no tensor, or to two.
  llvm::Error check_ranges(llvm::StringRef data) const;
  llvm::Error read_metadata(const llvm::json::Value& value);
  llvm::Expected<const Tensor*> find(llvm::StringRef name) const;

  std::string path_;
  std::unique_ptr<llvm::MemoryBuffer> buffer_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// "[27, 4, 8]"
std::string shape_text(const std::vector<int64_t>& shape);
/// Of a shape whose data were read, so that it fits.
int64_t element_count(const std::vector<int64_t>& shape);
/// "1e+300", "nan"
std::string number_text(double value);
/// Where element `index` of such a tensor is: "[26, 3, 7]".
std::string place_text(const std::vector<int64_t>& shape, std::size_t index);

}  // namespace minuet
