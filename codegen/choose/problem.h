// Describes an op as the caller asks for it, limited to the parts that all kinds of ops share. Each kind has
// a problem struct of its own in codegen/choose/ops.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "codegen/base/any_of.h"
#include "codegen/base/error.h"
#include "codegen/choose/offset_list.h"
#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Holds the names of the values of Activation in messages and descriptions.
inline constexpr const char* kActivationNames[] = {"none",      "relu", "leaky_relu", "gelu",
                                                   "gelu_tanh", "silu", "sigmoid",    "tanh"};
static_assert(std::size(kActivationNames) == kActivations);

inline constexpr i32 kMostChannels = 1 << 16;
inline constexpr i64 kMostOffsets = 1 << 20;  // A kernel has at most this many offsets.
/// Limits sizes, strides and dilations, so that their products fit into 64 bits.
inline constexpr i32 kMostCells = 1 << 24;
/// Limits coordinate offsets and common multiples of strides, so that they fit into 32 bits.
inline constexpr i64 kFarthestOffset = 1 << 28;

/// Names how the output coordinates of an op over a kernel map follow from its input coordinates.
enum class ConvolutionKind : i32 {
  Submanifold,  // The output set equals the input set, and the stride is 1.
  /// The output set has the unique coordinates floor(p / (s t)) * (s t) for inputs p, stride s and tensor
  /// stride t.
  Strided,
  GivenOutputs,  // The caller gives the output set.
  /// The op uses the map of the matching forward convolution with input and output swapped. Whether its
  /// output set is given or has every coordinate that an input reaches does not follow from the kind. The
  /// level of its outputs says it (LevelSpec::reach).
  Transposed,
};

/// Describes a column range of a row-major matrix. Rows are `ld` elements apart, and the range starts at
/// `column`.
struct Columns {
  i32 ld = 0;
  i32 column = 0;
};

/// Holds the properties that all ops over a kernel map share.
struct WindowProblem {
  i32 ndim = 3;
  DType dtype = DType::F16;           // Features and weights are stored in this type, and sums are in fp32.
  AxisArray kernel_size{1, 1, 1, 1};  // Axes from ndim on have size 1.
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  /// Holds the cells of padding on each axis if the offsets are those of a dense convolution: offset k of an
  /// axis is k * dilation - padding, in steps of the tensor stride. It is empty if the kernel is centred.
  /// Whether a strided op has all outputs that an input reaches, or those of ConvolutionKind::Strided, does
  /// not follow from the padding. The level of its outputs says it (LevelSpec::reach). A transposed op has
  /// the padding of the op whose map it reads.
  std::optional<AxisArray> padding;
  /// Holds the offsets of the kernel if they are not those of a box. The kernel size and the dilation are
  /// then 1, and there is no padding.
  OffsetList offsets;
  ConvolutionKind kind = ConvolutionKind::Submanifold;

  bool is_transposed() const { return kind == ConvolutionKind::Transposed; }
};

/// Makes the offsets of a problem or of a map begin at 0 on each axis, so that they cover a cell of the
/// coarser level.
template <class Window>
void begin_at_zero(Window& window) {
  // A padding of 0 makes offsets begin at 0. Kernel sizes 1 and 2 begin there without one, and then the map
  // may be that of an ordinary pooling.
  for (const i32 size : window.kernel_size) {
    if (size > 2) window.padding = AxisArray{};
  }
}

/// Returns the kind of an op that reads the map of `forward` with input and output swapped, as the gradient
/// of the input does.
ConvolutionKind swapped_kind(const WindowProblem& forward);

/// Returns true if the kernel is a box of which each offset has an opposite one.
bool has_symmetric_offsets(const WindowProblem& problem);

/// Returns InvalidArgument for sizes that no op over a kernel map can have.
llvm::Error check_window(const WindowProblem& problem, i32 in_channels, i32 out_channels);

/// Returns the number of offsets of the kernel, or kMostOffsets + 1 if there are more than kMostOffsets.
i64 kernel_volume(const WindowProblem& problem);
/// Returns the number of weights on each axis of the kernel. The offsets of a list are on the first axis.
AxisArray taps_of(const WindowProblem& problem);

/// Returns the geometry of a kernel. `tensor_stride` is that of the finer side (input or output) of the
/// kernel map. `padding` and `offsets` are those of WindowProblem. If there are offsets, the geometry has
/// their number as its volume, and the tensor stride as its steps, but not the offsets themselves.
KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride,
                             const std::optional<AxisArray>& padding = std::nullopt,
                             const OffsetList& offsets = {});

