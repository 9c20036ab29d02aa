// Makes the arrays that a network or a training step is measured with.
#pragma once

#include "runtime/engine/device.h"
#include "runtime/program/program.h"
#include "runtime/weights/given_array.h"

namespace minuet {

/// Returns memory with so many numbers of a type from -`greatest` to `greatest`, so that a ReLU gets both
/// signs. They are the same in every call.
llvm::Expected<DeviceMemory> make_numbers(const std::shared_ptr<Device>& device, DType dtype, i64 count,
                                          float greatest);
/// Returns an array without gaps.
GivenArray whole_array(void* data, ElementType element, llvm::ArrayRef<i64> shape);

/// Returns an input or an output of a program with so many rows, or batch items if it is dense.
GivenArray array_of(const Program& program, i32 tensor, void* data, i64 rows, i64 batch_size);

/// Names consecutive values of an array.
struct ValueRange {
  i64 first = 0, count = 0;
};
/// Returns what is compared of an array: all of it, or evenly distributed parts of a large one, because
/// comparing all of it would take a second.
std::vector<ValueRange> compared_ranges(i64 count);

}  // namespace minuet
