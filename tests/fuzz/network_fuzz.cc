// The description of a network as JSON. What is read is written and read again as the same; and the program
// that is made of it is consistent: numbers refer to what is there, and nothing reads memory that another
// tensor took.
#include <algorithm>
#include <cstddef>

#include "runtime/network/network_program.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

using Op = LayerDescription::Op;

void check_description(const NetworkDescription& network) {
  require(!network.name.empty() && network.ndim >= 1 && network.ndim <= kMaxDim);
  require(!network.inputs.empty() && !network.layers.empty());
  for (const InputDescription& input : network.inputs) require(!input.name.empty() && input.channels >= 1);
  for (const LayerDescription& layer : network.layers) {
    const auto is_from = [&](Op first, Op last) { return layer.op >= first && layer.op <= last; };
    const bool has_width =
        layer.op == Op::Linear || (layer.op < Op::ToDense && layer.op != Op::Concat && layer.op != Op::Head &&
                                   !is_from(Op::MaxPool, Op::SumPool));
    if (has_width) require(network.width_of(layer) >= 1);
    const bool has_no_name =
        layer.op == Op::Concat || is_from(Op::ToDense, Op::FromDense) || is_from(Op::Relu, Op::Argmax);
    require(layer.name.empty() == has_no_name);
    for (i32 a = 0; a < kMaxDim; ++a) {
      require(layer.kernel_size[a] >= 1 && layer.stride[a] >= 1 && layer.dilation[a] >= 1);
      if (a >= network.ndim) require(layer.kernel_size[a] * layer.stride[a] * layer.dilation[a] == 1);
    }
  }
}

/// What lies where while a program runs, each level of one row: a storage takes its memory when a layer
/// writes into it.
class Memory {
 public:
  explicit Memory(const Program& program)
      : program_(program), begin_(program.storages.size()), written_(program.storages.size()) {
    for (const i32 number : program.stack) {
      for (const i32 below : program.storages[number].below) {
        begin_[number] = std::max(begin_[number], begin_[below] + program.storages[below].ld);
      }
      holders_.resize(std::max(holders_.size(), static_cast<std::size_t>(end_of(number))), -1);
    }
  }

  void write(i32 tensor) {
    const TensorSpec& spec = program_.tensors[tensor];
    if (!has(spec.storage)) written_[spec.storage].clear();
    std::fill(holders_.begin() + begin_[spec.storage], holders_.begin() + end_of(spec.storage), spec.storage);
    written_[spec.storage].push_back({spec.column, spec.column + spec.channels});
  }

  /// Every column of it was written, and nothing else took the memory since.
  bool holds(i32 tensor) const {
    const TensorSpec& spec = program_.tensors[tensor];
    if (!has(spec.storage)) return false;
    i32 column = spec.column;
    for (bool moves = true; moves && column < spec.column + spec.channels;) {
      moves = false;
      for (const auto& [begin, end] : written_[spec.storage]) {
        if (begin > column || end <= column) continue;
        column = end;
        moves = true;
      }
    }
    return column >= spec.column + spec.channels;
  }

 private:
  i64 end_of(i32 storage) const { return begin_[storage] + program_.storages[storage].ld; }
  bool has(i32 storage) const {
    return std::all_of(holders_.begin() + begin_[storage], holders_.begin() + end_of(storage),
                       [&](i32 holder) { return holder == storage; });
  }

  const Program& program_;
  std::vector<i64> begin_;                                 // of each storage
  std::vector<i32> holders_;                               // the storage that has each element
  std::vector<std::vector<std::pair<i32, i32>>> written_;  // by storage
};

template <class Items>
bool is_in(i32 index, const Items& items) {
  return index >= 0 && static_cast<std::size_t>(index) < items.size();
}

