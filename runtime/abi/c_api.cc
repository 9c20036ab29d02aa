// Implements the functions of the C ABI for errors, contexts and devices.
#include <algorithm>
#include <new>
#include <string_view>

#include "codegen/base/own_thread.h"
#include "codegen/compile/identify_nvrtc.h"
#include "llvm/Config/llvm-config.h"
#include "runtime/abi/c_api_internal.h"
#include "runtime/engine/nvtx.h"
#include "runtime/engine/overlap.h"

namespace minuet {
namespace {

#define MINUET_DIGITS_OF(number) #number
#define MINUET_DIGITS(number) MINUET_DIGITS_OF(number)
constexpr std::string_view kHeaderVersion = MINUET_DIGITS(MINUET_VERSION_MAJOR) "." MINUET_DIGITS(
    MINUET_VERSION_MINOR) "." MINUET_DIGITS(MINUET_VERSION_PATCH) MINUET_VERSION_SUFFIX;
#undef MINUET_DIGITS
#undef MINUET_DIGITS_OF
static_assert(kHeaderVersion == MINUET_VERSION_TEXT, "minuet.h and CMakeLists.txt have different versions");

struct LastError {
  std::string message, detail;
};
thread_local LastError last_error;

}  // namespace

minuet_status set_last_error(llvm::Error error) {
  StatusError status = take_status(std::move(error));
  last_error = {status.message(), status.detail()};
  return static_cast<minuet_status>(status.code());
}

minuet_status set_last_error(StatusCode code, const char* message) noexcept {
  try {
    last_error = {message, ""};
  } catch (...) {
    // The memory does not suffice to store the message, so only the status is reported.
    last_error.message.clear();
    last_error.detail.clear();
  }
  return static_cast<minuet_status>(code);
}

minuet_status guarded(const char* function, llvm::function_ref<llvm::Error()> body) noexcept {
  try {
    llvm::Error error = body();
    if (!error) return MINUET_OK;
    return set_last_error(annotate(std::move(error), function));
  } catch (const std::bad_alloc&) {
    return set_last_error(StatusCode::ResourceExhausted, "the host is out of memory");
  } catch (...) {
    return set_last_error(StatusCode::Internal, "an unexpected exception was stopped at the C ABI");
  }
}

llvm::Error check_options(const void* given, std::size_t known_bytes) {
  struct Head {
    std::size_t struct_size;
    void* ext;
  } head;
  std::memcpy(&head.struct_size, given, sizeof(head.struct_size));
  if (head.struct_size < sizeof(Head)) {
    return make_error(StatusCode::InvalidArgument,
                      "struct_size is {0}: initialize the struct with its _INIT macro", head.struct_size);
  }
  std::memcpy(&head, given, sizeof(head));
  const char* const bytes = static_cast<const char*>(given);
  if (std::any_of(bytes + std::min(head.struct_size, known_bytes), bytes + head.struct_size,
                  [](char byte) { return byte != 0; })) {
    return make_error(StatusCode::InvalidArgument,
                      "an option of a newer version of minuet.h is set: this library does not have it, so "
                      "use a newer library or leave the option 0");
  }
  if (head.ext) return make_error(StatusCode::InvalidArgument, "ext must be null");
  return llvm::Error::success();
}

llvm::Error check_info(const void* target, const char* name) {
  MINUET_TRY(check_pointer(target, name));
  std::size_t struct_size = 0;
  std::memcpy(&struct_size, target, sizeof(struct_size));
  if (struct_size >= sizeof(struct_size)) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}: struct_size is {1}: set it to the struct's size", name,
                    struct_size);
}

llvm::Error check_pointer(const void* pointer, const char* name) {
  if (pointer) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is null, but it is required", name);
}

llvm::Error check_reserved(int64_t reserved) {
  if (reserved == 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "reserved is {0}; it must be 0", reserved);
}

llvm::Error check_list(const void* list, const char* name, i64 count, const char* count_name) {
  if (list ? count > 0 : count == 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1} and {2} is {3}: give both, or null and 0",
                    count_name, count, name, list ? "not null" : "null");
}

