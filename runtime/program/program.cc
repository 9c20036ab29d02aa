#include "runtime/program/program.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

namespace minuet {

i64 MapSpec::volume() const {
  if (!offsets.empty()) return static_cast<i64>(offsets.size());
  return std::accumulate(kernel_size.begin(), kernel_size.end(), i64{1}, std::multiplies<>());
}

bool MapSpec::is_identity() const {
  const bool starts_at_0 = !padding || *padding == AxisArray{};
  return fine == coarse && offsets.empty() && starts_at_0 && kernel_size == AxisArray{1, 1, 1, 1};
}

Program op_program(const OpProblem& problem) {
  const WindowProblem& window = *window_of(problem);
  const OperandShape shape = problem.kind().shape(problem);
  Program program;
  program.name = problem.kind().name;
  program.ndim = window.ndim;
  program.dtype = window.dtype;
  program.takes_maps = true;
  const i32 out = window.kind == ConvolutionKind::Submanifold ? 0 : 1;
  const i32 fine = window.is_transposed() ? out : 0, coarse = window.is_transposed() ? 0 : out;
  LevelSpec given;
  given.tensor_stride = AxisArray{};
  program.levels.assign(out + 1, given);
  program.maps.push_back(map_of(fine, coarse, window));
  auto add_tensor = [&](i32 level, i32 channels, bool holds_integers = false) {
    const i32 number = static_cast<i32>(program.tensors.size());
    program.tensors.push_back({level, channels, number, 0});
    program.storages.push_back({level, channels, 0, 0, program.stack, holds_integers});
    program.stack.push_back(number);
    return number;
  };
  const Columns input{shape.in_channels, 0}, output{shape.out_channels, 0};
  const std::vector<Columns> operands(static_cast<std::size_t>(shape.operands), input);
  ProgramLayer layer(problem.kind().at_columns(problem, {input, output, output, {}, operands}));
  layer.name = program.name;
  if (shape.has_weight) layer.weight = "weight";
  layer.input = add_tensor(0, shape.in_channels);
  layer.output = add_tensor(out, shape.out_channels, shape.gives_integers);
  program.inputs = {layer.input};
  program.input_names = {"input"};
  program.outputs = {layer.output};
  program.output_names = {"output"};
  if (shape.has_residual) {
    layer.residual = add_tensor(out, shape.out_channels);
    program.inputs.push_back(layer.residual);
    program.input_names.push_back("residual");
  }
  for (i32 i = 0; i < shape.operands; ++i) {
    layer.operands.push_back(add_tensor(out, shape.in_channels));
    program.inputs.push_back(layer.operands.back());
    program.input_names.push_back("operand" + std::to_string(i));
  }
  if (shape.reads_winners) {
    layer.operands.push_back(add_tensor(0, shape.out_channels, /*holds_integers=*/true));
    program.inputs.push_back(layer.operands.back());
    program.input_names.push_back("winners");
  }
  for (const i32 step : shape.affine_steps) {
    const std::string prefix = "steps[" + std::to_string(step) + "].";
    layer.affines.push_back({.scale = prefix + "scale", .shift = prefix + "shift", .batch_norm = ""});
  }
  if (shape.has_winners) {
    layer.winners = program.winners = add_tensor(out, shape.out_channels, /*holds_integers=*/true);
    program.outputs.push_back(layer.winners);
    program.output_names.push_back("winners");
  }
  program.layers.push_back(std::move(layer));
  return program;
}

std::vector<i32> axes_of(const Program& program, i32 level) {
  std::vector<i32> axes;
  for (i32 a = 0; a < program.ndim; ++a) {
    if ((program.levels[level].dropped_axes >> a & 1) == 0) axes.push_back(a);
  }
  return axes;
}

AxisArray on_axes_of(const Program& program, i32 level, const AxisArray& numbers, i32 beyond) {
  if (program.levels[level].dropped_axes == 0) return numbers;
  AxisArray on_axes;
  on_axes.fill(beyond);
  std::size_t count = 0;
  for (const i32 axis : axes_of(program, level)) on_axes[count++] = numbers[axis];
  return on_axes;
}

std::vector<SetSpec> sets_of(const Program& program) {
  if (!program.levels.empty() && program.levels.front().holds_points) return {};
  const bool has_items = !program.levels.empty() && program.levels.back().holds_items;
  return {program.levels.begin(), program.levels.end() - (has_items ? 1 : 0)};
}

namespace {

/// Returns true if the level has the coordinates of level 0, rounded down.
bool is_rounded_down(const Program& program, i32 level) {
  for (; level > 0; level = program.levels[level].parent) {
    if (program.levels[level].is_reached_or_combined() || program.levels[level].is_made_in_run())
      return false;
  }
  return true;
}

/// Compares the levels of two programs, which have the same coordinates in level 0.
class LevelComparison {
 public:
  LevelComparison(const Program& first, const Program& second) : first_(first), second_(second) {}

