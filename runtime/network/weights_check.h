// Whether a weights file and a network fit, all mistakes in one answer.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// A tensor that a layer takes from a weights file.
struct ParameterName {
  std::string name;
  bool is_weight = false;      // of the convolution; the others are vectors of out_channels
  std::vector<int64_t> shape;  // in Minuet's order
};
/// The convolution's weight and bias, then the batch norm's weight, bias, running_mean and running_var, as
/// far as the layer has them.
std::vector<ParameterName> parameter_names(const ProgramLayer& layer);

/// InvalidArgument where layers do not carry over, tensors are missing or of another shape, or, unless the
/// options allow it, where no layer uses a tensor: the first few of each kind in the message, all in the
/// detail.
llvm::Error check_weights(const WeightsFile& file, const Program& program);

}  // namespace minuet
