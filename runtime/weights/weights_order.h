// How other engines store the weights of a convolution, and which of their layers mean the same here.
//
// What each engine does, with sources, is in runtime/network/networks/WEIGHTS.md.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// The ABI's numbers; its 0 stands for "as described".
enum class WeightsOrder : i32 {
  Minuet = 1,
  Minkowski = 2,
  TorchSparse = 3,
  Spconv = 4,     // columns of its indices: batch, z, y, x, as its voxel generators make them
  SpconvXyz = 5,  // batch, x, y, z
};

/// In the metadata of a file, whose order it has; the files that Minuet writes say so.
constexpr const char* kWeightsOrderMark = "minuet.weights_order";

/// "minuet", "minkowski", "torchsparse", "spconv", "spconv-xyz"
llvm::Expected<WeightsOrder> parse_weights_order(llvm::StringRef name);
const char* weights_order_name(WeightsOrder order);

/// Why a layer of this kind is another function in the engine, so that its weights are of no use here.
llvm::Error check_carries_over(WeightsOrder order, const ConvolutionProblem& problem);

/// A tensor of a file: its shape, and the distances, in elements, of neighbours along each axis of the
/// kernel, the input and the output channels.
struct WeightLayout {
  std::vector<i64> shape;
  std::array<i64, kMaxDim> tap_strides{};
  i64 in_stride = 1, out_stride = 1;
};

/// Every way in which a file of that order may hold the layer's weight, the engine's own first. `name` is
/// the tensor's name in the file.
std::vector<WeightLayout> weight_layouts(WeightsOrder order, const ConvolutionProblem& problem,
                                         llvm::StringRef name);

/// `stored` as [volume, in_channels, out_channels], offsets x slowest.
std::vector<float> in_minuets_order(const WeightLayout& layout, const ConvolutionProblem& problem,
                                    const std::vector<float>& stored);

}  // namespace minuet
