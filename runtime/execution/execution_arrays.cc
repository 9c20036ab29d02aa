#include "runtime/execution/execution_arrays.h"

#include "llvm/ADT/STLExtras.h"

namespace minuet {
namespace {

/// Returns, for example, "1, 256, 200, 176".
std::string numbers_text(llvm::ArrayRef<i64> numbers) {
  std::string text;
  for (const i64 number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return text;
}

llvm::Error check_element(const std::string& what, const GivenArray& array, ElementType wanted) {
  if (array.element == wanted) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} has elements of {1}, but the plan needs {2}", what,
                    element_name(array.element), element_name(wanted));
}

/// Returns a dense array as a matrix whose rows are those of the last axis.
llvm::Expected<Tensor> read_dense(const std::string& what, const GivenArray& array, const Program& program,
                                  i32 tensor, i32 batch_size) {
  MINUET_TRY(check_element(what, array, static_cast<ElementType>(storage_type(program.dtype))));
  const std::vector<i64>& dims = program.tensors[tensor].dims;
  llvm::SmallVector<i64, kMaxArrayAxes> wanted{batch_size};
  wanted.append(dims.begin(), dims.end());
  if (array.shape != wanted) {
    return make_error(StatusCode::InvalidArgument, "{0} has shape [{1}]; it must be [{2}]", what,
                      numbers_text(array.shape), numbers_text(wanted));
  }
  if (!is_contiguous(array)) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has strides [{1}], but a dense array must be contiguous: leave has_strides 0",
                      what, numbers_text(array.strides));
  }
  i64 rows = 1;
  for (std::size_t axis = 0; axis + 1 < wanted.size(); ++axis) rows *= wanted[axis];
  return Tensor{array.data, rows, wanted.back(), static_cast<i32>(wanted.back()), program.dtype};
}

}  // namespace

MemoryRows memory_of_array(const GivenArray& array) {
  const i64 element = element_bytes(array.element), columns = array.shape.back();
  i64 rows = 1, stride = 0;
  bool has_rows = columns == 1 || array.strides.back() == 1;
  for (std::size_t axis = array.shape.size() - 1; axis-- > 0;) {
    if (array.shape[axis] == 1) continue;
    if (rows == 1) stride = array.strides[axis];
    has_rows = has_rows && array.strides[axis] == stride * rows;
    rows *= array.shape[axis];
  }
  if (!has_rows || (rows > 1 && stride < columns)) return memory_of(array.data, spanned_bytes(array));
  return {reinterpret_cast<std::uintptr_t>(array.data), rows, stride * element, columns * element};
}

bool holds_mask(const Program& program, i32 tensor) {
  return program.storages[program.tensors[tensor].storage].holds_mask;
}

llvm::Expected<Tensor> read_mask(const std::string& what, const GivenArray& array, const Program& program,
                                 i32 tensor) {
  const i32 channels = program.tensors[tensor].channels;
  const bool has_bytes = array.element == ElementType::U8 || array.element == ElementType::Bool;
  if (has_bytes && array.shape.size() == 2 && array.shape[1] == channels && is_contiguous(array)) {
    return Tensor{array.data, array.shape[0], channels, channels, DType::F32};
  }
  return make_error(
      StatusCode::InvalidArgument,
      "{0} has shape [{1}] and elements of {2}; as a mask it must be a contiguous array of u8 or "
      "bool with {3} for each row",
      what, numbers_text(array.shape), element_name(array.element), channels);
}

DType matrix_type(const Program& program, i32 tensor) {
  const StorageSpec& storage = program.storages[program.tensors[tensor].storage];
  return storage.holds_integers || storage.holds_points ? DType::F32 : program.dtype;
}

llvm::Expected<Tensor> read_matrix(const std::string& what, const GivenArray& array, const Program& program,
                                   i32 tensor) {
  const DType dtype = matrix_type(program, tensor);
  const auto element = program.storages[program.tensors[tensor].storage].holds_integers
                           ? ElementType::I32
                           : static_cast<ElementType>(storage_type(dtype));
  MINUET_TRY(check_element(what, array, element));
  if (array.shape.size() != 2) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has a rank of {1}; it must be 2, for an array of rows and channels", what,
                      array.shape.size());
  }
  const i64 rows = array.shape[0], channels = array.shape[1];
  if (channels > 1 && array.strides[1] != 1) {
    return make_error(
        StatusCode::InvalidArgument,
        "{0} has a stride[1] of {1}; it must be 1, because the channels of a row are consecutive", what,
        array.strides[1]);
  }
  // The distance of rows means nothing if there are not two of them.
  return Tensor{array.data, rows, rows > 1 ? array.strides[0] : channels, static_cast<i32>(channels), dtype};
}

llvm::Expected<Tensor> read_given(const std::string& what, const GivenArray& array, const Program& program,
                                  i32 tensor, i32 batch_size) {
  return program.tensors[tensor].is_dense() ? read_dense(what, array, program, tensor, batch_size)
                                            : read_matrix(what, array, program, tensor);
}

llvm::Error check_on_device(const std::string& what, const GivenArray& array, const Device& device) {
  if (!array.on_host || device.info().arch.empty()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "{0} is in host memory (on_host), but a run takes device memory only: copy it first",
                    what);
}

llvm::Error check_matrices(const Program& program) {
  if (program.takes_points()) {
    return make_error(StatusCode::FailedPrecondition,
                      "the plan takes points, which are float32 whatever its dtype is: use "
                      "minuet_execution_run_arrays");
  }
  if (llvm::any_of(program.inputs, [&](i32 input) { return holds_mask(program, input); })) {
    return make_error(StatusCode::FailedPrecondition,
                      "an input of the plan is a mask, which is an array of bytes: use "
                      "minuet_execution_run_arrays");
  }
  if (program.winners >= 0) {
    return make_error(StatusCode::FailedPrecondition,
                      "the plan has winners, which are an i32 array: use minuet_execution_run_arrays");
  }
  const auto storage_of = [&](i32 tensor) { return program.storages[program.tensors[tensor].storage]; };
  if (llvm::any_of(program.inputs, [&](i32 input) { return storage_of(input).holds_integers; })) {
    return make_error(StatusCode::FailedPrecondition,
                      "the plan reads winners, which are an i32 array: use minuet_execution_run_arrays");
  }
  if (llvm::any_of(program.outputs, [&](i32 output) { return storage_of(output).holds_integers; })) {
    return make_error(
        StatusCode::FailedPrecondition,
        "an output of the plan is an i32 array and holds no features: use minuet_execution_run_arrays");
  }
  if (llvm::none_of(program.outputs, [&](i32 output) { return program.tensors[output].is_dense(); })) {
    return llvm::Error::success();
  }
  return make_error(StatusCode::FailedPrecondition,
                    "an output of the plan is a dense array and no matrix: use minuet_execution_run_arrays");
}

}  // namespace minuet
