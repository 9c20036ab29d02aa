// The description of a network as JSON. What is read is written and read again as the same; and the program
// that is made of it is consistent: numbers refer to what is there, and nothing reads memory that another
// tensor took.
#include <algorithm>
#include <cstddef>

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "runtime/network/network_program.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using Op = LayerDescription::Op;

Array axes_of(const AxisArray& axes, i32 ndim) {
  Array numbers;
  for (i32 a = 0; a < ndim; ++a) numbers.push_back(axes[a]);
  return numbers;
}

void add_norm(const ConvolutionFields& fields, Object& object) {
  object["bias"] = fields.bias;
  object["norm"] = fields.batch_norm ? "batch_norm" : "none";
  if (!fields.batch_norm) return;
  object["affine"] = fields.affine;
  object["epsilon"] = fields.epsilon;
}

void add_activation(const ConvolutionFields& fields, Object& object) {
  object["activation"] = activation_name(fields.activation);
  if (fields.activation == Activation::LeakyReLU) object["slope"] = static_cast<double>(fields.slope);
}

/// What a layer with convolutions says of them.
void add_fields(const LayerDescription& layer, Object& object) {
  add_activation(layer.fields, object);
  if (layer.op == Op::Head)
    object["bias"] = layer.fields.bias;
  else
    add_norm(layer.fields, object);
  const llvm::ArrayRef<const char*> names = part_names(layer.op);
  require(layer.parts.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i + 1 == names.size() && !layer.has_shortcut_fields) break;
    Object part;
    add_norm(layer.parts[i], part);
    if (i + 2 < names.size()) add_activation(layer.parts[i], part);
    object[names[i]] = std::move(part);
  }
}

Object json_of(const LayerDescription& layer, i32 ndim) {
  const bool is_pool = layer.op >= Op::MaxPool && layer.op <= Op::SumPool;
  Object object{{"op", op_name(layer.op)}};
  if (!layer.save.empty()) object["save"] = layer.save;
  if (layer.op == Op::Concat) object["with"] = layer.skip;
  if (layer.op == Op::Up) object["onto"] = layer.skip;
  if (layer.op != Op::Concat) object["name"] = layer.name;
  if (layer.op != Op::Concat && layer.op != Op::Head && !is_pool) object["width"] = layer.width;
  if (layer.op == Op::Bottleneck) object["inner_width"] = layer.inner_width;
  if (layer.classes != 0) object["classes"] = layer.classes;
  if (layer.op != Op::Concat && !is_pool) add_fields(layer, object);
  if (layer.op == Op::Concat || layer.op == Op::Head) return object;
  object["kernel_size"] = axes_of(layer.kernel_size, ndim);
  object["stride"] = axes_of(layer.stride, ndim);
  object["dilation"] = axes_of(layer.dilation, ndim);
  return object;
}

std::string json_of(const NetworkDescription& network) {
  Array layers;
  for (const LayerDescription& layer : network.layers) layers.push_back(json_of(layer, network.ndim));
  Object object{{"name", network.name},
                {"ndim", network.ndim},
                {"in_channels", network.in_channels},
                {"channels", Array(network.channels)},
                {"weights_order", weights_order_name(network.weights_order)},
                {"layers", std::move(layers)}};
  return llvm::formatv("{0}", llvm::json::Value(std::move(object))).str();
}

void check_description(const NetworkDescription& network) {
  require(!network.name.empty() && network.ndim >= 1 && network.ndim <= kMaxDim && network.in_channels >= 1);
  require(!network.channels.empty() && !network.layers.empty());
  for (const LayerDescription& layer : network.layers) {
    require(layer.width >= 0 && static_cast<std::size_t>(layer.width) < network.channels.size());
    require(layer.name.empty() == (layer.op == Op::Concat));
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
    require(i == 0 ? level.parent == -1 : level.parent >= 0 && level.parent < static_cast<i32>(i));
    for (i32 a = 0; a < program.ndim; ++a) {
      require(program.period[a] % level.tensor_stride[a] == 0);
      if (i > 0) require(level.tensor_stride[a] % program.levels[level.parent].tensor_stride[a] == 0);
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

void check_layers(const Program& program) {
  Memory memory(program);
  memory.write(program.inputs[0]);
  for (const ProgramLayer& layer : program.layers) {
    require(is_in(layer.map, program.maps) && is_in(layer.input, program.tensors) &&
            is_in(layer.output, program.tensors) &&
            layer.residual < static_cast<i32>(program.tensors.size()));
    const MapSpec& map = program.maps[layer.map];
    const TensorSpec& input = program.tensors[layer.input];
    const TensorSpec& output = program.tensors[layer.output];
    const bool is_up = layer.is_transposed();
    require(input.level == (is_up ? map.coarse : map.fine) &&
            output.level == (is_up ? map.fine : map.coarse));
    const OperandShape shape = layer.problem.kind().shape(layer.problem);
    require(shape.in_channels == input.channels && shape.out_channels == output.channels);
    require(!llvm::errorToBool(validate(layer.problem)));
    for (const i32 tensor : {layer.input, layer.output, layer.residual}) {
      if (tensor >= 0) require(llvm::is_contained(program.stack, program.tensors[tensor].storage));
    }
    memory.write(layer.output);
    // Also after the write: input and output are in use at once.
    require(memory.holds(layer.input) && (layer.residual < 0 || memory.holds(layer.residual)));
  }
  require(memory.holds(program.output));
}

}  // namespace

bool fuzz_network(llvm::StringRef input) {
  llvm::Expected<NetworkDescription> network = parse_network(input);
  if (!network) {
    llvm::consumeError(network.takeError());
    return false;
  }
  check_description(*network);
  const std::string text = json_of(*network);
  require(json_of(llvm::cantFail(parse_network(text))) == text);
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
