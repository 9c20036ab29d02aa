// Represents a program as numbered coordinate sets, kernel maps, tensors and ops.
//
// A program contains every decision that does not depend on a point cloud. It determines which sets and maps
// ops share, where each tensor is stored, and how storages are stacked in memory. A concatenation consists of
// two tensors side by side in one storage, which their ops write in place. Storages that are never in use at
// the same time share memory.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/choose/problem.h"
#include "runtime/engine/set_spec.h"

namespace minuet {

/// Describes a coordinate set, which is called a level. Level 0 belongs to the input. Each other level of a
/// network is derived from its parents (SetSpec), or made by an op from its parent's coordinates and
/// features, or has a row for each batch item.
struct LevelSpec : SetSpec {
  // Holds the number of the layer that makes the set in each run, from points or features. It is -1 if the
  // set follows from its parents, or if the caller gives it.
  i32 made_by = -1;
  // Says whether an op reads the coordinates of the rows. The op also needs the batch size.
  bool keeps_coordinates = false;
  // Says whether an op writes or reads a dense tensor of the level.
  bool is_dense = false;
  // Says whether row b stands for batch item b, for each item. Such a level has no axes, is not a set that is
  // derived from another one, and is the last level of its program.
  bool holds_items = false;
  // Says whether the rows are the points that a network takes. Such a level is level 0, has no axes, and is
  // not a set.
  bool holds_points = false;
  // Bit a is set if the level lacks axis a of the program. The coordinates of this axis are then 0.
  u32 dropped_axes = 0;

  bool is_made_in_run() const { return made_by >= 0; }
};

/// Describes a kernel map between two coordinate sets (levels). Both are the same for a submanifold op.
struct MapSpec {
  i32 fine = 0, coarse = 0;
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  // Holds the padding of an op with the offsets of a dense convolution (WindowProblem::padding).
  std::optional<AxisArray> padding = std::nullopt;
  // Holds the offsets of a kernel that is not a box (WindowProblem::offsets).
  OffsetList offsets = {};
  bool operator==(const MapSpec&) const = default;
  i64 volume() const;
  /// Returns true if the map has only the offset 0 and both levels are the same. Every row is then its own
  /// neighbour, so no search is needed.
  bool is_identity() const;
};

/// Returns the map that has the kernel of `window`, for example of a WindowProblem.
template <class Window>
MapSpec map_of(i32 fine, i32 coarse, const Window& window) {
  return {fine, coarse, window.kernel_size, window.dilation, window.padding, window.offsets};
}

/// Describes a matrix of shape [rows of its level, channels] inside a storage (StorageSpec), or a dense
/// tensor, which fills its storage.
struct TensorSpec {
  i32 level = 0;
  i32 channels = 0;
  i32 storage = 0;
  i32 column = 0;
  // Holds the extents of a dense tensor's axes, without the first one, which is the batch size. It is empty
  // for a matrix. The cells of a dense tensor are those of the shape of its level.
  std::vector<i64> dims = {};

  bool is_dense() const { return !dims.empty(); }
};

/// Describes memory of [rows of the level, ld] elements, or of a dense tensor. It is in use from layer
/// `first` to layer `last`, where -1 means before the first layer.
struct StorageSpec {
  i32 level = 0;
  i32 ld = 0;
  i32 first = 0, last = 0;
  // Lists the storages that are in use at the same time as this one and are placed at lower addresses.
  std::vector<i32> below;
  // The flag is true if the elements are i32 numbers of rows or channels, and false if they have the
  // program's dtype. In rows that do not exist, the numbers are -1.
  bool holds_integers = false;
  // The flag is true if the elements are float32 numbers of points, whatever the program's dtype is.
  bool holds_points = false;
  // The flag is true if the elements are the bytes of a mask, whatever the program's dtype is.
  bool holds_mask = false;
  // Holds U8 or S8 if the elements are 8-bit integers, which stand for multiples of the scales of their
  // columns. `scales` has `ld` elements then, and is empty otherwise.
  std::optional<DType> integers = std::nullopt;
  std::vector<float> scales = {};
  // Holds the number of elements that each batch item has in a dense tensor, and is 0 otherwise.
  i64 item_elements = 0;
};

/// Holds the names that the network's description gives a convolution. Error messages use them.
struct LayerOrigin {
  // Holds the name of the layer in the description.
  std::string layer;
  // Holds the name of a convolution in a residual or bottleneck block, for example "conv1" or "shortcut". It
  // is empty in other layers.
  std::string part;
  // Holds the prefix of the parameters that a batch norm would have, even if the convolution has none. It is
  // empty if the convolution cannot have a batch norm.
  std::string batch_norm;
};

/// Holds the names of the parameters of one Affine step of a chain of pointwise steps, whose scale and shift
/// they are, or from whose batch norm these are computed.
struct AffineNames {
  // Hold the names of the scale and the shift. They are empty if there is a batch norm.
  std::string scale, shift;
  // Holds the prefix of the batch norm's parameters. It is empty if there is none.
  std::string batch_norm;
  double epsilon = 0;
  // The flag is true if the batch norm has a weight and a bias.
  bool is_affine = true;
  // Holds the scale of a step that has no parameters, whose shift is 0. It is 0 for every other step.
  float factor = 0;
};

/// Describes one op by its place in the program and the problem that it solves.
struct ProgramLayer {
  explicit ProgramLayer(OpProblem op) : problem(std::move(op)) {}

