#include "runtime/network/network_program.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "codegen/choose/ops/pooling.h"

namespace minuet {
namespace {

using Op = LayerDescription::Op;

/// Describes the part of the input that a convolution reads for each output.
struct Window {
  AxisArray kernel_size{1, 1, 1, 1}, stride{1, 1, 1, 1}, dilation{1, 1, 1, 1};
};

Window window_of(const LayerDescription& layer) { return {layer.kernel_size, layer.stride, layer.dilation}; }

/// Builds a program layer by layer. `current_` is the number of the tensor that the next layer reads.
class ProgramBuilder {
 public:
  ProgramBuilder(const NetworkDescription& description, DType dtype, const HeadChannels& head_channels,
                 std::optional<Dataflow> dataflow)
      : description_(description), head_channels_(head_channels), dataflow_(dataflow) {
    program_.name = description.name;
    program_.ndim = description.ndim;
    program_.dtype = dtype;
    program_.levels.push_back({});
    program_.inputs = {current_ = add_tensor(0, description.in_channels)};
  }

  llvm::Expected<Program> build() {
    for (std::size_t i = 0; i < description_.layers.size(); ++i) {
      const LayerDescription& layer = description_.layers[i];
      if (llvm::Error error = add(layer)) {
        const std::string what = op_name(layer.op) + (layer.name.empty() ? "" : " " + layer.name);
        return annotate(std::move(error), "layer " + std::to_string(i) + ", " + what);
      }
      if (!layer.save.empty() && !skips_.emplace(layer.save, current_).second) {
        return make_error(StatusCode::InvalidArgument, "two layers save their output as \"{0}\": rename one",
                          layer.save);
      }
    }
    program_.output = current_;
    if (program_.layers.empty()) {
      return make_error(StatusCode::InvalidArgument,
                        "the network has only a head without weights: give the head \"classes\"");
    }
    assign_columns();
    find_lives();
    stack_storages();
    return std::move(program_);
  }

 private:
  i32 add_tensor(i32 level, i32 channels) {
    program_.storages.push_back({level, channels, 0, 0, {}});
    program_.tensors.push_back({level, channels, static_cast<i32>(program_.storages.size()) - 1, 0});
    return static_cast<i32>(program_.tensors.size()) - 1;
  }

  i32 add_map(const MapSpec& map) {
    const auto found = std::find(program_.maps.begin(), program_.maps.end(), map);
    if (found != program_.maps.end()) return static_cast<i32>(found - program_.maps.begin());
    program_.maps.push_back(map);
    return static_cast<i32>(program_.maps.size()) - 1;
  }

  i32 level_of(i32 tensor) const { return program_.tensors[tensor].level; }

  /// Returns the coordinate set (LevelSpec) that a stride makes of `level`, and adds it to the program if it
  /// is missing. The result is `level` itself if each stride is 1, otherwise a coarser coordinate set.
  llvm::Expected<i32> strided_level(i32 level, const AxisArray& stride) {
    if (stride == AxisArray{1, 1, 1, 1}) return level;
    LevelSpec coarse;
    coarse.tensor_stride = program_.levels[level].tensor_stride;
    coarse.parent = level;
    for (i32 a = 0; a < program_.ndim; ++a) {
      const i64 product = static_cast<i64>(coarse.tensor_stride[a]) * stride[a];
      if (product > kMostCells) {
        return make_error(StatusCode::InvalidArgument,
                          "the tensor stride of axis {0} would be {1}; it must be at most 2^24", a, product);
      }
      coarse.tensor_stride[a] = static_cast<i32>(product);
    }
    MINUET_TRY(widen_period(coarse.tensor_stride));
    for (std::size_t i = 0; i < program_.levels.size(); ++i) {
      if (program_.levels[i].parent == level && program_.levels[i].tensor_stride == coarse.tensor_stride) {
        return static_cast<i32>(i);
      }
    }
    program_.levels.push_back(coarse);
    return static_cast<i32>(program_.levels.size()) - 1;
  }