  /// Returns true if level `a` of the first program has the coordinates of level `b` of the second one. Both
  /// are -1 for a parent that is not there.
  [[gnu::cold]] bool is_same(i32 a, i32 b) {
    if (a < 0 || b < 0) return a == b;
    const auto known = known_.find({a, b});
    if (known != known_.end()) return known->second;
    return known_[{a, b}] = compare(a, b);
  }

 private:
  [[gnu::cold]] bool compare(i32 a, i32 b) {
    const LevelSpec &one = first_.levels[a], &other = second_.levels[b];
    if (one.holds_items || other.holds_items) return one.holds_items == other.holds_items;
    if (one.tensor_stride != other.tensor_stride) return false;
    const bool is_rounded = is_rounded_down(first_, a);
    if (is_rounded || is_rounded_down(second_, b)) return is_rounded == is_rounded_down(second_, b);
    if (one.is_made_in_run() || other.is_made_in_run()) return &first_ == &second_ && a == b;
    if (one.reach != other.reach || one.is_intersection != other.is_intersection || one.shape != other.shape)
      return false;
    // The order of the parents of a union or an intersection is that of their numbers, which follow from the
    // order of the layers. The rows do not depend on it. A level with one parent cannot match crosswise,
    // because no parent is -1.
    return (is_same(one.parent, other.parent) && is_same(one.other_parent, other.other_parent)) ||
           (is_same(one.parent, other.other_parent) && is_same(one.other_parent, other.parent));
  }

  const Program &first_, &second_;
  // Holds the results so far. Unions lead to the same pairs of levels in many ways.
  std::map<std::pair<i32, i32>, bool> known_;
};

}  // namespace

i32 find_same_level(const Program& among, const Program& program, i32 level) {
  LevelComparison comparison(among, program);
  for (i32 i = 0; i < static_cast<i32>(among.levels.size()); ++i) {
    if (comparison.is_same(i, level)) return i;
  }
  return -1;
}

KernelGeometry geometry_of(const Program& program, const MapSpec& map) {
  return make_geometry(program.ndim, map.kernel_size, map.dilation, program.levels[map.fine].tensor_stride,
                       map.padding, map.offsets);
}

i64 largest_volume(const Program& program) {
  i64 volume = 0;
  for (const MapSpec& map : program.maps) volume = std::max(volume, map.volume());
  return volume;
}

i64 element_bytes(const Program& program, const StorageSpec& storage) {
  if (storage.holds_mask || storage.integers) return 1;
  const bool has_words = storage.holds_integers || storage.holds_points;
  return has_words ? static_cast<i64>(sizeof(i32)) : dtype_bytes(program.dtype);
}

Columns columns_of(const Program& program, i32 tensor) {
  const TensorSpec& spec = program.tensors[tensor];
  return {program.storages[spec.storage].ld, spec.column};
}

namespace {

bool fills_storage(const Program& program, i32 tensor) {
  const Columns columns = columns_of(program, tensor);
  return columns.column == 0 && columns.ld == program.tensors[tensor].channels;
}

}  // namespace

bool is_whole_input(const Program& program, std::size_t number) {
  return fills_storage(program, program.inputs[number]);
}

bool is_whole_output(const Program& program, std::size_t number) {
  const auto first = program.outputs.begin(), given = first + static_cast<std::ptrdiff_t>(number);
  const bool is_input =
      std::find(program.inputs.begin(), program.inputs.end(), *given) != program.inputs.end();
  return !is_input && fills_storage(program, *given) && std::find(first, given, *given) == given;
}

void layout_needs(const Program& program, i64* guard, i64* period) {
  for (i32 a = 0; a < program.ndim; ++a) {
    guard[a] = 0;
    period[a] = program.period[a];
    for (const MapSpec& map : program.maps) {
      const i64 reach = map.offsets.empty()
                            ? axis_reach(geometry_of(program, map), a)
                            : farthest_offset(map.offsets, a) * program.levels[map.fine].tensor_stride[a];
      guard[a] = std::max(guard[a], reach);
    }
    guard[a] += reach_margin(a, sets_of(program));
  }
}

}  // namespace minuet