  // Holds a name that is unique in the program.
  std::string name;
  // Holds the names in the network's description, which are empty in a program of one op.
  LayerOrigin origin;
  // Holds the name of the weight parameter.
  std::string weight;
  // Holds the prefix of the batch norm's parameters. It is empty if there is no batch norm.
  std::string batch_norm;
  double batch_norm_epsilon = 0;
  // The flag is true if the batch norm has a weight and a bias.
  bool is_affine = true;
  // Holds the name of the convolution's bias, which is added before the batch norm. It is empty if there is
  // none.
  std::string bias;
  // Hold the names of the scale and the shift of a chain's Affine step that the convolution computes in place
  // of a batch norm (cover_chains.h). They are empty if there is none.
  std::string scale, shift;
  // Names the steps of the chain that the convolution computes (cover_chains.h), for example "affine
  // \"a.bn\" + relu". It is empty if there are none.
  std::string covered_steps;
  // Has one element for each Affine step of a chain, and is empty for other ops.
  std::vector<AffineNames> affines;
  // Lists the prefixes of the parameters that layer norms of a chain would have which have none.
  std::vector<std::string> bare_norms;
  // Hold what the description says of the convolution (ConvolutionFields): whether it multiplies 8-bit
  // features, and the largest magnitude of its result, or 0. assign_precisions() makes types of them.
  bool is_int8 = false;
  float output_range = 0;
  // Hold the scale of each channel of the input of a convolution that computes in 8 bits, the scale of its
  // residual, and the scale of a convolution's output in 8 bits. They are empty, or 0, where there is no such
  // tensor.
  std::vector<float> input_scales;
  float residual_scale = 0, output_scale = 0;
  // Holds the number of the kernel map that the op reads, or -1 if it reads none.
  i32 map = 0;
  // Holds the level whose coordinates the op reads (LevelSpec::keeps_coordinates), or -1.
  i32 coordinates_level = -1;
  // `input`, `output`, `residual` and `winners` are indices of tensors. `residual` is -1 if the layer adds
  // none, and `winners` is -1 if the layer has no second output (OperandShape::has_winners).
  i32 input = 0, output = 0;
  i32 residual = -1;
  i32 winners = -1;
  // Lists the tensors of the further inputs (OperandShape::operands).
  std::vector<i32> operands;
  // The flag is true if the kernel of the layer before may compute this layer too
  // (ConvolutionProblem::shortcut and ConvolutionProblem::second_output).
  bool may_join_last = false;
  OpProblem problem;

