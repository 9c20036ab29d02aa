// Represents a network as its JSON file describes it. The description is a chain of layers with named skips.
//
// runtime/network/networks/README.md describes the format. The two shipped files are built into the library.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/network/convolution_fields.h"
#include "runtime/network/ops/dense.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Represents one element of the array "layers" of a network's description.
struct LayerDescription {
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
    ToDense,
    BirdsEye,
    FromDense
  };
  Op op = Op::Block;
  // Holds the prefix of the parameters' names. It is empty for a concat.
  std::string name;
  // Holds the index in NetworkDescription::channels of the layer's number of output channels.
  i32 width = 0;
  // Holds the index in NetworkDescription::channels of the number of output channels of the first two
  // convolutions of a bottleneck.
  i32 inner_width = 0;
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  // Holds the number of channels of a head. If it is 0, the weights file determines the number, and without a
  // weights file the head is omitted.
  i32 classes = 0;
  // Names the saved result of an earlier layer. The op `up` gives its output the coordinates of this result,
  // and `concat` appends this result.
  std::string skip;
  // Holds the name under which later layers can read this layer's result. It is empty if the result is not
  // saved.
  std::string save;
  // Names the saved dense tensor that the op from_dense reads. It is empty if that is the result of the layer
  // before.
  std::string input;
  // Holds the fields of the ops to_dense and birds_eye.
  DenseFields dense;
  // Holds the fields of the layer's convolution. In a residual or a bottleneck, they are the defaults of all
  // its convolutions.
  ConvolutionFields fields;
  // Holds one element for each name of part_names(), so it is empty for most ops.
  std::vector<ConvolutionFields> parts;
  // The flag is true if the layer's description has an object "shortcut".
  bool has_shortcut_fields = false;
};

struct NetworkDescription {
  std::string name;
  i32 ndim = 3;
  i32 in_channels = 4;
  // Holds the number of cells that the input's coordinates may have on each axis, or zeros.
  AxisArray shape{};
  std::vector<i32> channels;
  double batch_norm_epsilon = 1e-5;
  // Holds the order in which weights files of this network store weights, unless an option names another
  // order.
  WeightsOrder weights_order = WeightsOrder::Minuet;
  std::vector<LayerDescription> layers;
  // Holds the JSON text of which parse_network() made the description.
  std::string json;
};

/// Returns the value of the field "op", for example "block" or "max_pool".
const char* op_name(LayerDescription::Op op);

/// Returns the names of the convolutions of a residual or a bottleneck, for example "conv1", "conv2" and
/// "shortcut". The shortcut comes last. The list is empty for other ops.
llvm::ArrayRef<const char*> part_names(LayerDescription::Op op);

/// Parses and checks a JSON description. Errors name the layer and the field.
llvm::Expected<NetworkDescription> parse_network(llvm::StringRef json);

/// Returns the JSON text of a shipped network, or NotFound with the names of those that exist.
llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name);

}  // namespace minuet
