#include "runtime/abi/single_op.h"

#include "llvm/ADT/ScopeExit.h"

namespace minuet {

llvm::Error check_choice(int32_t value, int32_t most, const char* name) {
  if (value >= 0 && value <= most) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 0 to {2}", name, value, most);
}

llvm::Error check_array(const void* pointer, i64 elements, const char* name, std::uintptr_t alignment) {
  if (elements > 0) MINUET_TRY(check_pointer(pointer, name));
  return check_alignment(pointer, alignment, name);
}

llvm::Error check_amount(i64 amount, const char* name) {
  if (amount >= 0 && amount <= kMostAmount) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "{0} is {1}; it must not be negative, and at most {2}", name,
                    amount, kMostAmount);
}

llvm::Expected<Tensor> read_matrix(const minuet_tensor& given, const char* name, i32 channels, DType dtype) {
  Tensor tensor{given.data, given.rows, given.row_stride == 0 ? given.channels : given.row_stride,
                given.channels, DType::F32};
  llvm::Expected<DType> own_dtype = read_dtype(given.dtype);
  if (!own_dtype) return annotate(own_dtype.takeError(), name);
  tensor.dtype = *own_dtype;
  if (tensor.dtype != dtype || tensor.channels != channels) {
    return make_error(StatusCode::InvalidArgument, "{0} has {1} channels of {2}; it must have {3} of {4}",
                      name, tensor.channels, kDTypeNames[static_cast<int>(tensor.dtype)], channels,
                      kDTypeNames[static_cast<int>(dtype)]);
  }
  MINUET_TRY(check_amount(given.rows, (std::string(name) + ".rows").c_str()));
  MINUET_TRY(check_tensor(name, tensor, tensor));
  // A tensor without rows may have any pointer, but even a copy of no bytes needs an aligned one.
  if (tensor.rows == 0) tensor.data = nullptr;
  return tensor;
}

llvm::Error refuse_unused(bool is_given, const char* name, const std::string& reason) {
  if (!is_given) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is given, but {1}: leave it null and 0", name, reason);
}

llvm::Error load_single_op(minuet_device* device, i32 ndim, SourceList& kernels) {
  MINUET_TRY(check_pointer(device, "device"));
  MINUET_TRY(device->open->map_engines(ndim).takeError());
  return device->open->load_kernels(kernels.take());
}

llvm::Error with_measured_engine(const Context& context, i32 ndim, const char* arch,
                                 llvm::function_ref<void(Engine&)> tell) {
  MINUET_ASSIGN(const std::string own_arch, read_arch(arch));
  if (!own_arch.empty() && !parse_arch(own_arch)) return not_an_arch(own_arch);
  MINUET_ASSIGN(const std::shared_ptr<Device> device, measured_device(own_arch, context.cpu_threads()));
  MINUET_ASSIGN(const std::unique_ptr<Engine> engine, device->create_engine(choose_engine(ndim)));
  tell(*engine);
  return llvm::Error::success();
}

llvm::Error with_loaded_engine(const minuet_device& device, i32 ndim, const char* load, void* stream,
                               llvm::function_ref<llvm::Error(Engine&)> work) {
  MINUET_ASSIGN(const std::shared_ptr<MapEngines> engines, device.open->loaded_map_engines(ndim, load));
  MINUET_ASSIGN(const MapEngines::Lease engine, engines->take(nullptr));
  MINUET_TRY(engine->begin(stream));
  const auto end = llvm::make_scope_exit([&] { engine->end(); });
  return work(**engine);
}

}  // namespace minuet