  /// Makes Program::period a common multiple of the strides of all coordinate sets and `tensor_stride`.
  llvm::Error widen_period(const AxisArray& tensor_stride) {
    for (i32 a = 0; a < program_.ndim; ++a) {
      program_.period[a] = std::lcm(program_.period[a], static_cast<i64>(tensor_stride[a]));
      if (program_.period[a] > kFarthestOffset) {
        return make_error(StatusCode::InvalidArgument,
                          "axis {0}: the strides need a common multiple of at most {1}", a, kFarthestOffset);
      }
    }
    return llvm::Error::success();
  }

  llvm::Expected<i32> add_convolution(const std::string& name, i32 input, i32 level, const MapSpec& map,
                                      ConvolutionProblem problem) {
    problem.ndim = program_.ndim;
    problem.dtype = program_.dtype;
    problem.in_channels = program_.tensors[input].channels;
    problem.kernel_size = map.kernel_size;
    problem.dilation = map.dilation;
    return add_layer(name, input, level, problem.out_channels, map, problem);
  }

  /// Appends an op and returns the number of its output tensor.
  llvm::Expected<i32> add_layer(const std::string& name, i32 input, i32 level, i32 channels,
                                const MapSpec& map, const OpProblem& problem) {
    if (!names_.insert(name).second) {
      return make_error(StatusCode::InvalidArgument,
                        "two layers are called \"{0}\" and would share their weights: rename one", name);
    }
    ProgramLayer layer(problem);
    layer.name = name;
    layer.map = add_map(map);
    layer.input = input;
    MINUET_TRY(validate(problem));
    for (i32 a = 0; a < program_.ndim; ++a) {
      const i64 step = static_cast<i64>(map.dilation[a]) * program_.levels[map.fine].tensor_stride[a];
      if (step * map.kernel_size[a] > kFarthestOffset) {
        return make_error(StatusCode::InvalidArgument,
                          "the kernel's offsets on axis {0} reach {1} cells; at most {2} are allowed", a,
                          step * map.kernel_size[a], kFarthestOffset);
      }
    }
    layer.output = add_tensor(level, channels);
    program_.layers.push_back(std::move(layer));
    return program_.layers.back().output;
  }

  llvm::Expected<i32> find_skip(const std::string& name) const {
    const auto found = skips_.find(name);
    if (found == skips_.end()) {
      return make_error(StatusCode::InvalidArgument,
                        "no earlier layer saves its output as \"{0}\": correct this name or \"save\"", name);
    }
    return found->second;
  }

  llvm::Error add(const LayerDescription& layer) {
    switch (layer.op) {
      case Op::Block:
        return add_block(layer);
      case Op::Residual:
      case Op::Bottleneck:
        return add_residual(layer);
      case Op::Up:
        return add_up(layer);
      case Op::Concat:
        return add_concat(layer);
      case Op::Head:
        return add_head(layer);
      case Op::MaxPool:
        return add_pooling(layer, Reduction::Max);
      case Op::AveragePool:
        return add_pooling(layer, Reduction::Average);
      case Op::SumPool:
        return add_pooling(layer, Reduction::Sum);
      case Op::GenerativeUp:
        return add_generative_up(layer);
    }
    return llvm::Error::success();
  }

  ConvolutionProblem problem_of(const ConvolutionFields& fields, i32 out_channels) const {
    ConvolutionProblem problem;
    problem.dataflow = dataflow_;
    problem.out_channels = out_channels;
    problem.scale_shift = fields.bias || fields.batch_norm;
    problem.set_activation(fields.activation, fields.slope);
    return problem;
  }

  /// Reserves a prefix of parameter names, for example "a.conv", for one layer. Returns InvalidArgument if
  /// another layer has reserved it.
  llvm::Error claim(const std::string& part) {
    if (parts_.insert(part).second) return llvm::Error::success();
    return make_error(StatusCode::InvalidArgument, "two layers have parameters called \"{0}\": rename one",
                      part + ".*");
  }