std::size_t give_text(llvm::StringRef text, char* buffer, std::size_t size) {
  if (buffer && size > 0) {
    const std::size_t length = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  return text.size() + 1;
}

llvm::Expected<i32> read_ndim(int32_t ndim) {
  constexpr i32 kDefault = 3;
  if (ndim >= 0 && ndim <= kMaxDim) return ndim == 0 ? kDefault : ndim;
  return make_error(StatusCode::InvalidArgument,
                    "ndim is {0}; it must be 1 to {1}, or 0 for the default, {2}", ndim, kMaxDim, kDefault);
}

llvm::Expected<std::string> read_arch(const char* arch, const std::string& name) {
  MINUET_TRY(check_pointer(arch, name.c_str()));
  if (arch[0] != '\0') return arch == kCpuArchName ? std::string() : std::string(arch);
  return make_error(StatusCode::InvalidArgument,
                    "{0} is an empty string: give the arch of minuet_device_info, such as sm_90a or cpu",
                    name);
}

llvm::Expected<AxisArray> read_axes(const int32_t* values, i32 ndim, const char* name) {
  AxisArray axes{1, 1, 1, 1};
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (values[a] < 0) {
      return make_error(StatusCode::InvalidArgument,
                        "{0} of axis {1} is {2}; it must be 1 or more, or 0, which means 1", name, a,
                        values[a]);
    }
    if (a >= ndim && values[a] > 1) {
      return make_error(StatusCode::InvalidArgument,
                        "{0} of axis {1} is {2}, but only the first {3} axes are used: set it to 0 or 1",
                        name, a, values[a], ndim);
    }
    if (values[a] > 0) axes[a] = values[a];
  }
  return axes;
}

llvm::Expected<AxisArray> read_cells(const int32_t* values, i32 ndim, const char* name) {
  AxisArray cells{};
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (values[a] < 0 || (a >= ndim && values[a] != 0)) {
      return make_error(
          StatusCode::InvalidArgument,
          "{0} of axis {1} is {2}; it must be 0 or more on the first {3} axes, and 0 on the others", name, a,
          values[a], ndim);
    }
    cells[a] = values[a];
  }
  return cells;
}

llvm::Expected<std::optional<AxisArray>> read_padding(int32_t dense_offsets, const int32_t* padding,
                                                      i32 ndim) {
  MINUET_TRY(check_flags({{dense_offsets, "dense_offsets"}}));
  MINUET_ASSIGN(const AxisArray cells, read_cells(padding, ndim, "padding"));
  if (dense_offsets) return std::optional<AxisArray>(cells);
  if (cells == AxisArray{}) return std::optional<AxisArray>();
  return make_error(
      StatusCode::InvalidArgument,
      "padding is given, but dense_offsets is 0, so that the kernel is centred: set dense_offsets "
      "to 1, or padding to 0");
}

llvm::Error read_offsets(const GivenOffsets& given, WindowProblem& problem) {
  MINUET_TRY(check_list(given.offsets, "offsets", given.count, "offset_count"));
  if (given.shape < MINUET_KERNEL_BOX || given.shape > MINUET_KERNEL_CUSTOM) {
    return make_error(StatusCode::InvalidArgument, "kernel_shape is {0}; it must be 0 to {1}", given.shape,
                      static_cast<int>(MINUET_KERNEL_CUSTOM));
  }
  const auto shape = static_cast<KernelShape>(given.shape);
  if (shape != KernelShape::Box && problem.padding) {
    return make_error(StatusCode::InvalidArgument,
                      "kernel_shape is {0}, but dense_offsets is 1: a kernel has padding only if it is a box",
                      kKernelShapeNames[given.shape]);
  }
  // list_offsets() checks this number too, but only after all offsets have been copied.
  if (given.count > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "offset_count is {0}; a kernel has at most {1} offsets: use fewer", given.count,
                      kMostOffsets);
  }
  for (i64 k = 0; k < given.count; ++k) {
    AxisArray& offset = problem.offsets.emplace_back();
    std::copy_n(given.offsets + k * problem.ndim, problem.ndim, offset.begin());
  }
  return list_offsets(shape, problem.ndim, problem.kernel_size, problem.dilation, problem.offsets);
}

