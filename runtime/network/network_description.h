// A network as its JSON file describes it: a chain of layers with named skips.
//
// The format is in runtime/network/networks/README.md; the two shipped files are built into the library.
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
  std::string name;     // parameter prefix (none for concat)
  i32 width = 0;        // index into the network's channels
  i32 inner_width = 0;  // the same, of a bottleneck's first two convolutions
  AxisArray kernel_size{1, 1, 1, 1};
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  i32 classes = 0;           // head: its outputs; 0: as many as the weights file's, and none without a file
  std::string skip;          // up: the skip whose coordinates it goes back onto; concat: the one it takes
  std::string save;          // name under which the result stays available
  ConvolutionFields fields;  // of the layer's convolution; the activation of a residual or a bottleneck
  std::vector<ConvolutionFields> parts;  // of a residual or a bottleneck: one for each of part_names()
  bool has_shortcut_fields = false;      // the description has a "shortcut"
};

struct NetworkDescription {
  std::string name;
  i32 ndim = 3;
  i32 in_channels = 4;
  std::vector<i32> channels;
  double batch_norm_epsilon = 1e-5;
  WeightsOrder weights_order = WeightsOrder::Minuet;  // of the files that were trained for it
  std::vector<LayerDescription> layers;
};

/// What "op" says: "block", "max_pool".
const char* op_name(LayerDescription::Op op);

/// The convolutions of a residual or a bottleneck, the shortcut last: "conv1", "conv2", "shortcut". Other ops
/// have none.
llvm::ArrayRef<const char*> part_names(LayerDescription::Op op);

/// Parses and checks JSON text; an error names the layer and the field.
llvm::Expected<NetworkDescription> parse_network(llvm::StringRef json);

/// Text of a shipped network, or NotFound with the names there are.
llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name);

}  // namespace minuet
