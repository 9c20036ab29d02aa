// Checks whether a weights file fits a network, and reports all mistakes in one error.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// Says what a parameter is for its convolution. All but the weight are vectors of out_channels elements.
/// Scale and shift are those of a single convolution; a network has batch norms in their place.
enum class ParameterRole : i32 { Weight, Bias, NormWeight, NormBias, NormMean, NormVariance, Scale, Shift };

/// Describes a tensor that a layer reads from a weights file.
struct ParameterName {
  std::string name;
  ParameterRole role = ParameterRole::Weight;
  // Holds the shape that the tensor has in Minuet's own order of weights (WeightsOrder::Minuet).
  std::vector<int64_t> shape;
};
/// Returns the layer's parameters. These are the weight and bias of the convolution, then the weight, bias,
/// running_mean and running_var of the batch norm. Parameters that the layer does not have are omitted.
std::vector<ParameterName> parameter_names(const ProgramLayer& layer);

/// Returns InvalidArgument if the software that stored the weights computes another function for a layer, if
/// tensors are missing or have another shape, or if no layer uses a tensor and the options do not allow it.
/// The message lists the first few mistakes of each kind, and the detail lists all of them. Tells the file
/// which version of spconv stored it.
llvm::Error check_weights(WeightsFile& file, const Program& program);

}  // namespace minuet
