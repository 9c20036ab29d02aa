// A network as a straight program: coordinate sets, kernel maps, tensors and convolutions by number.
//
// Everything that does not depend on a cloud is decided here: which sets and maps are shared, where
// each tensor lives (a concatenation is two tensors side by side in one storage, written in place),
// and which storages may share memory because their lives do not overlap.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/network_description.h"

namespace minuet {

/// A coordinate set. Level 0 is the input's; the others are derived from their parent by a stride.
struct LevelSpec {
  AxisArray tensor_stride{1, 1, 1, 1};
  i32 parent = -1;
};

/// A kernel map between two levels; the same level twice is a submanifold map.
struct MapSpec {
  i32 fine = 0, coarse = 0;
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  bool operator==(const MapSpec&) const = default;
  /// One offset onto the set itself: every row is its own neighbour, so nothing is searched.
  bool is_identity() const;
};

/// A matrix [rows of its level, channels] inside a storage.
struct TensorSpec {
  i32 level = 0;
  i32 channels = 0;
  i32 storage = 0;
  i32 column = 0;
};

/// Memory of [rows of the level, ld]. Storages in the same slot are never alive together.
struct StorageSpec {
  i32 level = 0;
  i32 ld = 0;
  i32 slot = 0;
};

struct SlotSpec {
  i32 level = 0;
  i32 ld = 0;  // of its widest storage
};

struct ProgramLayer {
  std::string name;        // parameter prefix of the convolution
  std::string weight;      // names of its parameters
  std::string batch_norm;  // prefix, or empty
  double batch_norm_epsilon = 0;
  std::string bias;  // or empty
  i32 map = 0;
  i32 input = 0, output = 0;  // tensors
  i32 residual = -1;
  ConvolutionProblem problem;
};

struct NetworkProgram {
  std::string name;
  i32 ndim = 3;
  DType dtype = DType::F16;
  std::vector<LevelSpec> levels;
  std::vector<MapSpec> maps;
  std::vector<TensorSpec> tensors;
  std::vector<StorageSpec> storages;
  std::vector<SlotSpec> slots;
  std::vector<ProgramLayer> layers;
  bool is_head_missing = false;        // of the description
  i32 input = 0, output = 0;           // tensors
  i64 period[kMaxDim] = {1, 1, 1, 1};  // least common multiple of all levels' strides
};

/// Outputs of a head whose description does not say: what the weights have for it, or 0, and it is left out.
using HeadChannels = std::function<llvm::Expected<i32>(const std::string& head, i32 in_channels)>;

llvm::Expected<NetworkProgram> build_program(const NetworkDescription& description, DType dtype,
                                             const HeadChannels& head_channels);

/// The farthest any offset of any map reaches per axis, and the stride that all levels' strides
/// divide: what the key layout of the whole network needs.
void layout_needs(const NetworkProgram& program, i64* guard, i64* period);

}  // namespace minuet
