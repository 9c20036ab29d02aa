// Reads the arrays that the caller gives a run as matrices. Messages call an array `what`, for example
// "input 0".
#pragma once

#include <string>

#include "runtime/engine/device.h"
#include "runtime/engine/overlap.h"
#include "runtime/program/program.h"
#include "runtime/weights/given_array.h"

namespace minuet {

/// Return the names of an input and of an output in messages.
inline std::string input_name(std::size_t number) { return "input " + std::to_string(number); }
inline std::string output_name(std::size_t number) { return "output " + std::to_string(number); }

/// Returns the memory of an array. Rows are told apart if the last axis is contiguous and one stride leads
/// through all other axes. Otherwise the result is all memory from the first element to the last one.
MemoryRows memory_of_array(const GivenArray& array);

/// Returns the dtype with which a tensor of the program is handled. Words of 32 bits count as fp32.
DType matrix_type(const Program& program, i32 tensor);

/// Returns the matrix that an array of features, integers or points is.
llvm::Expected<Tensor> read_matrix(const std::string& what, const GivenArray& array, const Program& program,
                                   i32 tensor);
/// Returns true if the tensor is a mask of bytes.
bool holds_mask(const Program& program, i32 tensor);
/// Returns the rows and channels of the array of a mask. Only `data`, `rows` and `channels` of the result
/// mean anything.
llvm::Expected<Tensor> read_mask(const std::string& what, const GivenArray& array, const Program& program,
                                 i32 tensor);
/// Returns the matrix that an array is, which may be a dense tensor of `batch_size` items.
llvm::Expected<Tensor> read_given(const std::string& what, const GivenArray& array, const Program& program,
                                  i32 tensor, i32 batch_size);

/// Returns InvalidArgument if the array is in host memory although the device is a GPU.
llvm::Error check_on_device(const std::string& what, const GivenArray& array, const Device& device);
/// Returns FailedPrecondition if an input or output of the program is no matrix of the program's dtype.
llvm::Error check_matrices(const Program& program);

}  // namespace minuet