llvm::Expected<AxisArray> read_set_shape(const int32_t* shape, i32 ndim) {
  MINUET_ASSIGN(const AxisArray cells, read_cells(shape, ndim, "shape"));
  const auto first = cells.begin(), end = cells.begin() + ndim;
  const auto zeros = std::count(first, end, 0);
  if (zeros == 0 || zeros == ndim) return cells;
  return make_error(
      StatusCode::InvalidArgument,
      "shape of axis {0} is 0, but other axes have a shape: give it for all of the {1} axes, or "
      "for none",
      std::find(first, end, 0) - first, ndim);
}

llvm::Error check_flags(std::initializer_list<NamedFlag> flags) {
  for (const auto& [flag, name] : flags) {
    if (flag == 0 || flag == 1) continue;
    return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 0 or 1", name, flag);
  }
  return llvm::Error::success();
}

llvm::Expected<DType> read_dtype(minuet_dtype dtype) {
  if (dtype >= 0 && dtype < kDTypeCount) return static_cast<DType>(dtype);
  return make_error(StatusCode::InvalidArgument, "dtype is {0}; it must be 0 to {1}", static_cast<int>(dtype),
                    kDTypeCount - 1);
}

llvm::Expected<std::optional<Dataflow>> read_dataflow(minuet_dataflow dataflow) {
  if (dataflow < MINUET_DATAFLOW_AUTO || dataflow > MINUET_DATAFLOW_FUSED) {
    return make_error(StatusCode::InvalidArgument, "dataflow is {0}; it must be 0 to {1}",
                      static_cast<int>(dataflow), static_cast<int>(MINUET_DATAFLOW_FUSED));
  }
  if (dataflow == MINUET_DATAFLOW_AUTO) return std::nullopt;
  return static_cast<Dataflow>(dataflow - 1);
}

namespace {

constexpr int64_t kMostCpuThreads = 4096;

llvm::Expected<CacheOptions> cache_options(const minuet_context_options& options) {
  CacheOptions cache;
  if (options.jit < MINUET_JIT_DEFAULT || options.jit > MINUET_JIT_OFF) {
    return make_error(StatusCode::InvalidArgument, "jit is {0}; it must be 0, 1 or 2", options.jit);
  }
  if (options.jit != MINUET_JIT_DEFAULT) cache.no_jit = options.jit == MINUET_JIT_OFF;
  if (options.bundle_policy < MINUET_BUNDLE_SAME_MAJOR || options.bundle_policy > MINUET_BUNDLE_ANY) {
    return make_error(StatusCode::InvalidArgument, "bundle_policy is {0}; it must be 0 or 1",
                      options.bundle_policy);
  }
  cache.policy = static_cast<BundlePolicy>(options.bundle_policy);
  if (options.record_path) cache.record = options.record_path;
  cache.most_bytes = options.cache_max_bytes;
  if (options.bundle_path) cache.bundle_path = options.bundle_path;
  MINUET_TRY(check_flags({{options.bundle_ptx, "bundle_ptx"},
                          {options.trace, "trace"},
                          {options.disable_disk_cache, "disable_disk_cache"}}));
  if (options.cache_shared < 0 || options.cache_shared > 2) {
    return make_error(StatusCode::InvalidArgument, "cache_shared is {0}; it must be 0, 1 or 2",
                      options.cache_shared);
  }
  if (options.cache_shared != 0) cache.shared = options.cache_shared == 1;
  cache.ptx = options.bundle_ptx != 0;
  if (options.trace != 0) cache.trace = std::make_shared<Trace>();
  if (options.cache_directory) cache.directory = options.cache_directory;
  cache.use_disk = options.disable_disk_cache == 0;
  if (options.log) {
    cache.warn = [log = options.log, user = options.log_user](const std::string& text) {
      const HostSignals signals;
      log(MINUET_LOG_WARNING, text.data(), text.size(), user);
    };
    if (wants_nvtx() && !has_nvtx()) {
      cache.warn(
          "MINUET_NVTX is 1, but the library was built without NVTX's header: run tools/setup and build "
          "again");
    }
  }
  return cache;
}

llvm::Expected<AllocatorFunctions> read_allocator(const minuet_device_options& given, llvm::StringRef name) {
  if (!given.allocate != !given.free) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} is null, but {1} is not: give both functions of the allocator, or none",
                      given.allocate ? "free" : "allocate", given.allocate ? "allocate" : "free");
  }
  if (given.allocate && name.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "an allocator is given, but no name: name the device whose memory it gives");
  }
  return AllocatorFunctions{given.allocate, given.free, given.user};
}

