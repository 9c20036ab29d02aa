// Describes the inputs and outputs of a network, and finds them by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "minuet/minuet.h"

namespace minuet::tool {

/// Returns the name, shape and type of each input of the network, in the plan's order.
llvm::Expected<std::vector<minuet_tensor_info>> query_inputs(minuet_plan* network);
/// Returns the name, shape and type of each output of the network, in the plan's order.
llvm::Expected<std::vector<minuet_tensor_info>> query_outputs(minuet_plan* network);
/// Returns the dtype whose values in memory the elements are. Integers have 4 bytes, as fp32.
minuet_dtype dtype_of(minuet_element element);
/// Returns true if the output is a dense tensor. Otherwise it has rows of features.
inline bool is_dense(const minuet_tensor_info& output) { return output.rank > 2; }

/// Returns true if the rows of the tensor are the points that a network takes. Their level has no axes.
inline bool is_of_points(const minuet_tensor_info& tensor) {
  return tensor.rank == 2 && tensor.level == 0 && tensor.ndim == 0;
}
/// Counts the inputs that a network that takes points has after those of its description: the batch indices
/// and the number of the points. A run may leave both out.
constexpr size_t kPointInputs = 2;
/// Returns true if a network of these inputs takes points.
inline bool takes_points(const std::vector<minuet_tensor_info>& inputs) {
  return inputs.size() > kPointInputs && inputs.back().element == MINUET_ELEMENT_I32;
}
/// Returns the level on which the voxels of the cloud are. In a network that takes points, the points are on
/// level 0, and the first op makes the voxels.
constexpr int32_t voxel_level(bool takes_points) { return takes_points ? 1 : 0; }
/// Returns the number of voxels that a level has in the cloud that the execution has run last.
llvm::Expected<int64_t> count_voxels(minuet_execution* execution, int32_t level);

/// Returns the names, separated by commas.
std::string tensor_names(const std::vector<minuet_tensor_info>& tensors);
/// Returns the index of the output with this name. If there is none, the error names all outputs. `flag` is
/// the flag that has the name.
llvm::Expected<size_t> find_output(const std::vector<minuet_tensor_info>& outputs, llvm::StringRef flag,
                                   llvm::StringRef name);

/// Returns the matrix as an array of rank 2.
minuet_array array_of(const minuet_tensor& matrix);

}  // namespace minuet::tool
