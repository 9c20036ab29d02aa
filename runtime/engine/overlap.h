// Whether memory that a call writes lies apart from all else that it is given.
#pragma once

#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/tensor.h"

namespace minuet {

/// Rows of memory, in bytes: row i is [begin + i * stride, begin + i * stride + width).
struct MemoryRows {
  std::uintptr_t begin = 0;
  i64 rows = 0, stride = 0, width = 0;
};

/// One block of memory; none where it has no bytes.
inline MemoryRows memory_of(const void* data, i64 bytes) {
  return {reinterpret_cast<std::uintptr_t>(data), bytes > 0 ? 1 : 0, bytes, bytes};
}
MemoryRows memory_of(const Tensor& tensor);

/// Whether two share a byte. What lies between two rows is not theirs. Exact where strides are the same or
/// one of the two has one row; else true where the ranges from the first byte to the last meet. stride >=
/// width.
bool overlap(const MemoryRows& a, const MemoryRows& b);

/// InvalidArgument with both names, as in "output 0" and "input 1 (the residual)".
llvm::Error overlap_error(const std::string& written, const std::string& other);

/// The rules of minuet_execution_run: every output lies apart from every input, from every other output and
/// from the workspace, and every input from the workspace.
llvm::Error check_apart(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                        const MemoryRows& workspace, bool has_residual);

}  // namespace minuet