  /// Names the parameters of the program's last layer and reserves their prefixes. The prefix of a batch norm
  /// is reserved even if the layer has none, so that no other layer can use it.
  llvm::Error name_parameters(const std::string& convolution, const std::string& batch_norm,
                              const ConvolutionFields& fields, LayerOrigin origin) {
    MINUET_TRY(claim(convolution));
    if (!batch_norm.empty()) MINUET_TRY(claim(batch_norm));
    ProgramLayer& layer = program_.layers.back();
    layer.weight = convolution + ".weight";
    if (fields.bias) layer.bias = convolution + ".bias";
    if (fields.batch_norm) layer.batch_norm = batch_norm;
    layer.batch_norm_epsilon = fields.epsilon;
    layer.is_affine = fields.affine;
    layer.origin = std::move(origin);
    layer.origin.batch_norm = batch_norm;
    return llvm::Error::success();
  }

  llvm::Error name_parameters(const LayerDescription& layer) {
    return name_parameters(layer.name + ".conv", layer.name + ".bn", layer.fields, {layer.name, "", ""});
  }

  /// Adds a convolution whose output has the input's coordinates, or coarser ones if it has a stride.
  llvm::Expected<i32> add_downward(const std::string& name, i32 input, const Window& window,
                                   ConvolutionProblem problem) {
    const i32 fine = level_of(input);
    MINUET_ASSIGN(const i32 coarse, strided_level(fine, window.stride));
    problem.kind = coarse != fine ? ConvolutionKind::Strided : ConvolutionKind::Submanifold;
    problem.stride = window.stride;
    return add_convolution(name, input, coarse, {fine, coarse, window.kernel_size, window.dilation}, problem);
  }

  llvm::Error add_block(const LayerDescription& layer) {
    MINUET_ASSIGN(current_, add_downward(layer.name, current_, window_of(layer),
                                         problem_of(layer.fields, description_.channels[layer.width])));
    return name_parameters(layer);
  }

  /// Adds the convolution of a residual or bottleneck block whose index in part_names() is `part`.
  llvm::Expected<i32> add_part(const LayerDescription& layer, std::size_t part, i32 input,
                               const Window& window, const ConvolutionProblem& problem) {
    const std::string name = part_names(layer.op)[part];
    const bool is_shortcut = part + 1 == layer.parts.size();
    MINUET_ASSIGN(const i32 output, add_downward(layer.name + "." + name, input, window, problem));
    const std::string number = std::to_string(part + 1);
    MINUET_TRY(name_parameters(layer.name + (is_shortcut ? ".shortcut.conv" : ".conv" + number),
                               layer.name + (is_shortcut ? ".shortcut.bn" : ".bn" + number),
                               layer.parts[part], {layer.name, name, ""}));
    return output;
  }

  /// Returns the tensor that a residual or bottleneck block adds to the result of its last convolution. This
  /// is the input if the shapes are equal, otherwise the output of a convolution that this function appends
  /// to the program. If `may_run_with_last` is true, the program's last layer is the first one of the block
  /// and its output has the rows of the input, so its kernel may compute the shortcut too.
  llvm::Expected<i32> add_shortcut(const LayerDescription& layer, i32 input, bool may_run_with_last) {
    const i32 width = description_.channels[layer.width];
    if (program_.tensors[input].channels == width && layer.stride == AxisArray{1, 1, 1, 1}) {
      if (!layer.has_shortcut_fields) return input;
      return make_error(StatusCode::InvalidArgument,
                        "\"shortcut\" has fields, but the block's input has the shape of its result, so the "
                        "shortcut is the input itself: leave \"shortcut\" out");
    }
    const std::size_t part = layer.parts.size() - 1;
    ConvolutionProblem problem = problem_of(layer.parts[part], width);
    const std::size_t last = program_.layers.size() - 1;
    if (may_run_with_last) {
      // One kernel may compute both convolutions, and it scales either both or neither. A scale without a
      // parameter is 1.
      ConvolutionProblem first = *convolution_of(program_.layers[last]);
      first.scale_shift = problem.scale_shift = first.scale_shift || problem.scale_shift;
      first.shortcut = true;
      program_.layers[last].problem = first;
    }
    MINUET_ASSIGN(const i32 output,
                  add_part(layer, part, input, {{1, 1, 1, 1}, layer.stride, {1, 1, 1, 1}}, problem));
    program_.layers.back().is_shortcut = may_run_with_last;
    return output;
  }

