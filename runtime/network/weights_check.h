// Checks whether a weights file fits a network, and reports all mistakes in one error.
#pragma once

#include "runtime/network/network_program.h"
#include "runtime/weights/weights_file.h"

namespace minuet {

/// Says what a parameter is for its convolution, or for an Affine step of a chain. All but the weight are
/// vectors of out_channels elements. Scale and shift are those of a single convolution, for which a network
/// has batch norms, or of an Affine step without a batch norm.
enum class ParameterRole : i32 { Weight, Bias, NormWeight, NormBias, NormMean, NormVariance, Scale, Shift };

/// Describes a tensor that a layer reads from a weights file.
struct ParameterName {
  std::string name;
  ParameterRole role = ParameterRole::Weight;
  // Holds the shape that the tensor has in Minuet's own order of weights (WeightsOrder::Minuet).
  std::vector<int64_t> shape;
  // Holds the number of the Affine step (ProgramLayer::affines) that has the parameter.
  i32 affine = 0;
};
/// Returns the layer's parameters. These are the weight and bias of the convolution, then the weight, bias,
/// running_mean and running_var of the batch norm. A chain has the scale and shift, or those of the batch
/// norm, of each Affine step. Parameters that the layer does not have are omitted.
std::vector<ParameterName> parameter_names(const ProgramLayer& layer);

/// Returns InvalidArgument if the software that stored the weights computes another function for a layer, if
/// tensors are missing or have another shape, or if no layer uses a tensor and the options do not allow it.
/// The message lists the first few mistakes of each kind, and the detail lists all of them. Tells the file
/// which version of spconv stored it.
llvm::Error check_weights(WeightsFile& file, const Program& program);

}  // namespace minuet
