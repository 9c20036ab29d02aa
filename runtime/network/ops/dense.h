// Reads the ops to_dense, birds_eye and from_dense of a network's JSON description, and adds them to a
// program.
#pragma once

#include "codegen/choose/ops/dense.h"
#include "llvm/Support/JSON.h"
#include "runtime/program/program.h"

namespace minuet {

/// Describes the dense tensor that the ops to_dense and birds_eye make.
struct DenseFields {
  // The field "format" is "channels_last" if the flag is true, and "channels_first" if it is false.
  bool channels_last = false;
  // Holds the field "image_axes" of birds_eye, which names the level's axes that become the two axes of the
  // image. It is empty for to_dense.
  std::vector<i32> image_axes;
};

/// Reads the fields of the op to_dense.
llvm::Expected<DenseFields> read_to_dense(const llvm::json::Object& object);
/// Reads the fields of the op birds_eye in a network of `ndim` axes.
llvm::Expected<DenseFields> read_birds_eye(const llvm::json::Object& object, i32 ndim);

/// Adds an op that makes a dense tensor from the features `input`, and returns the number of its output
/// tensor. Returns InvalidArgument if the level of the features has no shape.
llvm::Expected<i32> add_to_dense(Program& program, const std::string& name, i32 input,
                                 const DenseFields& fields);
/// Adds an op that reads the dense tensor `input` at the cells of a level, and returns the number of its
/// output tensor.
llvm::Expected<i32> add_from_dense(Program& program, const std::string& name, i32 input, i32 level);

/// Returns InvalidArgument if the tensor is dense. All ops but from_dense read features of a level.
llvm::Error check_is_of_level(const Program& program, i32 tensor);

}  // namespace minuet
