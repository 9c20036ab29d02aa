// Represents a network as its JSON file describes it. The description is a graph of layers, whose results
// have names where other layers read them. A chain needs no names.
//
// runtime/network/networks/README.md describes the format. The shipped files are built into the library
// (shipped_network.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "kernels_templates/shared/point_functions.h"
#include "kernels_templates/shared/pool_kernels.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/network/convolution_fields.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Describes the dense tensor that the ops to_dense and birds_eye make.
struct DenseFields {
  // The field "format" is "channels_last" if the flag is true, and "channels_first" if it is false.
  bool channels_last = false;
  // Holds the field "image_axes" of birds_eye, which names the level's axes that become the two axes of the
  // image. It is empty for to_dense.
  std::vector<i32> image_axes = {};
};

/// Describes how the op voxelize makes voxels of points, and how devoxelize gives features back to points.
struct PointFields {
  PointGrid grid = {};
  PointReduction reduction = PointReduction::Mean;
  PointBlend blend = PointBlend::Nearest;
  // The features of a point are `channels` of its columns from `first_column` on. If `channels` is 0, they
  // are all columns from there on.
  i32 first_column = 0, channels = 0;
  // Limit the points of a voxel and the voxels. 0 means no limit.
  i64 most_points_per_voxel = 0, most_voxels = 0;
};

/// Describes which rows the ops prune and subdivide keep.
struct KeptFields {
  // Rows whose score is above this number are kept, unless `best` is above 0.
  float threshold = 0;
  // Holds the field "top_k", the number of rows of each batch item that are kept, or 0.
  i32 best = 0;
  // Says whether "by" names a mask. The rows whose byte is not 0 are then kept, without a threshold or top_k.
  bool by_mask = false;
  // The field "features" of subdivide is "channel_to_space" if the flag is true, and "copy" if it is false.
  bool divides_channels = false;
};

/// Holds, for each field that may have one number per axis, how many numbers its array has, or 0 if the field
/// is a single number for all axes.
struct AxisCounts {
  i32 kernel_size = 0, stride = 0, dilation = 0, padding = 0, output_padding = 0;
  i32 offsets = 0;  // Counts the numbers of each offset of a list.
};

/// Represents one element of the array "layers" of a network's description.
struct LayerDescription {
  // The table of entries in network_ops.cc has the same order.
  enum class Op {
    Block,
    Residual,
    Up,
    Concat,
    Head,
    MaxPool,
    AveragePool,
    SumPool,
    GenerativeUp,
    Bottleneck,
    Inverse,
    ToDense,
    BirdsEye,
    FromDense,
    Linear,
    Unpool,
    Upsample,
    Collapse,
    Union,
    GlobalPool,
    Relu,
    LeakyRelu,
    Gelu,
    Silu,
    Sigmoid,
    Tanh,
    Add,
    Multiply,
    Softmax,
    Argmax,
    BatchNorm,
    ScaleShift,
    LayerNorm,
    Intersection,
    Voxelize,
    Devoxelize,
    Prune,
    Subdivide,
    SpaceToChannel,
    ChannelToSpace
  };
  Op op = Op::Block;
  // Holds the prefix of the parameters' names. It is empty for a concat.
  std::string name;
  // Names the input of the network, or the result of an earlier layer, that the layer reads. If it is empty,
  // the layer reads the result of the layer before.
  std::string input;
  // Holds the index in NetworkDescription::channels of the layer's number of output channels.
  i32 width = 0;
  // Holds the layer's number of output channels, or 0 if `width` determines it.
  i32 out_channels = 0;
  // Describe the number of output channels of the first two convolutions of a bottleneck, as `width` and
  // `out_channels` describe that of the layer.
  i32 inner_width = 0, inner_channels = 0;
  // Names the offsets of the kernel. GraphBuilder replaces those of a cross by a list.
  KernelShape kernel_shape = KernelShape::Box;
  // Holds the field "offsets", which only a custom kernel has.
  OffsetList offsets;
  // These arrays, `offsets`, `padding` and `output_padding` have a number for each axis that the level of the
  // layer's input has. While GraphBuilder builds the layer, they have a number for each axis of the network.
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  // The field "rule" is "reached" if the flag is true, and "cells" if it is false.
  bool is_reached = false;
  AxisArray padding{};
  // Holds the cells by which a generative_up with the rule "reached" extends the shape of its outputs.
  AxisArray output_padding{};
  AxisCounts counts;
  // Holds the number of channels of a head. If it is 0, the weights file determines the number, and without a
  // weights file the head is omitted.
  i32 classes = 0;
  // Names the saved result of an earlier layer, or an input. The ops `up`, `upsample` and `channel_to_space`
  // give their output the coordinates of this result, `concat` appends it, and `add`, `multiply`, `union` and
  // `intersection` combine it with the layer's input. `prune` and `subdivide` read their scores from it. In
  // an `inverse` and an `unpool`, it is the name of a layer.
  std::string skip;
  // Holds the name under which later layers can read this layer's result. It is empty if the result has no
  // name.
  std::string save;
  // Holds the fields of the ops to_dense and birds_eye.
  DenseFields dense;
  // Holds the fields of the ops voxelize and devoxelize.
  PointFields points;
  // Holds the fields of the ops prune and subdivide.
  KeptFields kept;
  // The flag is true if a from_dense makes a new level of the cells that are not 0.
  bool makes_level = false;
  // Holds the field "axis" of a collapse.
  i32 axis = 0;
  // The field "combine" of a union or an intersection is "concat" if the flag is true, and "add" if it is
  // false.
  bool concatenates = false;
  // Holds the field "reduction" of an unpool or a global_pool.
  Reduction reduction = Reduction::Average;
  // The field "approximate" of a gelu is "tanh" if the flag is true, and "none" if it is false.
  bool approximates_gelu = false;
  // Holds the fields of the layer's convolution, the slope of a leaky_relu, or the epsilon and affine of a
  // batch_norm or layer_norm. In a residual or a bottleneck, they are the defaults of all its convolutions.
  ConvolutionFields fields;
  // Holds one element for each name of part_names(), so it is empty for most ops.
  std::vector<ConvolutionFields> parts;
  // The flag is true if the layer's description has an object "shortcut".
  bool has_shortcut_fields = false;
};

