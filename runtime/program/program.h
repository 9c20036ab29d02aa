// A program: numbered coordinate sets, kernel maps, tensors and ops.
//
// Everything that does not depend on a cloud is decided here: which sets and maps ops share, where each
// tensor is stored (a concatenation is two tensors side by side in one storage, written in place), and how
// storages are stacked. Storages that are never in use at the same time share memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/choose/problem.h"

namespace minuet {

/// A coordinate set. Level 0 belongs to the input. Each other level of a network is derived from its parent
/// by a stride, or made by an op from its parent's coordinates and features.
struct LevelSpec {
  AxisArray tensor_stride{1, 1, 1, 1};  // 0 if the caller gives the set
  i32 parent = -1;
  i32 made_by = -1;  // the layer that makes the set in each run; -1: prepare or the caller does

  bool is_made_in_run() const { return made_by >= 0; }
};

/// A kernel map between two levels. A submanifold map has the same level twice.
struct MapSpec {
  i32 fine = 0, coarse = 0;
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  bool operator==(const MapSpec&) const = default;
  i64 volume() const;
  /// Returns true for one offset from a set to itself: every row is its own neighbour, so no search is
  /// needed.
  bool is_identity() const;
};

/// A matrix [rows of its level, channels] inside a storage.
struct TensorSpec {
  i32 level = 0;
  i32 channels = 0;
  i32 storage = 0;
  i32 column = 0;
};

/// Memory of [rows of the level, ld] elements, in use from layer `first` to layer `last`; -1 means before the
/// first layer.
struct StorageSpec {
  i32 level = 0;
  i32 ld = 0;
  i32 first = 0, last = 0;
  std::vector<i32> below;  // storages in use at the same time that are placed below it
};

/// The names that the network's description gives a convolution, used in error messages.
struct LayerOrigin {
  std::string layer;       // name of the layer in the description
  std::string part;        // "conv1" or "shortcut" in a residual or bottleneck block, else empty
  std::string batch_norm;  // prefix of its batch norm, even if it has none; empty if it cannot have one
};

/// One op: its place in the program, and the problem that it solves.
struct ProgramLayer {
  explicit ProgramLayer(OpProblem op) : problem(std::move(op)) {}

  std::string name;        // prefix of parameter names
  LayerOrigin origin;      // of a layer of a network
  std::string weight;      // name of its weight parameter
  std::string batch_norm;  // prefix of parameter names, or empty
  double batch_norm_epsilon = 0;
  bool is_affine = true;  // true if the batch norm has a weight and a bias
  std::string bias;       // name of the convolution's bias, which is added before the batch norm; or empty
  i32 map = 0;            // -1 if the op reads no kernel map
  i32 input = 0, output = 0;  // tensor numbers
  i32 residual = -1;
  bool is_shortcut = false;  // true if the layer before it may compute it too (ConvolutionProblem::shortcut)
  OpProblem problem;

  /// Returns the part of the problem that describes its kernel map; null if the op reads none.
  const WindowProblem* window() const { return window_of(problem); }
  bool is_transposed() const { return window() != nullptr && window()->is_transposed(); }
};

/// Typed operations over levels, maps and tensors, independent of architecture and cloud.
struct Program {
  std::string name;
  i32 ndim = 3;
  DType dtype = DType::F16;
  std::vector<LevelSpec> levels;
  std::vector<MapSpec> maps;
  std::vector<TensorSpec> tensors;
  std::vector<StorageSpec> storages;
  /// The storages in use, each after all that are below it. Each storage is placed on top of those below it,
  /// whatever rows the levels have, so fewer rows never need more memory.
  std::vector<i32> stack;
  std::vector<ProgramLayer> layers;
  bool takes_maps = false;       // true: the caller gives levels and maps; false: prepare builds them
  bool is_head_missing = false;  // true if a head of the description has no weights and is left out
  std::vector<i32> inputs{0};    // tensors that run() takes
  i32 output = 0;
  i64 period[kMaxDim] = {1, 1, 1, 1};  // least common multiple of all levels' strides
};

/// One step of the work of an execution on a cloud.
struct Step {
  enum class Kind : i32 { MakeLevel, MakeMap, RunOp };
  Kind kind = Kind::RunOp;
  i32 number = 0;       // number of the level, map or layer
  bool is_run = false;  // true: part of each run; false: part of a prepare
  bool operator==(const Step&) const = default;
};

/// Returns every step of the program. Prepare makes all levels and maps that do not depend on the result of
/// an op; a run makes each of the others as soon as its levels exist. A level that a layer makes has no step
/// of its own.
std::vector<Step> make_schedule(const Program& program);

/// Returns a program of one op over a kernel map, whose sets and map the caller gives. Inputs are the
/// features, and the residual if the op has one.
Program op_program(const OpProblem& problem);

/// Returns the columns of a tensor within its storage.
Columns columns_of(const Program& program, i32 tensor);

/// Computes the farthest reach of any offset of any map on each axis (`guard`), and a stride that all levels'
/// strides divide (`period`). The key layout of the network needs both.
void layout_needs(const Program& program, i64* guard, i64* period);

}  // namespace minuet