  /// Returns the part of the problem that describes its kernel map, or null if the op reads none.
  const WindowProblem* window() const { return window_of(problem); }
  bool is_transposed() const { return window() != nullptr && window()->is_transposed(); }
};

/// Describes a program of typed operations over coordinate sets (levels), kernel maps and tensors. It depends
/// neither on the architecture nor on a point cloud.
struct Program {
  std::string name;
  i32 ndim = 3;
  DType dtype = DType::F16;
  std::vector<LevelSpec> levels;
  std::vector<MapSpec> maps;
  std::vector<TensorSpec> tensors;
  std::vector<StorageSpec> storages;
  /// Lists the storages that are in use, each after all storages in its StorageSpec::below. In memory, each
  /// storage begins at the highest end of those in its `below`, whatever number of rows the levels have, so
  /// fewer rows never need more memory.
  std::vector<i32> stack;
  std::vector<ProgramLayer> layers;
  // The flag is true if the caller gives coordinate sets and kernel maps to Execution::prepare_maps(), and
  // false if Execution::prepare() builds them.
  bool takes_maps = false;
  // The flag is true if the network's description has a head (output layer) for which there are no weights,
  // so that it is left out.
  bool is_head_missing = false;
  // Lists the tensors that Execution::run() takes and gives, and the names of all of them. Tensors of one
  // level may be inputs, and an output may be read by later layers too. The winners of a single op are its
  // second output.
  std::vector<i32> inputs{0}, outputs;
  std::vector<std::string> input_names, output_names;
  // Holds the tensor of the winners (OperandShape::has_winners), or -1 if there is none. Only the program of
  // a single op has one.
  i32 winners = -1;
  // The flag is true if the program is a pass of a training step (runtime/training). A run copies every input
  // that is not dense into its storage, where zeros stand for an input that the caller leaves out, and
  // winners are the numbers that rows have in their sets.
  bool is_training_pass = false;
  // Lists the storages of a training pass that the backward pass reads. They lie in this order in the memory
  // that outlives the forward pass. `stack` does not contain them.
  std::vector<i32> kept;
  /// Returns true if the first layer makes voxels of points. The first input is then the array of points, and
  /// the last two are the batch index of each point and the number of points, which a caller may leave out.
  bool takes_points() const { return levels.front().holds_points && levels.size() > 1; }
  /// Returns how many outputs Execution::run_arrays() writes.
  i32 output_count() const { return static_cast<i32>(outputs.size()); }
  /// Returns the level of an output.
  i32 output_level(std::size_t output = 0) const { return tensors[outputs[output]].level; }
  // Holds, for each axis, the least common multiple of the strides of all coordinate sets (levels).
  i64 period[kMaxDim] = {1, 1, 1, 1};
};

/// Returns a program of one op over a kernel map. The caller gives its sets and its map. The inputs are the
/// features, and the residual if the op has one. The outputs are the op's.
Program op_program(const OpProblem& problem);

/// Returns the axes of the program that a level has, in ascending order.
std::vector<i32> axes_of(const Program& program, i32 level);
/// Returns the numbers of a level's axes, followed by `beyond`. `numbers` are those of the program's axes.
AxisArray on_axes_of(const Program& program, i32 level, const AxisArray& numbers, i32 beyond);

/// Returns the description of each level that is a coordinate set, which are all but one that holds points or
/// batch items. The program must consist of one stage (stages.h).
std::vector<SetSpec> sets_of(const Program& program);

/// Returns the first level of `among` that has the coordinates of level `level` of `program`, or -1. The
/// programs have the same coordinates in level 0.
i32 find_same_level(const Program& among, const Program& program, i32 level);

/// Returns the geometry of a map's kernel.
KernelGeometry geometry_of(const Program& program, const MapSpec& map);

/// Returns the number of offsets of the largest kernel map, or 0 if there is no map. All maps use the
/// parameters of the map search that are chosen for this number.
i64 largest_volume(const Program& program);

/// Returns the number of bytes of an element of a storage.
i64 element_bytes(const Program& program, const StorageSpec& storage);

/// Returns the columns of a tensor within its storage.
Columns columns_of(const Program& program, i32 tensor);

/// Returns true if the memory of input `number` may be the storage of its tensor. It cannot if the storage
/// has other columns too.
bool is_whole_input(const Program& program, std::size_t number);
/// Returns true if the memory of output `number` may be the storage of its tensor. It cannot if the storage
/// has other columns too, or if an earlier output or an input is the same tensor.
bool is_whole_output(const Program& program, std::size_t number);

/// Computes, for each axis, the farthest reach of any offset of any kernel map (`guard`), and a number that
/// the strides of all coordinate sets divide (`period`). The key layout depends on these values.
void layout_needs(const Program& program, i64* guard, i64* period);

}  // namespace minuet
