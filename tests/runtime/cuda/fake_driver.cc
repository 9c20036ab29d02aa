#include "tests/runtime/cuda/fake_driver.h"

#include <algorithm>

namespace minuet {
namespace {

FakeDriver* fake = nullptr;
thread_local int current_context = 0;

// Handles are numbers: the library's, the same for its kernel, and for its function in a context.
template <class Handle>
Handle handle_of(std::size_t number) {
  return reinterpret_cast<Handle>(number << 8);
}
template <class Handle>
std::size_t number_of(Handle handle) {
  return reinterpret_cast<std::size_t>(handle) >> 8;
}

}  // namespace

struct FakeCalls {
  /// The image behind a handle, or null where there is none.
  template <class Handle>
  static const std::string* find(Handle handle) {
    const auto found = fake->images_.find(number_of(handle));
    if (found != fake->images_.end()) return &found->second;
    ++fake->wrong_handles;
    return nullptr;
  }

  static CUresult answer(const Verdict& verdict, const std::string& image) {
    return verdict ? verdict(image) : CUDA_SUCCESS;
  }

  static bool gone() {
    if (fake->gone_) ++fake->calls_after_exit;
    return fake->gone_;
  }

  static CUresult load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                            CUlibraryOption*, void**, unsigned) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (gone()) return CUDA_ERROR_DEINITIALIZED;
    ++fake->loads;
    const std::string image = static_cast<const char*>(code);
    if (const CUresult result = answer(fake->on_load_data, image)) return result;
    const auto same = std::count_if(fake->images_.begin(), fake->images_.end(),
                                    [&](const auto& entry) { return entry.second == image; });
    fake->most_of_one = std::max(fake->most_of_one, static_cast<int>(same) + 1);
    *library = handle_of<CUlibrary>(fake->next_);
    fake->images_[fake->next_++] = image;
    return CUDA_SUCCESS;
  }

  static CUresult unload(CUlibrary library) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    if (gone()) return CUDA_ERROR_DEINITIALIZED;
    ++fake->unloads;
    if (!find(library)) return CUDA_ERROR_INVALID_HANDLE;
    fake->images_.erase(number_of(library));
    return CUDA_SUCCESS;
  }

  static CUresult get_kernel(CUkernel* kernel, CUlibrary library, const char*) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    const std::string* image = find(library);
    if (!image) return CUDA_ERROR_INVALID_HANDLE;
    *kernel = handle_of<CUkernel>(number_of(library));
    return answer(fake->on_get_kernel, *image);
  }

  static CUresult get_function(CUfunction* function, CUkernel kernel) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    const std::string* image = find(kernel);
    if (!image) return CUDA_ERROR_INVALID_HANDLE;
    *function = handle_of<CUfunction>(number_of(kernel));
    return answer(fake->on_get_function, *image);
  }

  static CUresult func_load(CUfunction function) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    const std::string* image = find(function);
    if (!image) return CUDA_ERROR_INVALID_HANDLE;
    if (const CUresult result = answer(fake->on_func_load, *image)) return result;
    fake->functions.emplace(current_context, *image);
    return CUDA_SUCCESS;
  }

  static CUresult kernel_attribute(int* value, CUfunction_attribute, CUkernel kernel, CUdevice) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    *value = 1024;
    return find(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }

  static CUresult set_kernel_attribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                       CUdevice device) {
    const std::lock_guard<std::mutex> lock(fake->mutex_);
    const std::string* image = find(kernel);
    if (!image) return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value > FakeDriver::kMostShared)
      return CUDA_ERROR_INVALID_VALUE;
    fake->shared_bytes.emplace_back(device, *image, value);
    return CUDA_SUCCESS;
  }

  static CUresult error_name(CUresult result, const char** name) {
    *name = result == CUDA_ERROR_NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
  }
  static CUresult error_string(CUresult, const char** text) {
    *text = "said the fake driver";
    return CUDA_SUCCESS;
  }
};

FakeDriver::FakeDriver() {
  table_.cuLibraryLoadData = FakeCalls::load_data;
  table_.cuLibraryUnload = FakeCalls::unload;
  table_.cuLibraryGetKernel = FakeCalls::get_kernel;
  table_.cuKernelGetFunction = FakeCalls::get_function;
  table_.cuFuncLoad = FakeCalls::func_load;
  table_.cuKernelGetAttribute = FakeCalls::kernel_attribute;
  table_.cuKernelSetAttribute = FakeCalls::set_kernel_attribute;
  table_.cuGetErrorName = FakeCalls::error_name;
  table_.cuGetErrorString = FakeCalls::error_string;
  fake = this;
}

FakeDriver::~FakeDriver() { fake = nullptr; }

void FakeDriver::set_context(int context) { current_context = context; }

void FakeDriver::deinitialize() {
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_ = true;
}

}  // namespace minuet
