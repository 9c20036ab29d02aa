#include "runtime/network/weights_fields.h"

#include <algorithm>

namespace minuet {
namespace {

std::string parent_of(llvm::StringRef name) { return name.rsplit('.').first.str(); }

/// Returns "a.conv" for the weight "a.conv.weight".
std::string prefix_of(const ProgramLayer& layer) { return parent_of(layer.weight); }

}  // namespace

WeightsFields::WeightsFields(const WeightsFile& file, const Program& program) : file_(file) {
  for (const ProgramLayer& layer : program.layers) {
    ++parts_[layer.origin.layer];
    known_.insert(prefix_of(layer));
    known_.insert(layer.origin.batch_norm);
  }
  for (const ProgramLayer& layer : program.layers) {
    // If the weight is missing, the file has another name for the layer, so its tensors say nothing about the
    // layer's fields.
    if (!has(layer.weight)) continue;
    compare_bias(layer);
    if (!layer.origin.batch_norm.empty()) compare_norm(layer);
  }
}

/// Returns true if the file has unknown tensors whose names begin with the layer's name. These may be the
/// missing tensors of the layer under other names.
bool WeightsFields::has_others(const ProgramLayer& layer) const {
  const std::string below = parent_of(prefix_of(layer)) + ".";
  return std::any_of(file_.names().begin(), file_.names().end(), [&](const auto& entry) {
    return llvm::StringRef(entry.first).take_front(below.size()) == below &&
           !known_.count(parent_of(entry.first));
  });
}

void WeightsFields::compare_bias(const ProgramLayer& layer) {
  const bool is_there = has(prefix_of(layer) + ".bias");
  if (layer.bias.empty() == !is_there) return;
  add(is_there ? "\"bias\": true" : "\"bias\": false", layer);
}

void WeightsFields::compare_norm(const ProgramLayer& layer) {
  const std::string& norm = layer.origin.batch_norm;
  const bool has_affine = has(norm + ".weight") && has(norm + ".bias");
  const bool has_no_affine = !has(norm + ".weight") && !has(norm + ".bias");
  const bool has_statistics = has(norm + ".running_mean") && has(norm + ".running_var");
  const bool has_no_statistics = !has(norm + ".running_mean") && !has(norm + ".running_var");
  // A batch norm of another name belongs to a chain that the convolution computes too (cover_chains.h).
  const bool is_described = layer.batch_norm == norm;
  if (has_affine && has_no_statistics) {
    without_statistics_.push_back(quoted(norm));
  } else if (has_no_affine && has_no_statistics) {
    if (is_described && !has_others(layer)) add("\"norm\": \"none\"", layer);
  } else if (has_statistics && (has_affine || has_no_affine)) {
    if (!is_described) add("\"norm\": \"batch_norm\"", layer);
    const bool is_affine = is_described ? layer.is_affine : true;
    if (is_affine != has_affine) add(has_affine ? "\"affine\": true" : "\"affine\": false", layer);
  }
}

void WeightsFields::add(const char* field, const ProgramLayer& layer) {
  wanted_[field].push_back(layer.origin);
}

/// Returns the places in the description at which a field must be set. This is a layer if all of its
/// convolutions need the field, otherwise each convolution that needs it.
std::vector<std::string> WeightsFields::places_of(const std::vector<LayerOrigin>& origins) const {
  std::map<std::string, int> counts;
  for (const LayerOrigin& origin : origins) ++counts[origin.layer];
  std::vector<std::string> places;
  for (const LayerOrigin& origin : origins) {
    const bool is_whole = counts[origin.layer] == parts_.at(origin.layer);
    std::string place = (is_whole ? "" : origin.part + " of ") + "layer " + quoted(origin.layer);
    if (places.empty() || places.back() != place) places.push_back(std::move(place));
  }
  return places;
}

std::string WeightsFields::text() const {
  std::string text;
  for (const auto& [field, origins] : wanted_) {
    text += (text.empty() ? "set " : " and ") + field + " in " + list_text(places_of(origins));
  }
  if (!text.empty()) text += " to use the file's tensors";
  if (without_statistics_.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "there are no running_mean and running_var of " +
         list_text(without_statistics_) +
         ": a batch norm without running statistics normalizes by those of its input features and cannot be "
         "folded into a convolution, so a description cannot express it: use weights whose batch norms have "
         "running statistics";
}

std::vector<std::string> WeightsFields::lines() const {
  std::vector<std::string> lines;
  for (const auto& [field, origins] : wanted_) {
    for (const std::string& place : places_of(origins)) lines.push_back("set: " + field + " in " + place);
  }
  for (const std::string& norm : without_statistics_) lines.push_back("without running statistics: " + norm);
  return lines;
}

}  // namespace minuet