/// Fills `info`. Its member `missing` gets one line for each of the driver, NVRTC and cuBLASLt that is
/// missing.
void describe_system(minuet_system_info& info) {
  std::string missing;
  auto note = [&](llvm::Error error) { missing += take_status(std::move(error)).message() + "\n"; };
  if (llvm::Expected<CudaSystem> cuda = cuda_system()) {
    copy_text(info.driver, cuda->driver);
    info.cuda_devices = cuda->devices;
  } else {
    note(cuda.takeError());
  }
  if (llvm::Expected<NvrtcInfo> nvrtc = identify_nvrtc()) {
    copy_text(info.nvrtc, nvrtc->version);
    copy_text(info.nvrtc_path, nvrtc->path);
  } else {
    note(nvrtc.takeError());
  }
  if (llvm::Expected<std::string> cublaslt = cublaslt_path()) {
    copy_text(info.cublaslt_path, *cublaslt);
  } else {
    note(cublaslt.takeError());
  }
  copy_text(info.llvm, LLVM_VERSION_STRING);
  copy_text(info.missing, missing);
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

size_t minuet_last_error(char* buffer, size_t size) { return give_text(last_error.message, buffer, size); }
size_t minuet_last_error_detail(char* buffer, size_t size) {
  return give_text(last_error.detail, buffer, size);
}

const char* minuet_status_name(minuet_status status) {
  switch (static_cast<int>(status)) {
#define MINUET_STATUS_NAME(name) \
  case MINUET_##name:            \
    return #name;
    MINUET_STATUS_NAME(OK)
    MINUET_STATUS_NAME(CANCELLED)
    MINUET_STATUS_NAME(INVALID_ARGUMENT)
    MINUET_STATUS_NAME(NOT_FOUND)
    MINUET_STATUS_NAME(RESOURCE_EXHAUSTED)
    MINUET_STATUS_NAME(FAILED_PRECONDITION)
    MINUET_STATUS_NAME(OUT_OF_RANGE)
    MINUET_STATUS_NAME(UNIMPLEMENTED)
    MINUET_STATUS_NAME(INTERNAL)
    MINUET_STATUS_NAME(UNAVAILABLE)
#undef MINUET_STATUS_NAME
    default:
      return "UNKNOWN";
  }
}

uint32_t minuet_version(void) {
  return MINUET_VERSION_MAJOR * 10000 + MINUET_VERSION_MINOR * 100 + MINUET_VERSION_PATCH;
}

minuet_status minuet_context_create(const minuet_context_options* options, minuet_context** context) {
  return guarded("minuet_context_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_ASSIGN(const minuet_context_options given,
                  read_options(options, minuet_context_options(MINUET_CONTEXT_OPTIONS_INIT)));
    MINUET_ASSIGN(CacheOptions cache, cache_options(given));
    DeviceOptions devices;
    if (given.nvrtc_path) devices.nvrtc = given.nvrtc_path;
    if (given.cublaslt_path) devices.cublaslt = given.cublaslt_path;
    if (given.cpu_threads < 0 || given.cpu_threads > kMostCpuThreads) {
      return make_error(StatusCode::InvalidArgument, "cpu_threads is {0}; it must be 0 to {1}",
                        given.cpu_threads, kMostCpuThreads);
    }
    devices.cpu_threads = static_cast<i32>(given.cpu_threads);
    MINUET_ASSIGN(std::shared_ptr<Context> made, Context::create(std::move(cache), std::move(devices)));
    *context = new minuet_context{std::move(made)};
    return llvm::Error::success();
  });
}

