#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <mutex>

namespace minuet {
namespace {

// Entry points are requested as CUDA 12.0 defines them. Newer drivers have these versions too. CUDA 12.0 is
// the first version with cuLibraryLoadData. Older drivers need no fallback, because cuBLASLt 13 requires
// driver 580.
constexpr int kLeastDriver = 12000;
constexpr const char* kDriverLibrary = "libcuda.so.1";

using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

struct Row {
  const char* symbol;
  void** target;
  int version;
};

llvm::Error fill_table(GetProcAddress get, Driver& driver) {
#define MINUET_DRIVER_ROW(name) {#name, reinterpret_cast<void**>(&driver.name), kLeastDriver},
#define MINUET_DRIVER_NEWER_ROW(name, symbol, version) \
  {symbol, reinterpret_cast<void**>(&driver.name), version},
  const Row rows[] = {
#include "runtime/cuda/driver.inc"
  };
  for (const Row& row : rows) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result = get(row.symbol, row.target, row.version, CU_GET_PROC_ADDRESS_DEFAULT, &found);
    if (result == CUDA_SUCCESS && *row.target) continue;
    *row.target = nullptr;
    return make_error(StatusCode::Unavailable,
                      "the CUDA driver has no {0}: Minuet needs driver 580 (CUDA 13.0) or newer", row.symbol);
  }
  return llvm::Error::success();
}

llvm::Error open_driver(Driver& driver) {
  void* library = dlopen(kDriverLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    return make_error(StatusCode::Unavailable,
                      "there is no CUDA driver here ({0}): install the NVIDIA driver, or start the container "
                      "with GPU access; the CPU device needs neither",
                      reason ? reason : kDriverLibrary);
  }
  // The code looks up the versioned name, because plain cuGetProcAddress is the older function with four
  // parameters.
  auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get) {
    return make_error(StatusCode::Unavailable,
                      "the CUDA driver is older than 12.0 (no cuGetProcAddress_v2): install driver 580 (CUDA "
                      "13.0) or newer");
  }
  MINUET_TRY(fill_table(get, driver));
  const CUresult result = driver.cuInit(0);
  if (result == CUDA_SUCCESS) return llvm::Error::success();
  StatusError status = take_status(driver_error(driver, result, "cuInit"));
  return make_error(StatusCode::Unavailable,
                    "the CUDA driver does not start ({0}): check that nvidia-smi shows a GPU here",
                    status.message());
}

StatusCode status_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return StatusCode::ResourceExhausted;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return StatusCode::Unavailable;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
      return StatusCode::FailedPrecondition;
    default:
      return StatusCode::Internal;
  }
}

}  // namespace

llvm::Expected<const Driver*> Driver::get() {
  static std::mutex mutex;
  static Driver driver;
  static bool ready = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!ready) {
    MINUET_TRY(open_driver(driver));
    ready = true;
  }
  return &driver;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

llvm::Error driver_error(const Driver& driver, CUresult result, llvm::StringRef attempt) {
  const char* name = nullptr;
  const char* meaning = nullptr;
  static_cast<void>(driver.cuGetErrorName(result, &name));
  static_cast<void>(driver.cuGetErrorString(result, &meaning));
  return make_error(status_of(result), "{0}: {1} ({2})", attempt, name ? name : "unknown error",
                    meaning ? meaning : std::to_string(static_cast<int>(result)).c_str());
}

}  // namespace minuet
