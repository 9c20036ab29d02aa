// Holds the tensors of one weights file, whatever its format, and converts them to float32.
#pragma once

#include <memory>

#include "llvm/Support/MemoryBuffer.h"
#include "runtime/weights/stored_tensor.h"

namespace minuet {

/// Ends each error message about a parameter that is infinite or NaN.
inline constexpr const char* kAllowNonFiniteHint =
    "; the option allow_non_finite_parameters takes parameters as they are";

/// Holds the tensors of one file. open() reads the file, and read() converts one tensor.
class TensorFile {
 public:
  /// Reads a safetensors file or a PyTorch checkpoint. Its bytes tell which of them it is. `key` names the
  /// dict of a checkpoint (state_dict.h) and must be empty for a safetensors file.
  static llvm::Expected<TensorFile> open(llvm::StringRef path, llvm::StringRef key = {});

  std::vector<std::string> names() const;
  /// Returns the texts in the entry "__metadata__" of a safetensors file, by their keys.
  const std::map<std::string, std::string>& metadata() const { return stored_.metadata; }
  bool is_checkpoint() const { return stored_.is_checkpoint; }
  llvm::Expected<std::vector<int64_t>> shape(llvm::StringRef name) const;
  /// Returns the values of an F32, F64, F16 or BF16 tensor as fp32, in row-major order. Returns
  /// InvalidArgument if its shape is not `shape`. Unless `allow_non_finite` is set, also returns
  /// InvalidArgument if a value is NaN, infinite, or so large that it becomes infinite in fp32.
  llvm::Expected<std::vector<float>> read(llvm::StringRef name, const std::vector<int64_t>& shape,
                                          bool allow_non_finite = false) const;
  const std::string& path() const { return path_; }

 private:
  llvm::Error parse(llvm::StringRef key);
  llvm::Expected<const StoredTensor*> find(llvm::StringRef name) const;

  std::string path_;
  std::unique_ptr<llvm::MemoryBuffer> buffer_;
  StoredTensors stored_;
};

/// Returns InvalidArgument with the message that the weights file has no tensor of this name.
llvm::Error no_tensor_error(const std::string& path, llvm::StringRef name);
}  // namespace minuet
