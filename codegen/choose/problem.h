// The description of an op as the caller asks for it, limited to the parts that all kinds of ops share. Each
// kind has a problem struct of its own in codegen/choose/ops.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codegen/base/any_of.h"
#include "codegen/base/error.h"
#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

using AxisArray = std::array<i32, kMaxDim>;

inline constexpr i32 kMostChannels = 1 << 16;
inline constexpr i64 kMostOffsets = 1 << 20;     // of a kernel
inline constexpr i32 kMostCells = 1 << 24;       // size, stride and dilation; products fit into 64 bits
inline constexpr i64 kFarthestOffset = 1 << 28;  // keeps every step and offset within 32 bits

/// Names how the output coordinates of an op over a kernel map follow from its input coordinates.
enum class ConvolutionKind : i32 {
  Submanifold,   // equal to the input set; stride 1
  Strided,       // unique floor(p / (s t)) * (s t)
  GivenOutputs,  // a set given by the caller
  Transposed,    // uses the map of the matching forward convolution with input and output swapped
  Generative,    // as Transposed, onto every coordinate that an input reaches
};

/// A column range of a row-major matrix: rows are `ld` elements apart, and the range starts at `column`.
struct Columns {
  i32 ld = 0;
  i32 column = 0;
};

/// The properties that all ops over a kernel map share.
struct WindowProblem {
  i32 ndim = 3;
  DType dtype = DType::F16;           // type of stored features and weights; accumulation is in fp32
  AxisArray kernel_size{1, 1, 1, 1};  // axes from ndim on stay 1
  AxisArray stride{1, 1, 1, 1};
  AxisArray dilation{1, 1, 1, 1};
  ConvolutionKind kind = ConvolutionKind::Submanifold;

  bool is_transposed() const { return kind == ConvolutionKind::Transposed; }
};

/// Returns InvalidArgument for sizes that no op over a kernel map can have, and Unimplemented for generative
/// ops.
llvm::Error check_window(const WindowProblem& problem, i32 in_channels, i32 out_channels);

/// Returns the number of offsets, at most kMostOffsets + 1.
i64 kernel_volume(const WindowProblem& problem);

/// Returns the offsets of a kernel whose finer side has this tensor stride.
KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride);

/// Returns the number of the offset that is zero on every axis.
i32 center_offset(const KernelGeometry& geometry);

/// The places of an op's operands in a program's storages.
struct OperandColumns {
  Columns input, output, residual;
  Columns covered_output;  // output of the next op, if one kernel may compute both
};

/// The widths of the rows that an op reads and writes.
struct OperandShape {
  i32 in_channels = 0, out_channels = 0;
  bool has_residual = false;  // of out_channels columns
  bool has_weight = false;
};

struct OpKind;
/// Holds the problem struct of one op.
using OpProblem = AnyOf<OpKind>;
struct Candidate;
struct CandidateOptions;

/// The functions of this room for one kind of op. Each kind has a file pair in codegen/choose/ops.
struct OpKind {
  const char* name;  // used in messages, for example "convolution"
  /// Returns an error with the reason for invalid sizes, impossible combinations and features that are not
  /// implemented.
  llvm::Error (*validate)(const OpProblem& problem);
  /// Returns the candidates of a valid problem, as choose_candidates() does.
  llvm::Expected<std::vector<Candidate>> (*candidates)(const OpProblem& problem,
                                                       const CandidateOptions& options);
  /// Returns the kernel map that the op reads, or null if it reads none.
  const WindowProblem* (*window)(const OpProblem& problem);
  OperandShape (*shape)(const OpProblem& problem);
  /// Returns the problem with its operands at these columns.
  OpProblem (*at_columns)(const OpProblem& problem, const OperandColumns& columns);
};

/// Returns the table entry of a kind. `Problem` must have overloads of the functions of OpKind: validate,
/// candidates, window, shape and at_columns.
template <class Problem>
constexpr OpKind make_op_kind(const char* name) {
  return {name,
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
