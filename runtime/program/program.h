// A program: coordinate sets, kernel maps, tensors and ops by number.
//
// Everything that does not depend on a cloud is decided here: which sets and maps are shared, where
// each tensor lives (a concatenation is two tensors side by side in one storage, written in place),
// and how storages are stacked, of which those that are never in use together share memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/choose/problem.h"

namespace minuet {

/// A coordinate set. Level 0 is the input's. A network derives each other one from its parent by a stride, or
/// an op makes it of its parent's coordinates and of features.
struct LevelSpec {
  AxisArray tensor_stride{1, 1, 1, 1};  // 0 where the set is the caller's
  i32 parent = -1;
  i32 made_by = -1;  // the layer that makes the set in each run; -1: prepare makes it, or the caller
};

/// A kernel map between two levels; the same level twice is a submanifold map.
struct MapSpec {
  i32 fine = 0, coarse = 0;
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  bool operator==(const MapSpec&) const = default;
  i64 volume() const;
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

/// Memory of [rows of the level, ld], in use from layer `first` to layer `last`; -1 is before the first
/// layer.
struct StorageSpec {
  i32 level = 0;
  i32 ld = 0;
  i32 first = 0, last = 0;
  std::vector<i32> below;  // storages in use together with it that lie below it
};

/// What the description calls a convolution: for messages about its fields.
struct LayerOrigin {
  std::string layer;  // the name of the description's layer
  std::string part;   // "conv1", "shortcut" of a residual or a bottleneck, else empty
  std::string
      batch_norm;  // the prefix of its batch norm, also where it has none; empty where it cannot have one
};

/// One op: its place in the program, and what is asked of it.
struct ProgramLayer {
  explicit ProgramLayer(OpProblem op) : problem(std::move(op)) {}

  std::string name;        // parameter prefix
  LayerOrigin origin;      // of a network's layers
  std::string weight;      // names of its parameters
  std::string batch_norm;  // prefix, or empty
  double batch_norm_epsilon = 0;
  bool is_affine = true;      // the batch norm has a weight and a bias
  std::string bias;           // of the convolution, in front of the batch norm; or empty
  i32 map = 0;                // -1 where the op reads none
  i32 input = 0, output = 0;  // tensors
  i32 residual = -1;
  bool is_shortcut = false;  // the layer before it may compute it too (ConvolutionProblem::shortcut)
  OpProblem problem;

  /// What the op asks of its kernel map; null where it reads none.
  const WindowProblem* window() const { return window_of(problem); }
  bool is_transposed() const { return window() != nullptr && window()->is_transposed(); }
};

/// Typed operations over levels, maps and tensors, of no architecture and no cloud.
struct Program {
  std::string name;
  i32 ndim = 3;
  DType dtype = DType::F16;
  std::vector<LevelSpec> levels;
  std::vector<MapSpec> maps;
  std::vector<TensorSpec> tensors;
  std::vector<StorageSpec> storages;
  /// Those that are in use, each behind all that are below it. Whatever rows levels have, it lies on top of
  /// these: so fewer rows never take more memory.
  std::vector<i32> stack;
  std::vector<ProgramLayer> layers;
  bool takes_maps = false;       // levels and maps are the caller's, else prepare builds them
  bool is_head_missing = false;  // of the description
  std::vector<i32> inputs{0};    // tensors that run takes
  i32 output = 0;
  i64 period[kMaxDim] = {1, 1, 1, 1};  // least common multiple of all levels' strides
};

/// One thing that an execution does with a cloud.
struct Step {
  enum class Kind : i32 { MakeLevel, MakeMap, RunOp };
  Kind kind = Kind::RunOp;
  i32 number = 0;       // of the level, the map or the layer
  bool is_run = false;  // it is part of each run, else of a prepare
  bool operator==(const Step&) const = default;
};

/// Every step of the program. Prepare makes all levels and maps that no op has to make first; a run makes the
/// others as soon as their level is there. A level that a layer makes is no step of its own.
std::vector<Step> make_schedule(const Program& program);

/// A program of one op over a kernel map, whose sets and map come from outside. Inputs: the features, and the
/// residual where the op has one.
Program op_program(const OpProblem& problem);

/// Columns of a tensor in its storage.
Columns columns_of(const Program& program, i32 tensor);

/// The farthest any offset of any map reaches per axis, and the stride that all levels' strides
/// divide: what the key layout of the whole network needs.
void layout_needs(const Program& program, i64* guard, i64* period);

}  // namespace minuet
