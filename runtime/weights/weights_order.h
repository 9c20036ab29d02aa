// The orders in which other engines store the weights of a convolution, and the layers that can be carried
// over.
//
// runtime/network/networks/WEIGHTS.md documents each engine, with sources.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// The ABI's values; its 0 means "as described".
enum class WeightsOrder : i32 {
  Minuet = 1,
  Minkowski = 2,
  TorchSparse = 3,
  Spconv = 4,     // index columns are batch, z, y, x, as spconv's voxel generators write them
  SpconvXyz = 5,  // index columns are batch, x, y, z
};

/// Key of a file's metadata that names its order. Files written by Minuet have it.
constexpr const char* kWeightsOrderMark = "minuet.weights_order";

/// The names are "minuet", "minkowski", "torchsparse", "spconv" and "spconv-xyz".
llvm::Expected<WeightsOrder> parse_weights_order(llvm::StringRef name);
const char* weights_order_name(WeightsOrder order);

/// Returns an error with the reason if the engine computes another function for such a layer, so that its
/// weights cannot be used here.
llvm::Error check_carries_over(WeightsOrder order, const ConvolutionProblem& problem);

/// The layout of a weight in a file: its shape, and the strides in elements along each axis of the kernel and
/// along the input and output channels.
struct WeightLayout {
  std::vector<i64> shape;
  std::array<i64, kMaxDim> tap_strides{};
  i64 in_stride = 1, out_stride = 1;
};

/// Returns every layout that a file of this order may have for the layer's weight, the engine's own first.
/// `name` is the tensor's name in the file.
std::vector<WeightLayout> weight_layouts(WeightsOrder order, const ConvolutionProblem& problem,
                                         llvm::StringRef name);

/// Reorders `stored` to [volume, in_channels, out_channels], offsets with x slowest.
std::vector<float> to_minuet_order(const WeightLayout& layout, const ConvolutionProblem& problem,
                                   const std::vector<float>& stored);

}  // namespace minuet
