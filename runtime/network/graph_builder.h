// Builds a program from the layers of a network's description. The files of ops/ use it to add their ops.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/network/description_place.h"
#include "runtime/network/network_program.h"

namespace minuet {

/// Describes the part of the input that an op reads for each output.
struct Window {
  AxisArray kernel_size{1, 1, 1, 1}, stride{1, 1, 1, 1}, dilation{1, 1, 1, 1};
  // Holds the padding of an op whose outputs are all coordinates that an input reaches. It is empty if the
  // outputs are the coordinates of the inputs, rounded down to multiples of the stride.
  std::optional<AxisArray> padding = std::nullopt;
  // Holds the offsets of a kernel that is not a box (WindowProblem::offsets).
  OffsetList offsets = {};
  // Bit a is set if the level of the outputs lacks axis a, on which all inputs lie in one cell.
  u32 dropped_axes = 0;
};

inline constexpr AxisArray kUnitStride{1, 1, 1, 1};

Window window_of(const LayerDescription& layer);

/// Remembers the kernel map of a block or a pooling for a later `inverse` or `unpool`.
struct WindowRecord {
  MapSpec map;
  AxisArray stride{1, 1, 1, 1};
};

/// Builds a program layer by layer. Errors have the place of the field within the layer's description.
class GraphBuilder {
 public:
  GraphBuilder(const NetworkDescription& description, DType dtype, const HeadChannels& head_channels,
               std::optional<Dataflow> dataflow);

  llvm::Expected<Program> build(bool covers_chains);

  /// Returns why build() has failed if the precisions of the description are at fault.
  const std::optional<PrecisionFault>& precision_fault() const { return fault_; }

  // The following functions are for the ops.

  const NetworkDescription& description() const { return description_; }
  Program& program() { return program_; }
  const TensorSpec& tensor(i32 number) const { return program_.tensors[number]; }
  i32 level_of(i32 tensor) const { return program_.tensors[tensor].level; }

  /// Returns the tensor that the layer reads.
  i32 current() const { return current_; }
  /// Sets the tensor that the layer's result is. A layer without a result of its own leaves current().
  void set_result(i32 tensor) { current_ = tensor; }
  /// Returns the tensor of an input or of the result of an earlier layer. `field` has the name. Only the
  /// field "input" may name a dense tensor.
  llvm::Expected<i32> find_result(const std::string& name, llvm::StringRef field);

  /// Returns the tensor of an input or result on the level of current(). The field "with" has its name.
  llvm::Expected<i32> find_partner(const std::string& name);
  /// Returns true if the tensor has a name, by which other layers may read it and outputs may give it.
  bool is_named(i32 tensor) const;

  /// Adds a tensor with a storage of its own.
  i32 add_tensor(i32 level, i32 channels);
  /// Returns the coordinate set (LevelSpec) of the outputs of an op over `level`, and adds it to the program
  /// if it is missing. The result is `level` itself if each stride is 1 and the window has no padding and
  /// drops no axis.
  llvm::Expected<i32> level_below(i32 level, const Window& window);
  /// Returns the coordinate set (LevelSpec) of the outputs of a generative op over `level`, and adds it to
  /// the program if it is missing. `output_padding` extends its shape, which it has if the window has
  /// padding.
  llvm::Expected<i32> level_above(i32 level, const Window& window, const AxisArray& output_padding);
  /// Returns the coordinate set (LevelSpec) that has the coordinates of two levels, or only those that are in
  /// both, and adds it to the program if it is missing. Both have the same axes. The result is `first` if
  /// both are the same level.
  llvm::Expected<i32> combination_of(i32 first, i32 second, bool is_intersection);
  /// Returns the level that has a row for each batch item of `level`, and adds it to the program if it is
  /// missing.
  llvm::Expected<i32> level_of_items(i32 level);
  /// Reserves the name of a layer. Returns InvalidArgument if another layer has it.
  llvm::Error take_name(const std::string& name);
  /// Appends an op that reads no kernel map, reserves its name, and returns the number of its output tensor.
  llvm::Expected<i32> add_mapless(const std::string& name, i32 input, i32 level, i32 channels,
                                  const OpProblem& problem);
  /// Appends an op that reads a kernel map, reserves its name, and returns the number of its output tensor.
  llvm::Expected<i32> add_layer(const std::string& name, i32 input, i32 level, i32 channels,
                                const MapSpec& map, const OpProblem& problem);
  llvm::Expected<i32> add_convolution(const std::string& name, i32 input, i32 level, const MapSpec& map,
                                      ConvolutionProblem problem);
  /// Adds a convolution whose output is on level_below().
  llvm::Expected<i32> add_downward(const std::string& name, i32 input, const Window& window,
                                   ConvolutionProblem problem);
  ConvolutionProblem problem_of(const ConvolutionFields& fields, i32 out_channels) const;

