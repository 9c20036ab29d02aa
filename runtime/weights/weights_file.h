// A weights file as one network sees it: its tensors by the network's names, its weights in Minuet's order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/weights/safetensors.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// How a file is read. The order of what is done to a name: prefix, map.
struct WeightsOptions {
  WeightsOrder order = WeightsOrder::Minuet;
  bool order_given = false;                  // by the user; else a file's own mark goes before `order`
  std::string prefix;                        // what the network's names have in front of them in the file
  std::map<std::string, std::string> names;  // the file's name -> the network's; "a." -> "b." for all below
  bool allow_unused = false;
  bool allow_non_finite = false;  // parameters may be infinite or NaN
};

/// {"the file's name": "the network's name", ...}
llvm::Expected<std::map<std::string, std::string>> parse_names(llvm::StringRef json);

class WeightsFile {
 public:
  static llvm::Expected<WeightsFile> open(llvm::StringRef path, WeightsOptions options);

  const std::string& path() const { return file_.path(); }
  const WeightsOptions& options() const { return options_; }
  /// The network's name -> the file's. Tensors without the prefix are not among them.
  const std::map<std::string, std::string>& names() const { return names_; }
  /// Those, by the file's names.
  const std::vector<std::string>& outside() const { return outside_; }

  /// The file's name of a tensor, or null. What engines call "kernel" is found as "weight".
  const std::string* find(const std::string& name) const;
  /// By the file's name.
  llvm::Expected<std::vector<int64_t>> shape(const std::string& stored) const { return file_.shape(stored); }

  /// Shapes that a layer's weight, and a vector such as a bias, may have.
  std::vector<std::vector<int64_t>> weight_shapes(const std::string& name,
                                                  const ConvolutionProblem& problem) const;
  std::vector<std::vector<int64_t>> vector_shapes(i64 channels) const;

  /// [volume, in_channels, out_channels], as exact as the file has it.
  llvm::Expected<std::vector<float>> read_weight(const std::string& name,
                                                 const ConvolutionProblem& problem) const;
  llvm::Expected<std::vector<float>> read_vector(const std::string& name, i64 channels) const;

 private:
  llvm::Error heed_mark();
  llvm::Error name_tensors();
  llvm::Expected<const std::string*> need(const std::string& name) const;

  SafetensorsFile file_;
  WeightsOptions options_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> outside_;
};

}  // namespace minuet
