// Writes safetensors files for the library to read.
#pragma once

#include <map>
#include <string>

#include "runtime/weights/safetensors_writer.h"

namespace minuet {

/// F32, tensors in the order of their names. Throws std::runtime_error where the file cannot be written.
void write_safetensors(const std::string& path, const std::map<std::string, FileTensor>& tensors);

/// A path in the system's folder for temporary files that no other process uses; the file or folder is
/// removed with the object.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& name);
  ~TemporaryPath();
  TemporaryPath(const TemporaryPath&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace minuet
