// Describes the orders in which other engines store the weights of a convolution, and checks for which layers
// Minuet can use such weights.
//
// runtime/network/networks/WEIGHTS.md documents each engine, with sources.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/ops/convolution.h"

namespace minuet {

/// Names the order of the weights in a file. The values are those of the ABI. The ABI's value 0, which stands
/// for the order that the network's description names, is not among them.
enum class WeightsOrder : i32 {
  Minuet = 1,
  Minkowski = 2,
  TorchSparse = 3,
  /// The columns of spconv's indices are batch, z, y and x, as its voxel generators write them. The shape of
  /// a weight tells whether spconv 1.x or 2.x stored it.
  Spconv = 4,
  SpconvXyz = 5,  // The columns of spconv's indices are batch, x, y and z.
  // These are the orders of one major version of spconv. They read weights whose shape fits both versions.
  Spconv1 = 6,
  Spconv1Xyz = 7,
  Spconv2 = 8,
  Spconv2Xyz = 9,
  // These are the same, but kernels of one offset are stored as [out_channels, in_channels].
  Spconv2Linear = 10,
  Spconv2XyzLinear = 11,
};
constexpr WeightsOrder kLastWeightsOrder = WeightsOrder::Spconv2XyzLinear;

/// This key of a file's metadata has the file's order as its value. Files written by Minuet have it.
constexpr const char* kWeightsOrderMark = "minuet.weights_order";

/// Returns the order of this name. The names are "minuet", "minkowski", "torchsparse", "spconv",
/// "spconv-xyz", "spconv1", "spconv1-xyz", "spconv2", "spconv2-xyz", "spconv2-linear" and
/// "spconv2-xyz-linear".
llvm::Expected<WeightsOrder> parse_weights_order(llvm::StringRef name);
const char* weights_order_name(WeightsOrder order);

/// Returns an error with the reason if the engine that uses this order computes another function for the
/// layer than Minuet, so that Minuet cannot use the engine's weights.
llvm::Error check_carries_over(WeightsOrder order, const ConvolutionProblem& problem);

/// Describes the layout of a weight in a file by its shape and its strides. The strides count elements along
/// each axis of the kernel and along the input and output channels.
struct WeightLayout {
  // Holds the major version of spconv that stores weights in this layout. It is 0 for other layouts.
  i32 spconv_version = 0;
  std::vector<i64> shape;
  std::array<i64, kMaxDim> tap_strides{};
  i64 in_stride = 1, out_stride = 1;
  // Says that the strides are those of the elements in memory, which the shape does not describe. An array
  // must then be contiguous.
  bool is_by_memory = false;
};

/// Returns every layout that a file of this order may have for the layer's weight. The engine's own layout
/// comes first. `name` is the tensor's name in the file.
std::vector<WeightLayout> weight_layouts(WeightsOrder order, const ConvolutionProblem& problem,
                                         llvm::StringRef name);

/// Returns the layout of this shape, or null if there is none. Sets `is_ambiguous` to true if there are
/// several, which give the weight different elements.
const WeightLayout* find_layout(llvm::ArrayRef<WeightLayout> layouts, llvm::ArrayRef<i64> shape,
                                const ConvolutionProblem& problem, bool& is_ambiguous);

/// Returns the sentence for a weight of this shape of which find_layout() says that it is ambiguous. It says
/// what the shape may mean and what to do.
std::string ambiguity_text(WeightsOrder order, const std::string& shape);

/// Returns the shapes that a vector of this order, such as a bias, may have.
std::vector<std::vector<int64_t>> vector_shapes(WeightsOrder order, i64 channels);

/// Reorders `stored` to [volume, in_channels / groups, out_channels]. Offsets are numbered with the first
/// axis slowest.
std::vector<float> to_minuet_order(const WeightLayout& layout, const ConvolutionProblem& problem,
                                   const std::vector<float>& stored);

}  // namespace minuet
