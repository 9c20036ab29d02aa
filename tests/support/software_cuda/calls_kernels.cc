// Entry points of the software driver: libraries, kernels, launches; the table of entry points; what tests
// control.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/shim/shim.h"
#include "tests/support/software_cuda/control.h"
#include "tests/support/software_cuda/driver.h"
#include "tests/support/software_cuda/enqueue.h"

using minuet::software_cuda::Context;
using minuet::software_cuda::Cubin;
using minuet::software_cuda::Driver;
using minuet::software_cuda::Entry;
using minuet::software_cuda::Function;
using minuet::software_cuda::kEntry;
using minuet::software_cuda::Kernel;
using minuet::software_cuda::Library;
using minuet::software_cuda::Lock;
using minuet::software_cuda::Stream;
using minuet::software_cuda::Task;

namespace {

constexpr int kArch = 90;
constexpr int kUnaskedShared = 48 << 10, kMostShared = 227 << 10;
constexpr unsigned kMostCluster = 8;

/// Loaded libraries, kept by their address.
std::map<Library*, std::shared_ptr<Library>>& libraries() {
  static auto* const all = new std::map<Library*, std::shared_ptr<Library>>;
  return *all;
}

/// A host library from its bytes. The loader knows libraries by their paths, so each has one of its own for
/// as long as it is opened.
void* open_bytes(const std::string& bytes) {
  std::string path = "/tmp/software-cuda-XXXXXX";
  const int file = ::mkstemp(path.data());
  if (file < 0) return nullptr;
  const bool whole = ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  ::close(file);
  void* const handle = whole ? ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!handle) std::fprintf(stderr, "software CUDA: %s\n", ::dlerror());
  ::unlink(path.c_str());
  return handle;
}

Kernel* kernel_of(Driver& driver, CUfunction handle) {
  auto* const kernel = reinterpret_cast<Kernel*>(handle);
  if (driver.kernels.count(kernel)) return kernel;
  auto* const function = reinterpret_cast<Function*>(handle);
  return driver.functions.count(function) ? function->kernel : nullptr;
}

bool is_in(const Kernel& kernel, Context& context) {
  return kernel.loaded.count({&context, context.generation}) > 0;
}

struct Launch {
  std::shared_ptr<Library> library;
  minuet::shim::Grid grid;
  std::vector<char> params;
};

/// What a launch says beside its sizes.
struct Attributes {
  unsigned cluster = 1;
  bool programmatic = false;
};

/// Nothing of an attribute that it does not know.
std::optional<Attributes> read_attributes(const CUlaunchConfig& config) {
  Attributes attributes;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttributeValue& value = config.attrs[i].value;
    if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      if (value.clusterDim.y != 1 || value.clusterDim.z != 1) return std::nullopt;
      attributes.cluster = value.clusterDim.x;
    } else if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      attributes.programmatic = value.programmaticStreamSerializationAllowed != 0;
    } else {
      return std::nullopt;
    }
  }
  return attributes;
}

/// In which order blocks and threads run. A scan's tile waits for those before it, which a GPU starts first.
minuet::shim::Order order_of(const Cubin& cubin, std::uint64_t seed) {
  bool is_scan = false;
  for (const char* const name :
       {"4scanE", "13number_blocksE", "11number_rowsE", "13number_voxelsE", "13list_selectedE"})
    is_scan = is_scan || cubin.kernel.find(name) != std::string::npos;
  return is_scan ? minuet::shim::Order::Ascending : static_cast<minuet::shim::Order>(seed % 3);
}