  /// Adds the layers of activation(bn2(conv2(activation(bn1(conv1(x))))) + shortcut(x)). A bottleneck has
  /// three convolutions instead of two. The last convolution adds the result of the shortcut, whose layer
  /// comes right before it.
  llvm::Error add_residual(const LayerDescription& layer) {
    const Window whole = window_of(layer), one;
    const Window unstrided{layer.kernel_size, one.stride, layer.dilation};
    const bool is_bottleneck = layer.op == Op::Bottleneck;
    const std::vector<Window> windows =
        is_bottleneck ? std::vector<Window>{one, whole, one} : std::vector<Window>{whole, unstrided};
    const i32 input = current_, width = description_.channels[layer.width];
    const std::size_t last = windows.size() - 1;
    for (std::size_t part = 0; part < last; ++part) {
      const i32 inner = is_bottleneck ? description_.channels[layer.inner_width] : width;
      MINUET_ASSIGN(current_,
                    add_part(layer, part, current_, windows[part], problem_of(layer.parts[part], inner)));
    }
    MINUET_ASSIGN(const i32 shortcut,
                  add_shortcut(layer, input, !is_bottleneck && layer.stride == one.stride));
    ConvolutionProblem problem = problem_of(layer.parts[last], width);
    problem.residual = true;
    // The layer's own activation is applied after the addition.
    problem.set_activation(layer.fields.activation, layer.fields.slope);
    MINUET_ASSIGN(current_, add_part(layer, last, current_, windows[last], problem));
    program_.layers.back().residual = shortcut;
    return llvm::Error::success();
  }

  llvm::Error add_up(const LayerDescription& layer) {
    MINUET_ASSIGN(const i32 skip, find_skip(layer.skip));
    const i32 coarse = level_of(current_), fine = level_of(skip);
    if (coarse == fine) {
      return make_error(StatusCode::InvalidArgument,
                        "\"{0}\" is on the same coordinate set as the layer's input: use the op block",
                        layer.skip);
    }
    for (i32 a = 0; a < program_.ndim; ++a) {
      if (static_cast<i64>(program_.levels[fine].tensor_stride[a]) * layer.stride[a] !=
          program_.levels[coarse].tensor_stride[a]) {
        return make_error(
            StatusCode::InvalidArgument,
            "axis {0}: tensor stride {1} divided by stride {2} is not {3}, the tensor stride of \"{4}\"", a,
            program_.levels[coarse].tensor_stride[a], layer.stride[a], program_.levels[fine].tensor_stride[a],
            layer.skip);
      }
    }
    ConvolutionProblem problem = problem_of(layer.fields, description_.channels[layer.width]);
    problem.kind = ConvolutionKind::Transposed;
    problem.stride = layer.stride;
    MINUET_ASSIGN(current_, add_convolution(layer.name, current_, fine,
                                            {fine, coarse, layer.kernel_size, layer.dilation}, problem));
    return name_parameters(layer);
  }

  void take_window(const LayerDescription& layer, WindowProblem& problem) const {
    problem.ndim = program_.ndim;
    problem.dtype = program_.dtype;
    problem.kernel_size = layer.kernel_size;
    problem.stride = layer.stride;
    problem.dilation = layer.dilation;
  }