/// Represents one element of the array "inputs" of a network's description.
struct InputDescription {
  std::string name;
  i32 channels = 0;
  // Names the result or input that has the coordinates of this input. It is empty for the first input, whose
  // coordinates the caller gives.
  std::string level;
  // Says whether the field "type" is "mask". The input then has bytes, which only prune and subdivide read.
  bool is_mask = false;
};

/// Holds the names of the input and the output of a network whose description does not name them.
inline constexpr const char* kUsualInput = "input";
inline constexpr const char* kUsualOutput = "output";
/// Begins the name of an output that is the result of a convolution. The name of the convolution follows.
inline constexpr const char* kLayerOutput = "layer:";
/// Hold the names of the inputs that a network which takes points has behind those of its description.
inline constexpr const char* kBatchInput = "batch";
inline constexpr const char* kCountInput = "count";

struct NetworkDescription {
  std::string name;
  i32 ndim = 3;
  // Holds at least one input.
  std::vector<InputDescription> inputs;
  // The flag is true if the description has the array "inputs", and false if it has "in_channels".
  bool has_inputs = false;
  // Holds the names of results. If it is empty, the output is the result of the last layer.
  std::vector<std::string> outputs;
  // Holds the number of cells of the input's coordinates on each axis. It is 0 on each axis if the
  // description has no shape.
  AxisArray shape{};
  // May be empty if each layer gives its number of channels itself.
  std::vector<i32> channels;
  double batch_norm_epsilon = 1e-5;
  // Holds the order in which weights files of this network store weights, unless an option names another
  // order.
  WeightsOrder weights_order = WeightsOrder::Minuet;
  std::vector<LayerDescription> layers;
  // Holds the JSON text of which parse_network() made the description.
  std::string json;

  /// Returns true if the first layer makes voxels of the points that a run takes.
  bool takes_points() const { return layers.front().op == LayerDescription::Op::Voxelize; }
  /// Returns the number of output channels of a layer.
  i32 width_of(const LayerDescription& layer) const {
    return layer.out_channels != 0 ? layer.out_channels : channels[layer.width];
  }
  i32 inner_width_of(const LayerDescription& layer) const {
    return layer.inner_channels != 0 ? layer.inner_channels : channels[layer.inner_width];
  }
};

/// Returns the value of the field "op", for example "block" or "max_pool".
const char* op_name(LayerDescription::Op op);

/// Returns the names of the convolutions of a residual or a bottleneck, for example "conv1", "conv2" and
/// "shortcut". The shortcut comes last. The list is empty for other ops.
llvm::ArrayRef<const char*> part_names(LayerDescription::Op op);

/// Parses and checks a JSON description. Errors name the place, for example "layers[3].kernel_size".
llvm::Expected<NetworkDescription> parse_network(llvm::StringRef json);

/// Returns a description as JSON, in one form for all texts that describe the same network. parse_network()
/// makes the same description of it. `head_channels` has the number of channels of each head whose
/// description does not give it, or 0 if that head is omitted. The printed description then has the number.
std::string print_network(const NetworkDescription& network,
                          const std::map<std::string, i32>& head_channels = {});

}  // namespace minuet
