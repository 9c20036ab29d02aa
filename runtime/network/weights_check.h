// Checks whether a weights file fits a network, and reports all mistakes in one error.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// A tensor that a layer reads from a weights file.
struct ParameterName {
  std::string name;
  bool is_weight = false;      // of a convolution; all others are vectors of out_channels
  std::vector<int64_t> shape;  // in Minuet's order
};
/// Returns the layer's parameters: weight and bias of the convolution, then weight, bias, running_mean and
/// running_var of the batch norm. Those that the layer does not have are omitted.
std::vector<ParameterName> parameter_names(const ProgramLayer& layer);

/// Returns InvalidArgument if layers cannot be carried over, if tensors are missing or have another shape, or
/// if no layer uses a tensor and the options do not allow it. The message lists the first few of each kind,
/// the detail lists all.
llvm::Error check_weights(const WeightsFile& file, const Program& program);

}  // namespace minuet