  llvm::Error add_pooling(const LayerDescription& layer, Reduction reduction) {
    const i32 fine = level_of(current_), channels = program_.tensors[current_].channels;
    MINUET_ASSIGN(const i32 coarse, strided_level(fine, layer.stride));
    PoolingProblem problem;
    take_window(layer, problem);
    problem.kind = coarse != fine ? ConvolutionKind::Strided : ConvolutionKind::Submanifold;
    problem.channels = channels;
    problem.reduction = reduction;
    MINUET_ASSIGN(current_, add_layer(layer.name, current_, coarse, channels,
                                      {fine, coarse, layer.kernel_size, layer.dilation}, problem));
    return llvm::Error::success();
  }

  /// Always fails, because no kernel creates a finer coordinate set yet. validate() gives the reason.
  llvm::Error add_generative_up(const LayerDescription& layer) {
    ConvolutionProblem problem = problem_of(layer.fields, description_.channels[layer.width]);
    take_window(layer, problem);
    problem.kind = ConvolutionKind::Generative;
    problem.in_channels = program_.tensors[current_].channels;
    return validate(problem);
  }

  /// Concatenates the current tensor and a saved one. Both are placed side by side in one storage, so that
  /// the layers that compute them write in place.
  llvm::Error add_concat(const LayerDescription& layer) {
    MINUET_ASSIGN(const i32 skip, find_skip(layer.skip));
    const TensorSpec first = program_.tensors[current_], second = program_.tensors[skip];
    if (first.level != second.level) {
      return make_error(StatusCode::InvalidArgument,
                        "\"{0}\" and the layer's input must be on the same coordinate set", layer.skip);
    }
    if (skip == current_) {
      return make_error(StatusCode::Unimplemented, "\"{0}\" cannot be concatenated with itself", layer.skip);
    }
    const auto is_part = [&](const TensorSpec& tensor) {
      return program_.storages[tensor.storage].ld != tensor.channels;
    };
    if (is_part(first) || is_part(second) || first.storage == second.storage) {
      return make_error(StatusCode::Unimplemented,
                        "{0} is already part of another concat, and a tensor can be part of only one",
                        is_part(second) ? "\"" + layer.skip + "\"" : "the layer's input");
    }
    // The sum cannot overflow, because each term is at most kMostChannels.
    const i32 channels = first.channels + second.channels;
    if (channels > kMostChannels) {
      return make_error(StatusCode::InvalidArgument,
                        "the concat with \"{0}\" has {1} channels; at most {2} are allowed", layer.skip,
                        channels, kMostChannels);
    }
    program_.storages[first.storage].ld = channels;
    // This storage becomes empty, because the loop below moves all its tensors to the storage of `first`.
    program_.storages[second.storage].ld = 0;
    for (TensorSpec& tensor : program_.tensors) {
      // If the saved tensor is a concatenation itself, its parts are moved too.
      if (tensor.storage != second.storage) continue;
      tensor.storage = first.storage;
      tensor.column += first.channels;
    }
    program_.tensors.push_back({first.level, channels, first.storage, 0});
    current_ = static_cast<i32>(program_.tensors.size()) - 1;
    return llvm::Error::success();
  }

  llvm::Error add_head(const LayerDescription& layer) {
    i32 classes = layer.classes;
    if (classes == 0) {
      MINUET_ASSIGN(classes, head_channels_(layer.name, program_.tensors[current_].channels));
    }
    if (classes == 0) {
      program_.is_head_missing = true;
      return llvm::Error::success();
    }
    MINUET_ASSIGN(current_, add_downward(layer.name, current_, {}, problem_of(layer.fields, classes)));
    return name_parameters(layer.name, "", layer.fields, {layer.name, "", ""});
  }

