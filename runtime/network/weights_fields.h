// Finds the fields of a description that would make a network use the tensors of a weights file.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/program/program.h"
#include "runtime/weights/list_text.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// Compares the bias, norm and affine fields of each layer with the tensors that the file has beside the
/// layer's weight.
class WeightsFields {
 public:
  WeightsFields(const WeightsFile& file, const Program& program);

  /// Returns the part of an error message that says which fields to set, and which batch norms no field can
  /// describe. It is empty if there is nothing to say.
  std::string text() const;
  /// Returns one line for each field and layer that should be changed, and for each batch norm without
  /// running statistics.
  std::vector<std::string> lines() const;

 private:
  void compare_bias(const ProgramLayer& layer);
  void compare_norm(const ProgramLayer& layer);
  void add(const char* field, const ProgramLayer& layer);
  std::vector<std::string> places_of(const std::vector<LayerOrigin>& origins) const;
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  bool has_others(const ProgramLayer& layer) const;

  const WeightsFile& file_;
  // Holds the number of convolutions of each layer of the description.
  std::map<std::string, int> parts_;
  // Holds the prefixes of the parameters of all layers, up to the last dot.
  std::set<std::string> known_;
  // Lists, for each field that should be changed, the convolutions that need it. The key contains the field
  // and its new value, for example "bias": true.
  std::map<std::string, std::vector<LayerOrigin>> wanted_;
  // Lists the batch norms that have no running statistics in the file.
  std::vector<std::string> without_statistics_;
};

}  // namespace minuet