void minuet_context_destroy(minuet_context* context) { delete context; }

minuet_status minuet_context_kernel_counters(minuet_context* context, minuet_kernel_counters* counters) {
  return guarded("minuet_context_kernel_counters", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    const CacheStats stats = context->context->cache()->stats();
    return write_info(
        {0, stats.compiled, stats.disk_hits, stats.memory_hits, stats.compile_ms, stats.bundle_hits,
         stats.failures, stats.waits, stats.lock_timeouts, stats.cubin_bytes, stats.wait_ms},
        counters, "counters");
  });
}

size_t minuet_context_cache_directory(minuet_context* context, char* buffer, size_t size) {
  try {
    return give_text(context ? context->context->cache()->directory() : "", buffer, size);
  } catch (const std::bad_alloc&) {
    return give_text("", buffer, size);
  }
}

minuet_status minuet_query_system(minuet_system_info* info) {
  return guarded("minuet_query_system", [&]() -> llvm::Error {
    MINUET_TRY(check_info(info, "info"));
    minuet_system_info answer{};
    describe_system(answer);
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_device_open(minuet_context* context, const char* name,
                                 const minuet_device_options* options, minuet_device** device) {
  return guarded("minuet_device_open", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(device, "device"));
    const llvm::StringRef named = name ? name : "";
    MINUET_ASSIGN(const minuet_device_options given,
                  read_options(options, minuet_device_options(MINUET_DEVICE_OPTIONS_INIT)));
    MINUET_ASSIGN(const AllocatorFunctions allocator, read_allocator(given, named));
    MINUET_ASSIGN(std::shared_ptr<OpenDevice> open, context->context->open_device(named, allocator));
    *device = new minuet_device{std::move(open)};
    return llvm::Error::success();
  });
}

void minuet_device_destroy(minuet_device* device) { delete device; }

minuet_status minuet_device_query(minuet_device* device, minuet_device_info* info) {
  return guarded("minuet_device_query", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    const DeviceInfo& known = device->open->device()->info();
    minuet_device_info answer{};
    copy_text(answer.name, known.name);
    copy_text(answer.description, known.description);
    copy_text(answer.arch, arch_name(known.arch));
    answer.memory_bytes = known.memory_bytes;
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_device_allocate(minuet_device* device, int64_t bytes, void** memory) {
  return guarded("minuet_device_allocate", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(memory, "memory"));
    if (bytes < 0)
      return make_error(StatusCode::InvalidArgument, "bytes is {0}; it must be 0 or more", bytes);
    MINUET_ASSIGN(*memory, device->open->device()->allocate(bytes > 0 ? bytes : 1));
    return llvm::Error::success();
  });
}

minuet_status minuet_device_free(minuet_device* device, void* memory) {
  return guarded("minuet_device_free", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    if (memory) device->open->device()->release(memory);
    return llvm::Error::success();
  });
}

minuet_status minuet_device_copy(minuet_device* device, void* target, const void* source, int64_t bytes,
                                 int32_t direction) {
  return guarded("minuet_device_copy", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    if (bytes < 0 || direction < 0 || direction > 1) {
      return make_error(StatusCode::InvalidArgument,
                        "bytes is {0} and direction is {1}; bytes must be 0 or more, and direction 0 or 1",
                        bytes, direction);
    }
    if (bytes == 0) return llvm::Error::success();
    MINUET_TRY(check_pointer(target, "target"));
    MINUET_TRY(check_pointer(source, "source"));
    if (overlap(memory_of(target, bytes), memory_of(source, bytes))) return overlap_error("target", "source");
    Device& opened = *device->open->device();
    return direction == 0 ? opened.upload(target, source, bytes) : opened.download(target, source, bytes);
  });
}

minuet_status minuet_device_synchronize(minuet_device* device, void* stream) {
  return guarded("minuet_device_synchronize", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(device, "device"));
    const Trace::Span span(device->open->trace(), "run", "synchronize");
    return device->open->device()->synchronize(stream);
  });
}
}
