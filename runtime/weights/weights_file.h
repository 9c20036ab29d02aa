// A weights file as seen by one network: tensors by the network's names, weights in Minuet's order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/weights/safetensors.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// How a file is read. The prefix is removed from names before they are mapped.
struct WeightsOptions {
  WeightsOrder order = WeightsOrder::Minuet;
  // True if the user set `order`, which must then match the file's mark; otherwise a mark takes precedence.
  bool order_given = false;
  std::string prefix;  // in front of the network's names in the file
  // The file's names -> the network's. An entry "a." -> "b." renames all names below.
  std::map<std::string, std::string> names;
  bool allow_unused = false;
  bool allow_non_finite = false;  // true if parameters may be infinite or NaN
};

/// Parses {"the file's name": "the network's name", ...}.
llvm::Expected<std::map<std::string, std::string>> parse_names(llvm::StringRef json);

class WeightsFile {
 public:
  static llvm::Expected<WeightsFile> open(llvm::StringRef path, WeightsOptions options);

  const std::string& path() const { return file_.path(); }
  const WeightsOptions& options() const { return options_; }
  /// Maps the network's names to the file's. Tensors without the prefix are not included.
  const std::map<std::string, std::string>& names() const { return names_; }
  /// Returns the file's names of the tensors without the prefix.
  const std::vector<std::string>& outside() const { return outside_; }

  /// Returns the file's name of a tensor, or null. The "kernel" of other engines is found as "weight".
  const std::string* find(const std::string& name) const;
  /// `stored` is the file's name.
  llvm::Expected<std::vector<int64_t>> shape(const std::string& stored) const { return file_.shape(stored); }

  /// Return the shapes that a layer's weight, and a vector such as a bias, may have.
  std::vector<std::vector<int64_t>> weight_shapes(const std::string& name,
                                                  const ConvolutionProblem& problem) const;
  std::vector<std::vector<int64_t>> vector_shapes(i64 channels) const;

  /// Returns [volume, in_channels, out_channels] values, not rounded further than the file stores them.
  llvm::Expected<std::vector<float>> read_weight(const std::string& name,
                                                 const ConvolutionProblem& problem) const;
  llvm::Expected<std::vector<float>> read_vector(const std::string& name, i64 channels) const;

 private:
  llvm::Error check_weights_order_mark();
  llvm::Error name_tensors();
  llvm::Expected<const std::string*> need(const std::string& name) const;

  SafetensorsFile file_;
  WeightsOptions options_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> outside_;
};

}  // namespace minuet
