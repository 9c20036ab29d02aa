// Checks that memory written by a call does not overlap any other memory given to it.
#pragma once

#include <cstdint>
#include <string>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "runtime/engine/tensor.h"

namespace minuet {

/// Describes rows of memory in bytes. Row i is [begin + i * stride, begin + i * stride + width).
struct MemoryRows {
  std::uintptr_t begin = 0;
  i64 rows = 0, stride = 0, width = 0;
};

/// Returns one block of memory as a single row, or no rows if `bytes` is 0.
inline MemoryRows memory_of(const void* data, i64 bytes) {
  return {reinterpret_cast<std::uintptr_t>(data), bytes > 0 ? 1 : 0, bytes, bytes};
}
MemoryRows memory_of(const Tensor& tensor);
/// Holds the memory of the inputs or of the outputs of a run.
using MemoryList = llvm::SmallVector<MemoryRows, 4>;
MemoryList memory_of(llvm::ArrayRef<Tensor> tensors);

/// Returns true if `a` and `b` share a byte. Gaps between rows do not count. The result is exact if the
/// strides are equal or one of the two has a single row; otherwise the function returns true if the ranges
/// from the first byte to the last one intersect. Requires stride >= width.
bool overlap(const MemoryRows& a, const MemoryRows& b);

/// Names the caller's workspace in the messages of overlap_error().
inline constexpr const char* kWorkspaceName = "the workspace of the execution";

/// Returns InvalidArgument with both names in its message, for example "output 0" and "input 1 (the
/// residual)".
llvm::Error overlap_error(const std::string& written, const std::string& other);

/// Describes memory that a call is given, with its name for messages.
struct NamedMemory {
  std::string name;
  MemoryRows rows;
};
/// Checks that no memory that a call writes overlaps other memory that the call is given.
llvm::Error check_apart(llvm::ArrayRef<NamedMemory> written, llvm::ArrayRef<NamedMemory> read);

/// Checks the rules of minuet_execution_run, by which no output overlaps an input, another output or the
/// workspace, and no input overlaps the workspace.
llvm::Error check_apart(llvm::ArrayRef<MemoryRows> inputs, llvm::ArrayRef<MemoryRows> outputs,
                        const MemoryRows& workspace, bool has_residual);

}  // namespace minuet