  /// Sets the row pitch and the first column of the operands of each layer. They are known only after the
  /// last concatenation has been added.
  void assign_columns() {
    for (std::size_t i = 0; i < program_.layers.size(); ++i) {
      ProgramLayer& layer = program_.layers[i];
      OperandColumns columns{columns_of(program_, layer.input), columns_of(program_, layer.output), {}, {}};
      if (layer.residual >= 0) columns.residual = columns_of(program_, layer.residual);
      if (i + 1 < program_.layers.size() && program_.layers[i + 1].is_shortcut) {
        columns.covered_output = columns_of(program_, program_.layers[i + 1].output);
      }
      layer.problem = layer.problem.kind().at_columns(layer.problem, columns);
    }
  }

  /// Finds the first layer that writes each storage and the last layer that reads it. The layer before a
  /// shortcut may already write the shortcut's result.
  void find_lives() {
    const i32 layers = static_cast<i32>(program_.layers.size());
    for (StorageSpec& storage : program_.storages) storage.first = layers, storage.last = -1;
    auto touch = [&](i32 tensor, i32 time) {
      StorageSpec& storage = program_.storages[program_.tensors[tensor].storage];
      storage.first = std::min(storage.first, time);
      storage.last = std::max(storage.last, time);
    };
    touch(program_.inputs[0], -1);
    for (i32 i = 0; i < layers; ++i) {
      const ProgramLayer& layer = program_.layers[i];
      touch(layer.input, i), touch(layer.output, layer.is_shortcut ? i - 1 : i);
      if (layer.residual >= 0) touch(layer.residual, i);
    }
    touch(program_.output, layers);
  }

  /// Stacks the storages in memory, large ones first, each as low as it fits without overlapping storages
  /// that are in use at the same time. A coordinate set is assumed to have a quarter of its parent's rows, as
  /// is typical of surfaces.
  void stack_storages() {
    std::vector<double> rows{1};
    for (std::size_t i = 1; i < program_.levels.size(); ++i) {
      rows.push_back(rows[program_.levels[i].parent] / 4);
    }
    std::vector<StorageSpec>& storages = program_.storages;
    std::vector<double> size, begin(storages.size());
    std::vector<i32> by_size, &stack = program_.stack;
    for (const StorageSpec& storage : storages) {
      const i32 number = static_cast<i32>(size.size());
      size.push_back(rows[storage.level] * storage.ld);
      // A storage that is never in use belonged to a tensor that a concatenation moved.
      if (storage.first <= storage.last) by_size.push_back(number);
    }
    std::stable_sort(by_size.begin(), by_size.end(), [&](i32 a, i32 b) { return size[a] > size[b]; });
    const auto is_lower = [&](i32 a, i32 b) { return begin[a] < begin[b]; };
    const auto meet = [&](i32 a, i32 b) {
      return storages[a].first <= storages[b].last && storages[b].first <= storages[a].last;
    };
    for (const i32 storage : by_size) {
      for (const i32 other : stack) {
        if (!meet(storage, other)) continue;
        if (begin[storage] + size[storage] <= begin[other]) break;
        begin[storage] = std::max(begin[storage], begin[other] + size[other]);
      }
      stack.insert(std::upper_bound(stack.begin(), stack.end(), storage, is_lower), storage);
    }
    for (std::size_t i = 0; i < stack.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (meet(stack[i], stack[j])) storages[stack[i]].below.push_back(stack[j]);
      }
    }
  }

  const NetworkDescription& description_;
  const HeadChannels& head_channels_;
  const std::optional<Dataflow> dataflow_;
  Program program_;
  std::map<std::string, i32> skips_;
  // Holds the names of all layers.
  std::set<std::string> names_;
  // Holds the prefixes of all parameters, for example "a.conv" and "a.bn".
  std::set<std::string> parts_;
  i32 current_ = 0;
};

}  // namespace

llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels, std::optional<Dataflow> dataflow) {
  return ProgramBuilder(description, dtype, head_channels, dataflow).build();
}

}  // namespace minuet
