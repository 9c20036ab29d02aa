// Declares what the ops on memory of the caller (points.h, select.h) share: how they are created and loaded,
// how they find an engine, and how they check the memory of a call.
#pragma once

#include "runtime/abi/c_api_internal.h"
#include "runtime/engine/overlap.h"

namespace minuet {

constexpr i64 kWordBytes = sizeof(i32);
/// Limits the elements from a row to the next, so that the bytes of all rows fit into 64 bits.
constexpr i64 kMostLd = i64{1} << 28;

/// Limits the numbers of rows and pairs, which a device counts in 32 bits.
constexpr i64 kMostAmount = (i64{1} << 31) - 1;

/// Returns InvalidArgument unless `value` is 0 to `most`.
llvm::Error check_choice(int32_t value, int32_t most, const char* name);
/// Returns InvalidArgument if the pointer is not aligned, or null although the array has elements.
llvm::Error check_array(const void* pointer, i64 elements, const char* name,
                        std::uintptr_t alignment = kWordBytes);
/// Returns OutOfRange unless a number of rows or pairs is 0 to kMostAmount.
llvm::Error check_amount(i64 amount, const char* name);
/// Reads a tensor of a call, which may have any number of rows. Returns InvalidArgument unless it has these
/// channels and this dtype.
llvm::Expected<Tensor> read_matrix(const minuet_tensor& given, const char* name, i32 channels, DType dtype);
/// Returns InvalidArgument if an argument is given although it is not needed, for this reason.
llvm::Error refuse_unused(bool is_given, const char* name, const std::string& reason);
inline bool is_given(const minuet_tensor& tensor) { return tensor.data || tensor.rows != 0; }
/// Lists memory that the caller may leave out.
inline NamedMemory optional_memory(const char* name, const void* pointer, i64 bytes) {
  return {name, memory_of(pointer, pointer ? bytes : 0)};
}

/// Implements the functions that make an op. choose(given) returns its choice for the options.
template <class Op, class Options, class Choose>
llvm::Error create_single_op(minuet_context* context, const Options* options, const Options& defaults,
                             const Choose& choose, Op** op) {
  MINUET_TRY(check_pointer(context, "context"));
  MINUET_TRY(check_pointer(options, "options"));
  MINUET_TRY(check_pointer(op, "op"));
  MINUET_ASSIGN(const Options given, read_options(options, defaults));
  MINUET_ASSIGN(auto choice, choose(given));
  *op = new Op{context->context, std::move(choice)};
  return llvm::Error::success();
}

/// Loads the kernels of an op on the device.
llvm::Error load_single_op(minuet_device* device, i32 ndim, SourceList& kernels);

/// Calls tell(engine) with an engine for `arch` that only measures memory, and which need not exist here.
llvm::Error with_measured_engine(const Context& context, i32 ndim, const char* arch,
                                 llvm::function_ref<void(Engine&)> tell);

/// Runs `work` with an engine of the device, in one call on `stream`. `load` names the function that had to
/// be called before.
llvm::Error with_loaded_engine(const minuet_device& device, i32 ndim, const char* load, void* stream,
                               llvm::function_ref<llvm::Error(Engine&)> work);

}  // namespace minuet