CUresult check_launch(const Kernel& kernel, const CUlaunchConfig& config, const Attributes& attributes,
                      int device) {
  const unsigned threads = config.blockDimX * config.blockDimY * config.blockDimZ;
  const unsigned blocks = config.gridDimX * config.gridDimY * config.gridDimZ;
  if (threads == 0 || blocks == 0 || config.blockDimX != threads || config.gridDimX != blocks) {
    return CUDA_ERROR_INVALID_VALUE;  // the shim has one dimension
  }
  if (threads > static_cast<unsigned>(kernel.library->cubin.max_threads)) return CUDA_ERROR_INVALID_VALUE;
  const auto allowed = kernel.dynamic_shared.find(device);
  const int most_shared = allowed == kernel.dynamic_shared.end() ? kUnaskedShared : allowed->second;
  if (config.sharedMemBytes > static_cast<unsigned>(most_shared)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned cluster = attributes.cluster;
  const bool whole = cluster > 0 && cluster <= kMostCluster && blocks % cluster == 0;
  return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

std::shared_ptr<const Task> make_task(const Launch& launch) {
  auto task = std::make_shared<Task>();
  task->run = [launch] {
    const Entry entry = launch.library->entry;
    Driver::get().memory.open();
    minuet::shim::run_grid(launch.grid, [&] { entry(launch.params.data()); });
  };
  return task;
}

CUresult load(const void* code, Library*& library) {
  std::optional<Cubin> cubin = minuet::software_cuda::unwrap(code);
  if (!cubin) return CUDA_ERROR_INVALID_IMAGE;
  const bool is_ptx = static_cast<const char*>(code)[0] != 0x7f;
  if (is_ptx ? cubin->sm > kArch : cubin->sm != kArch) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto loaded = std::make_shared<Library>();
  loaded->cubin = std::move(*cubin);
  loaded->handle = open_bytes(loaded->cubin.library);
  if (!loaded->handle) return CUDA_ERROR_INVALID_IMAGE;
  loaded->entry = reinterpret_cast<Entry>(::dlsym(loaded->handle, kEntry));
  if (!loaded->entry) return CUDA_ERROR_INVALID_IMAGE;
  loaded->cubin.library.clear();
  library = loaded.get();
  libraries()[library] = loaded;
  return CUDA_SUCCESS;
}

CUresult unload(Driver& driver, Library* library) {
  const auto found = libraries().find(library);
  if (found == libraries().end()) return CUDA_ERROR_INVALID_HANDLE;
  driver.scheduler.finish_all();
  std::erase_if(driver.functions, [&](Function* function) {
    const bool ours = function->kernel->library == found->second;
    if (ours) delete function;
    return ours;
  });
  std::erase_if(driver.kernels, [&](Kernel* kernel) {
    const bool ours = kernel->library == found->second;
    if (ours) delete kernel;
    return ours;
  });
  libraries().erase(found);  // a graph may still hold it
  return CUDA_SUCCESS;
}

CUresult find_kernel(Driver& driver, Library* library, const char* name, Kernel*& kernel) {
  const auto found = libraries().find(library);
  if (found == libraries().end()) return CUDA_ERROR_INVALID_HANDLE;
  if (found->second->cubin.kernel != name) return CUDA_ERROR_NOT_FOUND;
  kernel = new Kernel;
  kernel->library = found->second;
  driver.kernels.insert(kernel);
  return CUDA_SUCCESS;
}

CUresult set_attribute(Kernel& kernel, CUfunction_attribute attribute, int value, int device) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
  if (value < 0 || value > kMostShared) return CUDA_ERROR_INVALID_VALUE;
  kernel.dynamic_shared[device] = value;
  return CUDA_SUCCESS;
}

CUresult launch(Driver& driver, const CUlaunchConfig& config, CUfunction handle, void** params) {
  Kernel* const kernel = kernel_of(driver, handle);
  Stream* const stream = driver.stream(config.hStream);
  if (!kernel || !stream) return CUDA_ERROR_INVALID_HANDLE;
  // The real driver would bring the code in now, which under capture it may not.
  if (!is_in(*kernel, *stream->context)) {
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    kernel->loaded.insert({stream->context, stream->context->generation});
  }
  const std::optional<Attributes> attributes = read_attributes(config);
  if (!attributes) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult wrong = check_launch(*kernel, config, *attributes, stream->context->device))
    return wrong;
  // It may start early; here it never does.
  if (attributes->programmatic) ++driver.calls["programmatic launch"];
  Launch made;
  made.library = kernel->library;
  made.grid.blocks = static_cast<int>(config.gridDimX);
  made.grid.threads = static_cast<int>(config.blockDimX);
  made.grid.cluster = static_cast<int>(attributes->cluster);
  made.grid.shared_bytes = static_cast<int>(config.sharedMemBytes);
  made.grid.order = order_of(kernel->library->cubin, driver.scheduler.seed());
  made.grid.seed = driver.scheduler.seed();
  const char* const bytes = static_cast<const char*>(params[0]);
  made.params.assign(bytes, bytes + kernel->library->cubin.params_bytes);
  return driver.enqueue(*stream, make_task(made));
}

}  // namespace

minuet::software_cuda::Library::~Library() {
  if (handle) ::dlclose(handle);
}

extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  SOFTWARE_CUDA_CALL(cuLibraryLoadData);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Library* loaded = nullptr;
  if (const CUresult wrong = load(code, loaded)) return wrong;
  *library = reinterpret_cast<CUlibrary>(loaded);
  return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary handle) {
  SOFTWARE_CUDA_CALL(cuLibraryUnload);
  return unload(driver, reinterpret_cast<Library*>(handle));
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  SOFTWARE_CUDA_CALL(cuLibraryGetKernel);
  Kernel* made = nullptr;
  if (const CUresult wrong = find_kernel(driver, reinterpret_cast<Library*>(handle), name, made))
    return wrong;
  *kernel = reinterpret_cast<CUkernel>(made);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  SOFTWARE_CUDA_CALL(cuKernelGetFunction);
  auto* const kernel = reinterpret_cast<Kernel*>(handle);
  if (!driver.kernels.count(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  if (!driver.current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  auto* const made = new Function{kernel, driver.current_context()};
  driver.functions.insert(made);
  *function = reinterpret_cast<CUfunction>(made);
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  SOFTWARE_CUDA_CALL(cuFuncLoad);
  auto* const function = reinterpret_cast<Function*>(handle);
  if (!driver.functions.count(function)) return CUDA_ERROR_INVALID_HANDLE;
  function->kernel->loaded.insert({function->context, function->context->generation});
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle, CUdevice) {
  SOFTWARE_CUDA_CALL(cuKernelGetAttribute);
  auto* const kernel = reinterpret_cast<Kernel*>(handle);
  if (!driver.kernels.count(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) return CUDA_ERROR_INVALID_VALUE;
  *value = kernel->library->cubin.max_threads;
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device) {
  SOFTWARE_CUDA_CALL(cuKernelSetAttribute);
  auto* const kernel = reinterpret_cast<Kernel*>(handle);
  if (!driver.kernels.count(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return set_attribute(*kernel, attribute, value, device);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction handle, void** params, void**) {
  SOFTWARE_CUDA_CALL(cuLaunchKernelEx);
  return launch(driver, *config, handle, params);
}

// ---- modules, which belong to the current context and are loaded into it at once ---------------------

CUresult cuModuleLoadData(CUmodule* module, const void* code) {
  SOFTWARE_CUDA_CALL(cuModuleLoadData);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!driver.current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  Library* loaded = nullptr;
  if (const CUresult wrong = load(code, loaded)) return wrong;
  *module = reinterpret_cast<CUmodule>(loaded);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  SOFTWARE_CUDA_CALL(cuModuleUnload);
  return unload(driver, reinterpret_cast<Library*>(module));
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  SOFTWARE_CUDA_CALL(cuModuleGetFunction);
  Context* const context = driver.current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  Kernel* kernel = nullptr;
  if (const CUresult wrong = find_kernel(driver, reinterpret_cast<Library*>(module), name, kernel))
    return wrong;
  kernel->loaded.insert({context, context->generation});
  auto* const made = new Function{kernel, context};
  driver.functions.insert(made);
  *function = reinterpret_cast<CUfunction>(made);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  SOFTWARE_CUDA_CALL(cuFuncSetAttribute);
  auto* const function = reinterpret_cast<Function*>(handle);
  if (!driver.functions.count(function)) return CUDA_ERROR_INVALID_HANDLE;
  return set_attribute(*function->kernel, attribute, value, function->context->device);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** params, void**) {
  SOFTWARE_CUDA_CALL(cuLaunchKernel);
  CUlaunchConfig config = {};
  config.gridDimX = grid_x, config.gridDimY = grid_y, config.gridDimZ = grid_z;
  config.blockDimX = block_x, config.blockDimY = block_y, config.blockDimZ = block_z;
  config.sharedMemBytes = shared_bytes, config.hStream = stream;
  return launch(driver, config, function, params);
}

// ---- the table -----------------------------------------------------------------------------------

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  static const std::map<std::string, void*> table = {
#define MINUET_DRIVER_ROW(name) {#name, reinterpret_cast<void*>(&::name)},
#define MINUET_DRIVER_NEWER_ROW(name, symbol, version) {symbol, reinterpret_cast<void*>(&::name)},
#include "runtime/cuda/driver.inc"
  };
  const auto found = table.find(symbol);
  *function = found == table.end() || version < 12000 ? nullptr : found->second;
  if (status) {
    *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// ---- control -------------------------------------------------------------------------------------

std::int64_t software_cuda_calls(const char* name) {
  const Lock lock;
  const auto found = Driver::get().calls.find(name);
  return found == Driver::get().calls.end() ? 0 : found->second;
}

void software_cuda_fail(const char* name, int after, int result) {
  const Lock lock;
  Driver::get().failing[name] = {after, static_cast<CUresult>(result)};
}

std::int64_t software_cuda_waits() {
  const Lock lock;
  return Driver::get().waits;
}

std::int64_t software_cuda_allocations() {
  std::int64_t count = 0;
  for (const char* name : {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"}) {
    count += software_cuda_calls(name);
  }
  return count;
}

void software_cuda_reset() {
  const Lock lock;
  Driver& driver = Driver::get();
  driver.calls.clear();
  driver.failing.clear();
  driver.waits = 0;
}

void software_cuda_seed(std::uint64_t seed) {
  const Lock lock;
  Driver::get().scheduler.finish_all();
  Driver::get().scheduler.seed(seed);
}

std::int64_t software_cuda_live() {
  const Lock lock;
  return static_cast<std::int64_t>(Driver::get().memory.count());
}

const char* software_cuda_fault_text() {
  const Lock lock;
  return Driver::get().fault.c_str();
}
}