void check_numbers(const Program& program) {
  for (std::size_t i = 0; i < program.levels.size(); ++i) {
    const LevelSpec& level = program.levels[i];
    require(!level.holds_items || (i > 0 && i + 1 == program.levels.size() && level.parent == -1));
    if (level.holds_items) continue;
    require(i == 0 ? level.parent == -1 : level.parent >= 0 && level.parent < static_cast<i32>(i));
    require(level.other_parent >= -1 && level.other_parent < static_cast<i32>(i));
    require(!level.is_intersection || level.has_two_parents());
    const bool is_finer = level.is_union() || (level.reach && level.reach->is_generative);
    require(i == 0 || (program.levels[level.parent].dropped_axes & ~level.dropped_axes) == 0);
    for (i32 a = 0; a < program.ndim; ++a) {
      require(program.period[a] % level.tensor_stride[a] == 0);
      if (i == 0) continue;
      const i32 own = level.tensor_stride[a], of_parent = program.levels[level.parent].tensor_stride[a];
      require(is_finer ? of_parent % own == 0 : own % of_parent == 0);
    }
  }
  for (const MapSpec& map : program.maps)
    require(is_in(map.fine, program.levels) && is_in(map.coarse, program.levels));
  for (const TensorSpec& tensor : program.tensors) {
    require(is_in(tensor.storage, program.storages));
    const StorageSpec& storage = program.storages[tensor.storage];
    require(storage.level == tensor.level && tensor.column >= 0 &&
            tensor.column + tensor.channels <= storage.ld);
  }
}

/// What ops with a kernel map, ops that read the coordinates of a level, and pointwise ops have in their
/// places.
void check_levels(const Program& program, const ProgramLayer& layer) {
  const TensorSpec &input = program.tensors[layer.input], &output = program.tensors[layer.output];
  require(!program.storages[input.storage].holds_integers);
  if (layer.map < 0 && layer.coordinates_level < 0) {
    require(input.level == output.level && !input.is_dense() && !output.is_dense());
    return;
  }
  if (layer.map < 0) {
    require(is_in(layer.coordinates_level, program.levels));
    require(program.levels[layer.coordinates_level].keeps_coordinates);
    const bool pools_items = program.levels[output.level].holds_items;
    require((input.is_dense() ? output : input).level == layer.coordinates_level);
    require(pools_items ? !input.is_dense() && !output.is_dense() : input.is_dense() != output.is_dense());
    return;
  }
  require(is_in(layer.map, program.maps) && !input.is_dense() && !output.is_dense());
  const MapSpec& map = program.maps[layer.map];
  const bool is_up = layer.is_transposed();
  require(input.level == (is_up ? map.coarse : map.fine) && output.level == (is_up ? map.fine : map.coarse));
}

void check_layers(const Program& program) {
  Memory memory(program);
  for (const i32 input : program.inputs) memory.write(input);
  for (const ProgramLayer& layer : program.layers) {
    require(is_in(layer.input, program.tensors) && is_in(layer.output, program.tensors) &&
            layer.residual < static_cast<i32>(program.tensors.size()));
    check_levels(program, layer);
    const TensorSpec &input = program.tensors[layer.input], &output = program.tensors[layer.output];
    const OperandShape shape = layer.problem.kind().shape(layer.problem);
    require(shape.in_channels == input.channels && shape.out_channels == output.channels);
    require(!llvm::errorToBool(validate(layer.problem)));
    require(shape.operands == static_cast<i32>(layer.operands.size()));
    require(shape.affine_steps.size() == layer.affines.size());
    require(shape.gives_integers == program.storages[output.storage].holds_integers);
    for (const i32 tensor : {layer.input, layer.output, layer.residual}) {
      if (tensor >= 0) require(llvm::is_contained(program.stack, program.tensors[tensor].storage));
    }
    memory.write(layer.output);
    // Also after the write: input and output are in use at once.
    require(memory.holds(layer.input) && (layer.residual < 0 || memory.holds(layer.residual)));
    for (const i32 operand : layer.operands) {
      const TensorSpec& spec = program.tensors[operand];
      require(spec.level == output.level && spec.channels == input.channels && !spec.is_dense());
      require(!program.storages[spec.storage].holds_integers && memory.holds(operand));
    }
  }
  require(!program.outputs.empty());
  for (const i32 output : program.outputs) require(memory.holds(output));
}

}  // namespace

bool fuzz_network(llvm::StringRef input) {
  llvm::Expected<NetworkDescription> network = parse_network(input);
  if (!network) {
    llvm::consumeError(network.takeError());
    return false;
  }
  check_description(*network);
  const std::string text = print_network(*network);
  require(print_network(llvm::cantFail(parse_network(text))) == text);
  bool is_whole = true;
  for (const i32 head : {0, 5}) {
    llvm::Expected<Program> program =
        build_program(*network, DType::F16, [&](const std::string&, i32) { return head; });
    is_whole = is_whole && program;
    if (program) {
      check_numbers(*program);
      check_layers(*program);
    } else {
      llvm::consumeError(program.takeError());
    }
  }
  return is_whole;
}

}  // namespace minuet
