// A network as its JSON file describes it: a chain of layers with named skips.
//
// runtime/network/networks/README.md describes the format. The two shipped files are built into the library.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/network/convolution_fields.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// One entry of "layers".
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
    Bottleneck
  };
  Op op = Op::Block;
  std::string name;     // prefix of the parameters' names; empty for concat
  i32 width = 0;        // index into the network's channels
  i32 inner_width = 0;  // the same for a bottleneck's first two convolutions
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  i32 classes = 0;   // of a head; 0: as many as the weights file has for it, and no head without a file
  std::string skip;  // up: the skip whose coordinates the output has; concat: the skip to append
  std::string save;  // name under which the result remains available
  ConvolutionFields fields;  // of the layer's convolution; for a residual or a bottleneck, those of the whole
  std::vector<ConvolutionFields> parts;  // for a residual or a bottleneck, one per name of part_names()
  bool has_shortcut_fields = false;      // true if the description has a "shortcut"
};

struct NetworkDescription {
  std::string name;
  i32 ndim = 3;
  i32 in_channels = 4;
  std::vector<i32> channels;
  double batch_norm_epsilon = 1e-5;
  WeightsOrder weights_order = WeightsOrder::Minuet;  // default order of the network's weights files
  std::vector<LayerDescription> layers;
};

/// Returns the value of "op", for example "block" or "max_pool".
const char* op_name(LayerDescription::Op op);

/// Returns the names of the convolutions of a residual or a bottleneck, such as "conv1", "conv2", "shortcut",
/// the shortcut last. Other ops have none.
llvm::ArrayRef<const char*> part_names(LayerDescription::Op op);

/// Parses and checks a JSON description. Errors name the layer and the field.
llvm::Expected<NetworkDescription> parse_network(llvm::StringRef json);

/// Returns the JSON text of a shipped network, or NotFound with the names of those that exist.
llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name);

}  // namespace minuet
