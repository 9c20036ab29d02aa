// Changes descriptions of networks for their quantization. For a calibration, a description gets the results
// of convolutions as outputs. The quantized description says which convolutions compute in 8 bits, and has
// the ranges that the calibration has found.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/network/network_program.h"

namespace minuet {

/// Returns a description of the same network whose outputs are followed by the results of all convolutions.
/// The name of such an output is that of the convolution in `program`, which was built of `network`. Returns
/// InvalidArgument if a result of another layer has this name.
llvm::Expected<NetworkDescription> observe_network(const NetworkDescription& network, const Program& program);

/// Says what a quantization gives a convolution.
struct LayerPrecision {
  std::string layer;    // Holds the name of the convolution in the program.
  float range = 0;      // Holds the largest magnitude of its result, or 0 if it is unknown.
  bool is_int8 = true;  // Says whether it computes in 8 bits.
  /// Says why it cannot compute in 8 bits although `is_int8` asked for that, as the end of a sentence.
  std::string reason;
};

/// Returns the convolutions of a quantized program that cannot compute in 8 bits because of their parameters.
using FindWeightFaults = llvm::function_ref<llvm::Expected<std::vector<PrecisionFault>>(const Program&)>;

/// Returns a description of the same network in which the convolutions have these precisions and ranges.
/// Convolutions that the list does not have compute in floating numbers. LayerPrecision::is_int8 becomes
/// false for convolutions that cannot compute in 8 bits, for example because they read an input of the
/// network or because of `find_weight_faults`, and LayerPrecision::reason then says why. Returns
/// InvalidArgument for a name that no convolution has, or that the list has twice.
///
/// `network` is as wide as its program: its channels are those of the plan, and `head_channels` returns the
/// channels of its heads.
llvm::Expected<NetworkDescription> quantize_network(const NetworkDescription& network,
                                                    const HeadChannels& head_channels,
                                                    llvm::MutableArrayRef<LayerPrecision> precisions,
                                                    FindWeightFaults find_weight_faults);

}  // namespace minuet
