// What the caller asks of an op, as far as the kinds of ops have it in common. Each kind has a problem struct
// of its own in codegen/choose/ops.
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
inline constexpr i64 kMostOffsets = 1 << 20;  // of a kernel
inline constexpr i32 kMostCells = 1 << 24;  // of a kernel, a stride, a dilation: products stay inside 64 bits
inline constexpr i64 kFarthestOffset = 1 << 28;  // keeps every step and offset inside 32 bits

/// How the output coordinates of an op over a kernel map follow from its input coordinates.
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
  ConvolutionKind kind = ConvolutionKind::Submanifold;

  bool is_transposed() const { return kind == ConvolutionKind::Transposed; }
};

/// InvalidArgument for sizes that no op over a kernel map can have.
llvm::Error check_window(const WindowProblem& problem, i32 in_channels, i32 out_channels);

/// Number of offsets.
i64 kernel_volume(const WindowProblem& problem);

/// Offsets of a kernel on a grid whose finer side has this tensor stride.
KernelGeometry make_geometry(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                             const AxisArray& tensor_stride);

/// The offset that is zero on every axis.
i32 center_offset(const KernelGeometry& geometry);

/// Where a program puts an op's operands in its storages.
struct OperandColumns {
  Columns input, output, residual;
  Columns covered_output;  // of the op behind it, where one kernel may compute both
};

/// What an op reads and writes, row by row.
struct OperandShape {
  i32 in_channels = 0, out_channels = 0;
  bool has_residual = false;  // of out_channels
  bool has_weight = false;
};

struct OpKind;
/// One op as the caller asks for it.
using OpProblem = AnyOf<OpKind>;
struct Candidate;
struct CandidateOptions;

/// What this room knows of a kind of op: each has a file pair in codegen/choose/ops.
struct OpKind {
  const char* name;  // "convolution", in messages
  /// Invalid sizes, impossible combinations and what is not built yet, each with its reason.
  llvm::Error (*validate)(const OpProblem& problem);
  /// For a valid problem: what may run it, as choose_candidates() returns it.
  llvm::Expected<std::vector<Candidate>> (*candidates)(const OpProblem& problem,
                                                       const CandidateOptions& options);
  /// The kernel map that the op reads; null where it reads none.
  const WindowProblem* (*window)(const OpProblem& problem);
  OperandShape (*shape)(const OpProblem& problem);
  /// The problem with its operands at these columns.
  OpProblem (*at_columns)(const OpProblem& problem, const OperandColumns& columns);
};

/// The entry of a kind whose functions are overloads for its problem struct, in the order of OpKind:
/// validate, candidates, window, shape and at_columns.
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