  /// Reserves a prefix of parameter names, for example "a.conv", for one layer. Returns InvalidArgument if
  /// another layer has reserved it.
  llvm::Error claim(const std::string& part);
  /// Names the parameters of the program's last layer and reserves their prefixes. The prefix of a batch norm
  /// is reserved even if the layer has none, so that no other layer can use it.
  llvm::Error name_parameters(const std::string& convolution, const std::string& batch_norm,
                              const ConvolutionFields& fields, LayerOrigin origin);
  /// Names them NAME.conv and NAME.bn.
  llvm::Error name_parameters(const LayerDescription& layer);

  /// Returns the number of channels of a head whose description does not give it, or 0 to omit the head.
  llvm::Expected<i32> head_channels(const LayerDescription& layer) const;

  /// Lets later layers lead back from the program's last layer (find_window()).
  void record_window(const std::string& layer);
  /// Returns the record of the layer, or null if there is none. `is_layer` says whether an earlier layer has
  /// the name.
  const WindowRecord* find_window(const std::string& layer, bool& is_layer) const;
  /// Returns the record of an earlier layer whose map the current layer reads backwards. Returns an error if
  /// the current tensor is not on the level of that layer's result. `op` is the name of the current layer's
  /// op, for messages.
  llvm::Expected<WindowRecord> find_way_back(const std::string& layer, llvm::StringRef op) const;

 private:
  llvm::Error add_input(std::size_t number, i32 level);
  void add_point_inputs();
  llvm::Error add_inputs_on(const std::string& name, i32 level);
  llvm::Error check_inputs() const;
  llvm::Error add(const LayerDescription& layer);
  llvm::Expected<LayerDescription> on_axes_of_input(const LayerDescription& layer) const;
  void move_items_last();
  llvm::Error save(const LayerDescription& layer);
  llvm::Error check_is_of_stage(i32 tensor, const std::string& name, llvm::StringRef field) const;
  llvm::Error check_is_features(i32 tensor, llvm::StringRef field) const;
  i32 find_or_add_level(const LevelSpec& level);
  llvm::Error add_outputs();
  const ProgramLayer* find_observed(llvm::StringRef output) const;
  const ProgramLayer* find_convolution(const std::string& name) const;
  void add_layer_outputs();
  llvm::Error assign_types();
  llvm::Error add_output(const std::string& name, i32 tensor);
  i32 add_map(const MapSpec& map);
  llvm::Error widen_period(const AxisArray& tensor_stride);
  llvm::Error check_reach(const MapSpec& map) const;

  const NetworkDescription& description_;
  const HeadChannels& head_channels_;
  const std::optional<Dataflow> dataflow_;
  Program program_;
  // Holds the tensors of all inputs that are on a known level, and of all results that have a name.
  std::map<std::string, i32> results_;
  // Holds the tensors that a layer reads, or of which it takes the level.
  std::set<i32> read_;
  // Holds the names of all layers of the program, and of the unions.
  std::set<std::string> names_;
  // Holds the names of all layers of the description so far.
  std::set<std::string> layers_;
  std::map<std::string, WindowRecord> windows_;
  // Holds, for the name of each layer of the program, the place and the subject of its description.
  std::map<std::string, std::pair<std::string, std::string>> places_;
  // Holds the prefixes of all parameters, for example "a.conv" and "a.bn".
  std::set<std::string> parts_;
  // The flag is true if a layer has the name of the input, which the description does not name.
  bool is_usual_input_replaced_ = false;
  i32 current_ = 0;
  std::optional<PrecisionFault> fault_;
};

}  // namespace minuet
