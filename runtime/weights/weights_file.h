// Presents a weights file to one network. It finds tensors by the network's names, and returns weights in
// Minuet's order.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/weights/tensor_file.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Says how a file is read. The prefix is removed from the file's names before `names` maps them.
struct WeightsOptions {
  WeightsOrder order = WeightsOrder::Minuet;
  /// Says whether the user set `order`. If so, it must match the file's mark (kWeightsOrderMark). Otherwise a
  /// mark takes precedence over `order`.
  bool order_given = false;
  std::string prefix;  // Precedes the network's names in the file.
  std::string key;     // Names the dict of tensors in a PyTorch checkpoint (state_dict.h).
  /// Maps the file's names to the network's. An entry from "a." to "b." renames all names that begin with
  /// "a.".
  std::map<std::string, std::string> names;
  /// Says whether `names` is the map that is shipped with the network. Such a map may have entries that apply
  /// to no tensor, because it covers the names of several authors, and the user did not give it.
  bool names_are_shipped = false;
  bool allow_unused = false;
  bool allow_non_finite = false;  // Says whether parameters may be infinite or NaN.
};

/// Parses JSON text of the form {"the file's name": "the network's name", ...}.
llvm::Expected<std::map<std::string, std::string>> parse_names(llvm::StringRef json);

class WeightsFile {
 public:
  static llvm::Expected<WeightsFile> open(llvm::StringRef path, WeightsOptions options);

  const std::string& path() const { return file_.path(); }
  const WeightsOptions& options() const { return options_; }
  /// Returns a map from the network's names to the file's. It does not include tensors without
  /// WeightsOptions::prefix.
  const std::map<std::string, std::string>& names() const { return names_; }
  /// Returns the file's names of the tensors without WeightsOptions::prefix.
  const std::vector<std::string>& outside() const { return outside_; }

  /// Returns the network's name of a tensor that the file calls `stored` after WeightsOptions::prefix.
  std::string renamed(const std::string& stored) const;
  /// Returns the name that a tensor must have in the file to be the network's `name` according to
  /// WeightsOptions::names, or `name` itself if no entry gives that name.
  std::string expected_name(const std::string& name) const;

  /// Returns the file's name of the tensor that the network calls `name`, or null. In a file of
  /// MinkowskiEngine or TorchSparse that lacks "x.weight", this name finds the tensor "x.kernel".
  const std::string* find(const std::string& name) const;
  /// Returns the shape of the tensor that the file calls `stored`.
  llvm::Expected<std::vector<int64_t>> shape(const std::string& stored) const { return file_.shape(stored); }

  /// The next two functions return the shapes that a layer's weight may have, and those that a vector such as
  /// a bias may have.
  std::vector<std::vector<int64_t>> weight_shapes(const std::string& name,
                                                  const ConvolutionProblem& problem) const;
  std::vector<std::vector<int64_t>> vector_shapes(i64 channels) const;

  /// Returns the major version of spconv that stores a weight in the shape that the file's has, or 0 if the
  /// shape does not tell or the order is not one of spconv.
  i32 spconv_version(const std::string& name, const ConvolutionProblem& problem) const;
  /// Says which major version of spconv stored the file, so that weights whose shape fits both versions can
  /// be read. check_weights() finds it out from the shapes of the other weights.
  void set_spconv_version(i32 version) { known_spconv_version_ = version; }

  /// Returns the values of a weight in the order [volume, in_channels, out_channels]. It does not round them
  /// to the problem's dtype.
  llvm::Expected<std::vector<float>> read_weight(const std::string& name,
                                                 const ConvolutionProblem& problem) const;
  llvm::Expected<std::vector<float>> read_vector(const std::string& name, i64 channels) const;

 private:
  void drop_module_prefix();
  llvm::Error check_weights_order_mark();
  llvm::Error name_tensors();
  llvm::Expected<const std::string*> need(const std::string& name) const;

  TensorFile file_;
  WeightsOptions options_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> outside_;
  // Holds the major version of spconv that stored the file, or 0 if it is not known.
  i32 known_spconv_version_ = 0;
};

}  // namespace minuet
