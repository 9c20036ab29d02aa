#include "runtime/engine/overlap.h"

namespace minuet {
namespace {

/// Divides and rounds towards minus infinity. Requires divisor > 0.
i64 floor_divide(i64 number, i64 divisor) { return number / divisor - (number % divisor < 0 ? 1 : 0); }

std::uintptr_t end_of(const MemoryRows& memory) {
  return memory.begin + static_cast<std::uintptr_t>((memory.rows - 1) * memory.stride + memory.width);
}

std::string input_name(std::size_t number, bool has_residual) {
  const bool is_residual = has_residual && number == 1;
  return "input " + std::to_string(number) + (is_residual ? " (the residual)" : "");
}

std::string output_name(std::size_t number) { return "output " + std::to_string(number); }

}  // namespace

MemoryRows memory_of(const Tensor& tensor) {
  const i64 element = dtype_bytes(tensor.dtype);
  return {reinterpret_cast<std::uintptr_t>(tensor.data), tensor.rows, tensor.ld * element,
          tensor.channels * element};
}

MemoryList memory_of(llvm::ArrayRef<Tensor> tensors) {
  MemoryList memory;
  for (const Tensor& tensor : tensors) memory.push_back(memory_of(tensor));
  return memory;
}

bool overlap(const MemoryRows& a, const MemoryRows& b) {
  if (a.rows <= 0 || b.rows <= 0 || a.width <= 0 || b.width <= 0) return false;
  if (end_of(a) <= b.begin || end_of(b) <= a.begin) return false;
  if (a.rows > 1 && b.rows > 1 && a.stride != b.stride) return true;
  const i64 stride = a.rows > 1 ? a.stride : b.stride;
  // A row of b begins `distance` bytes, plus a multiple of `stride`, after a row of a. Two rows share bytes
  // if the row of b begins more than -b.width and less than a.width bytes after the row of a. It is enough to
  // test the least such difference above -b.width; rows with that difference exist, because the ranges
  // intersect.
  const i64 distance = static_cast<i64>(b.begin - a.begin);
  const i64 strides = floor_divide(-b.width - distance, stride) + 1;
  return distance + strides * stride < a.width;
}

llvm::Error overlap_error(const std::string& written, const std::string& other) {
  return make_error(
      StatusCode::InvalidArgument,
      "{0} and {1} overlap: memory that a call writes must not overlap other memory given to the call",
      written, other);
}

llvm::Error check_apart(llvm::ArrayRef<NamedMemory> written, llvm::ArrayRef<NamedMemory> read) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    for (const NamedMemory& other : read) {
      if (overlap(written[i].rows, other.rows)) return overlap_error(written[i].name, other.name);
    }
    for (const NamedMemory& other : written.take_front(i)) {
      if (overlap(written[i].rows, other.rows)) return overlap_error(other.name, written[i].name);
    }
  }
  return llvm::Error::success();
}

llvm::Error check_apart(llvm::ArrayRef<MemoryRows> inputs, llvm::ArrayRef<MemoryRows> outputs,
                        const MemoryRows& workspace, bool has_residual) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const MemoryRows& input = inputs[i];
    if (overlap(input, workspace)) return overlap_error(kWorkspaceName, input_name(i, has_residual));
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (overlap(input, outputs[o])) return overlap_error(output_name(o), input_name(i, has_residual));
    }
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const MemoryRows& output = outputs[o];
    if (overlap(output, workspace)) return overlap_error(output_name(o), kWorkspaceName);
    for (std::size_t other = 0; other < o; ++other) {
      if (overlap(output, outputs[other])) return overlap_error(output_name(o), output_name(other));
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet
