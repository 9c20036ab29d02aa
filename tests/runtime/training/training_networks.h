// Descriptions of small networks that tests of training plans share.
#pragma once

namespace minuet::abi {

/// Two levels, a residual block with a shortcut and one without, and a concat whose skip has other readers.
inline constexpr const char* kUNet = R"({
  "name": "unet", "ndim": 3, "in_channels": 4, "channels": [16, 24, 16],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "skip"},
    {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
    {"op": "residual", "name": "wide", "width": 1},
    {"op": "residual", "name": "same", "width": 1},
    {"op": "up", "name": "up", "width": 2, "kernel_size": 2, "stride": 2, "onto": "skip"},
    {"op": "concat", "with": "skip"},
    {"op": "residual", "name": "joined", "width": 2},
    {"op": "head", "name": "head", "classes": 8}
  ]
})";

/// Poolings, chains, layer norms, two outputs and two inputs.
inline constexpr const char* kChains = R"({
  "name": "chains", "ndim": 3,
  "inputs": [{"name": "a", "channels": 8}, {"name": "b", "channels": 8, "level": "a"}],
  "outputs": ["first", "second"],
  "layers": [
    {"op": "multiply", "with": "b", "save": "product"},
    {"op": "layer_norm", "name": "norm"},
    {"op": "gelu"},
    {"op": "linear", "name": "linear", "out_channels": 16, "activation": "leaky_relu", "slope": 0.25},
    {"op": "batch_norm", "name": "bn", "save": "wide"},
    {"op": "max_pool", "name": "max", "kernel_size": 2, "stride": 2},
    {"op": "scale_shift", "name": "scale"},
    {"op": "tanh"},
    {"op": "unpool", "name": "back", "of": "max"},
    {"op": "add", "with": "wide"},
    {"op": "relu", "save": "sum"},
    {"op": "average_pool", "name": "average", "kernel_size": 3, "stride": 2},
    {"op": "sigmoid"},
    {"op": "upsample", "name": "nearest", "onto": "sum"},
    {"op": "concat", "with": "sum"},
    {"op": "block", "name": "conv", "out_channels": 8, "kernel_size": 3, "norm": "none", "bias": true,
     "activation": "silu", "save": "first"},
    {"op": "add", "with": "product"},
    {"op": "softmax", "save": "second"}
  ]
})";

/// Ops whose results change little if their inputs do.
inline constexpr const char* kSmooth = R"({
  "name": "smooth", "ndim": 3, "in_channels": 8, "channels": [16, 24],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "activation": "silu", "save": "skip"},
    {"op": "block", "name": "down", "width": 1, "kernel_size": 2, "stride": 2, "norm": "none", "bias": true,
     "activation": "silu"},
    {"op": "residual", "name": "coarse", "width": 1, "norm": "none", "activation": "gelu"},
    {"op": "layer_norm", "name": "norm"},
    {"op": "inverse", "name": "back", "of": "down", "width": 0, "norm": "none", "activation": "silu"},
    {"op": "add", "with": "skip"},
    {"op": "scale_shift", "name": "scale"},
    {"op": "average_pool", "name": "average", "kernel_size": 3},
    {"op": "multiply", "with": "skip"},
    {"op": "concat", "with": "skip"},
    {"op": "linear", "name": "end", "out_channels": 8}
  ]
})";

/// Strided blocks as detectors have them, and outputs of two levels, of which one is read on.
inline constexpr const char* kPyramid = R"({
  "name": "pyramid", "ndim": 3, "in_channels": 4, "channels": [16, 32],
  "outputs": ["middle", "last"],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3},
    {"op": "residual", "name": "first", "width": 0},
    {"op": "block", "name": "down1", "width": 1, "kernel_size": 3, "stride": 2},
    {"op": "residual", "name": "second", "width": 1, "save": "middle"},
    {"op": "block", "name": "down2", "width": 1, "kernel_size": [1, 1, 3], "stride": [1, 1, 2], "save": "last"}
  ]
})";

/// A stage whose layers have a common beginning of their names, with a pooling and layers without a name.
inline constexpr const char* kStages = R"({
  "name": "stages", "ndim": 3, "in_channels": 4, "channels": [16, 24],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "skip"},
    {"op": "max_pool", "name": "stage.pool", "kernel_size": 3, "stride": 2},
    {"op": "block", "name": "stage.wider", "width": 1, "kernel_size": 3},
    {"op": "residual", "name": "stage.first", "width": 1},
    {"op": "layer_norm", "name": "stage.norm"},
    {"op": "residual", "name": "stage.second", "width": 1},
    {"op": "gelu"},
    {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "skip"},
    {"op": "concat", "with": "skip"},
    {"op": "linear", "name": "stage2", "out_channels": 8}
  ]
})";

/// Layers with parts that most networks do not have, and tensors with many readers.
/// Blocks whose shortcut comes first and last. All four chains have a batch norm.
inline constexpr const char* kShortcuts = R"({
  "name": "shortcuts", "ndim": 3, "in_channels": 4, "channels": [16, 8],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "x"},
    {"op": "block", "name": "early", "width": 0, "kernel_size": 1, "activation": "none", "save": "early"},
    {"op": "block", "name": "a.first", "width": 0, "kernel_size": 3, "input": "x"},
    {"op": "block", "name": "a.second", "width": 0, "kernel_size": 3, "activation": "none"},
    {"op": "add", "with": "early"},
    {"op": "relu", "save": "y"},
    {"op": "block", "name": "b.first", "width": 1, "kernel_size": 3},
    {"op": "block", "name": "b.second", "width": 1, "kernel_size": 3, "activation": "none", "save": "z"},
    {"op": "block", "name": "late", "width": 1, "kernel_size": 1, "activation": "none", "input": "y"},
    {"op": "add", "with": "z"},
    {"op": "relu"},
    {"op": "block", "name": "end", "width": 1, "kernel_size": 3}
  ]
})";

inline constexpr const char* kUnusual = R"({
  "name": "unusual", "ndim": 3, "in_channels": 4, "channels": [16, 8], "batch_norm_epsilon": 1e-3,
  "layers": [
    {"op": "block", "name": "bias", "width": 0, "kernel_size": 3, "bias": true, "save": "a"},
    {"op": "block", "name": "bare", "width": 0, "kernel_size": 3, "affine": false, "activation": "gelu",
     "save": "b"},
    {"op": "add", "with": "a"},
    {"op": "multiply", "with": "a", "save": "c"},
    {"op": "bottleneck", "name": "neck", "width": 0, "inner_channels": 8, "activation": "silu", "save": "d"},
    {"op": "concat", "with": "c"},
    {"op": "block", "name": "joined", "width": 0, "kernel_size": 1, "save": "e"},
    {"op": "block", "name": "down", "width": 0, "kernel_size": 3, "stride": 2, "norm": "none"},
    {"op": "sum_pool", "name": "sums", "kernel_size": 3},
    {"op": "layer_norm", "name": "plain", "affine": false},
    {"op": "inverse", "name": "back", "of": "down", "width": 0},
    {"op": "add", "with": "b"},
    {"op": "add", "with": "e"},
    {"op": "add", "with": "d"},
    {"op": "concat", "with": "a"},
    {"op": "residual", "name": "end", "width": 1, "norm": "none", "bias": true, "activation": "leaky_relu"}
  ]
})";

}  // namespace minuet::abi