/// Returns the number of the offset that is zero on every axis, or -1 if `offsets` (WindowProblem) has none.
i32 center_offset(const KernelGeometry& geometry, const OffsetList& offsets);

/// Describes where the columns of an op's operands are within the matrices of a program (StorageSpec).
struct OperandColumns {
  Columns input, output, residual;
  Columns covered_output;  // Describes the output of the next op, if this op's kernel may compute it too.
  std::vector<Columns> operands = {};  // Describes the further inputs (OperandShape::operands).
};

/// An op has at most this many further inputs (OperandShape::operands).
inline constexpr i32 kMostOperands = 8;

/// Describes the rows that an op reads and writes.
struct OperandShape {
  i32 in_channels = 0, out_channels = 0;
  bool has_residual = false;  // The residual has out_channels columns.
  bool has_weight = false;
  bool has_winners = false;  // The op's second output has out_channels columns of row numbers (i32).
  // The op's second input has the rows of the first one, and out_channels columns of row numbers (i32).
  bool reads_winners = false;
  // The op computes a gradient, which would have to add those of duplicates that a set of its map dropped.
  bool refuses_duplicates = false;
  // The flag is true if the output holds i32 numbers (StorageSpec::holds_integers).
  bool gives_integers = false;
  // Lists the numbers of the steps of a chain that have a scale and a shift.
  std::vector<i32> affine_steps = {};
  i32 operands = 0;  // Counts the further inputs, which have in_channels columns and the rows of the output.
};

/// Names the form in which a way to run an op (Candidate) reads the kernel map of the op. A transposed op
/// reads the map with input and output swapped.
enum class ViewForm : i32 {
  None,   // The op reads no kernel map.
  Pairs,  // The op reads the pairs of input and output row of each offset, whose counts are on the host.
  Rows,   // The op reads, for each output row and kernel offset, the input row or -1.
  /// The op reads the same as with Rows, and for each output row a bit mask of the offsets at which that row
  /// has an input row. The output rows are in the order of the plan's OrderChoice.
  Masked,
};

struct OpKind;
/// Holds the problem struct of one op, for example a ConvolutionProblem.
using OpProblem = AnyOf<OpKind>;
struct Candidate;
struct CandidateOptions;

/// Holds the functions of codegen/choose for one kind of op. Each kind has a file pair in codegen/choose/ops.
struct OpKind {
  const char* name;  // The name appears in messages, for example "convolution".
  /// Returns the form in which candidates for an architecture read a kernel map whose counts only the device
  /// knows. The pointer is null if maps cannot be made for such ops before the ops are known (Pyramid).
  ViewForm (*form_within_capacities)(llvm::StringRef arch);
  /// Returns an error with the reason if the problem has an invalid size, an impossible combination of
  /// fields, or a feature that is not implemented.
  llvm::Error (*validate)(const OpProblem& problem);
  /// Returns the candidates of a valid problem, as choose_candidates() does.
  llvm::Expected<std::vector<Candidate>> (*candidates)(const OpProblem& problem,
                                                       const CandidateOptions& options);
  /// Returns the part of the problem that describes its kernel map, or null if the op reads none.
  const WindowProblem* (*window)(const OpProblem& problem);
  OperandShape (*shape)(const OpProblem& problem);
  /// Returns a copy of the problem whose operands are at these columns.
  OpProblem (*at_columns)(const OpProblem& problem, const OperandColumns& columns);
};

/// Returns the OpKind of problems of type `Problem`, for which the functions validate(), candidates(),
/// window(), shape() and at_columns() must have overloads.
template <class Problem>
constexpr OpKind make_op_kind(const char* name,
                              ViewForm (*form_within_capacities)(llvm::StringRef) = nullptr) {
  return {name,
          form_within_capacities,
          [](const OpProblem& problem) { return validate(problem.get<Problem>()); },
          [](const OpProblem& problem, const CandidateOptions& options) {
            return candidates(problem.get<Problem>(), options);
          },
          [](const OpProblem& problem) { return window(problem.get<Problem>()); },
          [](const OpProblem& problem) { return shape(problem.get<Problem>()); },
          [](const OpProblem& problem, const OperandColumns& columns) {
            return OpProblem(at_columns(problem.get<Problem>(), columns));
          }};
}

inline llvm::Error validate(const OpProblem& problem) { return problem.kind().validate(problem); }
inline const WindowProblem* window_of(const OpProblem& problem) { return problem.kind().window(problem); }

}  // namespace minuet
