// What the caller asks: the types of ops, each with everything that decides its kernels.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "codegen/base/error.h"
#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

using AxisArray = std::array<i32, kMaxDim>;

inline constexpr i32 kMostChannels = 1 << 16;
inline constexpr i64 kMostOffsets = 1 << 20;  // of a kernel
inline constexpr i32 kMostCells = 1 << 24;  // of a kernel, a stride, a dilation: products stay inside 64 bits
inline constexpr i64 kFarthestOffset = 1 << 28;  // keeps every step and offset inside 32 bits

/// How a convolution's output coordinates follow from its input coordinates.
enum class ConvolutionKind : i32 {
  Submanifold,   // the input set itself; stride 1
  Strided,       // unique floor(p / (s t)) * (s t)
  GivenOutputs,  // a set that the caller gives
  Transposed,    // the map of the matching forward convolution with input and output swapped
  Generative,    // the same onto every coordinate that an input reaches
};

/// A column range of a row-major matrix: rows are `ld` elements apart, the range starts at `column`.
struct Columns {
  i32 ld = 0;
  i32 column = 0;
};

/// What ops over a kernel map have in common.
struct WindowProblem {
  i32 ndim = 3;
  DType dtype = DType::F16;           // storage of features and weights; accumulation is fp32
  AxisArray kernel_size{1, 1, 1, 1};  // axes past ndim stay 1
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
};

struct ConvolutionProblem : WindowProblem {
  ConvolutionKind kind = ConvolutionKind::Submanifold;
  i32 in_channels = 0;
  i32 out_channels = 0;
  i32 groups = 1;
  Columns input, output, residual_input;
  bool scale_shift = false;  // per output channel, fp32: batch norm or bias
  bool residual = false;     // added after scale and shift
  // Of a residual block's first layer: a kernel may compute the block's 1x1 shortcut too, which has the same
  // input, channels and scale_shift, and no activation.
  bool shortcut = false;
  Columns shortcut_output;
  Activation activation = Activation::None;
  float slope = 0;  // of a leaky ReLU
  /// Sets both. A leaky ReLU of slope 0 is a ReLU, which makes 0 of minus infinity too, where the product
  /// would be NaN.
  void set_activation(Activation wanted, float wanted_slope) {
    const bool is_leaky = wanted == Activation::LeakyReLU && wanted_slope != 0;
    activation = is_leaky || wanted == Activation::None ? wanted : Activation::ReLU;
    slope = is_leaky ? wanted_slope : 0;
  }
};

/// What a pooling makes, per channel, of the inputs that its kernel map leads to one output.
enum class Reduction : i32 { Max, Average, Sum };

struct PoolingProblem : WindowProblem {
  i32 channels = 0;
  Reduction reduction = Reduction::Max;
};

/// By what a loss is differentiated through a convolution.
enum class Gradient : i32 { Input, Weight };

struct ConvolutionGradientProblem {
  Gradient gradient = Gradient::Input;
  ConvolutionProblem forward;
};

/// One op of a program, of a closed list of types.
using OpProblem = std::variant<ConvolutionProblem, PoolingProblem, ConvolutionGradientProblem>;

/// Invalid sizes, impossible combinations and what is not built yet, each with its reason. So far every op
/// but the convolution is of the last kind.
llvm::Error validate(const ConvolutionProblem& problem);
llvm::Error validate(const PoolingProblem& problem);
llvm::Error validate(const ConvolutionGradientProblem& problem);
llvm::Error validate(const OpProblem& problem);

/// Number of offsets.
i64 kernel_volume(const WindowProblem& problem);

/// Offsets of a kernel on a grid whose finer side has this tensor stride.
KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride);

/// The offset that is zero on every axis.
i32 center_offset(const KernelGeometry& geometry);

/// In a map of a set onto itself the centre covers every row, so its GEMM reads the features in place, unless
/// operands are rounded, which the gather does.
inline bool reads_center_in_place(bool onto_itself, DType dtype) {
  return onto_itself && !rounds_operands(dtype);
}

/// The offset whose GEMM reads in place, or -1.
i32 direct_offset(bool onto_itself, DType dtype, const KernelGeometry& geometry);

}  // namespace minuet
