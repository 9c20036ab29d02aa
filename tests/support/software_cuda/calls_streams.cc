// Entry points of the software driver: memory, streams, events, capture, graphs.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/support/software_cuda/driver.h"
#include "tests/support/software_cuda/enqueue.h"

using minuet::software_cuda::Context;
using minuet::software_cuda::Driver;
using minuet::software_cuda::Event;
using minuet::software_cuda::Graph;
using minuet::software_cuda::GraphExec;
using minuet::software_cuda::Lock;
using minuet::software_cuda::Stream;
using minuet::software_cuda::Task;

namespace {

char* pointer(CUdeviceptr address) { return reinterpret_cast<char*>(address); }

/// For work that runs: whether the range may be touched; a fault where it may not.
bool holds(Driver& driver, const void* memory, std::size_t bytes, const char* what) {
  if (bytes == 0 || driver.memory.find(memory, bytes)) return true;
  driver.set_fault(std::string(what) + " of " + std::to_string(bytes) +
                   " bytes reaches memory that is not there");
  return false;
}

/// Of what it touches one allocation of the device, at `memory`.
CUresult enqueue_copy(Driver& driver, CUstream stream, CUdeviceptr memory, std::function<void()> copy) {
  Stream* const target = driver.stream(stream);
  if (!target) return CUDA_ERROR_INVALID_HANDLE;
  auto task = std::make_shared<Task>();
  task->run = [&driver, memory, copy = std::move(copy)] {
    driver.memory.open(pointer(memory));
    copy();
  };
  return driver.enqueue(*target, task);
}

/// What waits for the host may not be called on a stream that captures.
CUresult refuse_while_capturing(Stream& stream) {
  if (!stream.capture) return CUDA_SUCCESS;
  stream.capture->valid = false;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/// Of a call that has waited: the host may look at what it was given, and at no memory of the device.
CUresult end_wait(Driver& driver) {
  if (std::string wrong = driver.memory.check(); !wrong.empty()) driver.set_fault(wrong);
  if (driver.scheduler.idle()) driver.memory.close();
  return driver.fault.empty() ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

template <class Handle, class Object>
Handle keep(std::set<Object*>& alive, Object* object) {
  alive.insert(object);
  return reinterpret_cast<Handle>(object);
}
template <class Object, class Handle>
Object* find(const std::set<Object*>& alive, Handle handle) {
  auto* const object = reinterpret_cast<Object*>(handle);
  return alive.count(object) ? object : nullptr;
}

}  // namespace

extern "C" {

// ---- memory --------------------------------------------------------------------------------------

CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  SOFTWARE_CUDA_CALL(cuMemAlloc);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Context* const context = driver.current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* const made = driver.memory.allocate(bytes, context);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  *memory = reinterpret_cast<CUdeviceptr>(made);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr memory) {
  SOFTWARE_CUDA_CALL(cuMemFree);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!driver.current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  driver.scheduler.finish_all();  // as real ones do
  bool known = false;
  const std::string wrong = driver.memory.release(pointer(memory), /*pinned=*/false, known);
  if (!wrong.empty()) driver.set_fault(wrong);
  return known ? end_wait(driver) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSynchronize(void) {
  SOFTWARE_CUDA_CALL(cuCtxSynchronize);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (!driver.current_context()) return CUDA_ERROR_INVALID_CONTEXT;
  ++driver.waits;
  driver.scheduler.finish_all();
  return end_wait(driver);
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  SOFTWARE_CUDA_CALL(cuMemHostAlloc);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Context* const context = driver.current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *memory = driver.memory.allocate_pinned(bytes, context);
  return *memory ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemFreeHost(void* memory) {
  SOFTWARE_CUDA_CALL(cuMemFreeHost);
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  driver.scheduler.finish_all();
  bool known = false;
  driver.memory.release(memory, /*pinned=*/true, known);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void* source, std::size_t bytes, CUstream stream) {
  SOFTWARE_CUDA_CALL(cuMemcpyHtoDAsync);
  const auto check = [&driver, target, bytes] {
    return holds(driver, pointer(target), bytes, "a copy to the device");
  };
  if (driver.memory.is_pinned(source)) {
    // Read when its turn comes: who writes it before has lost.
    return enqueue_copy(driver, stream, target, [=, &driver] {
      if (check() && holds(driver, source, bytes, "a copy from pinned memory")) {
        std::memcpy(pointer(target), source, bytes);
      }
    });
  }
  auto staged = std::make_shared<const std::string>(static_cast<const char*>(source), bytes);
  return enqueue_copy(driver, stream, target, [=] {
    if (check()) std::memcpy(pointer(target), staged->data(), bytes);
  });
}

CUresult cuMemcpyDtoHAsync(void* target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  SOFTWARE_CUDA_CALL(cuMemcpyDtoHAsync);
  const bool pinned = driver.memory.is_pinned(target);
  Stream* const from = driver.stream(stream);
  if (!from) return CUDA_ERROR_INVALID_HANDLE;
  const CUresult enqueued = enqueue_copy(driver, stream, source, [=, &driver] {
    if (pinned && !holds(driver, target, bytes, "a copy to pinned memory")) return;
    if (holds(driver, pointer(source), bytes, "a copy from the device"))
      std::memcpy(target, pointer(source), bytes);
  });
  if (enqueued != CUDA_SUCCESS || pinned || from->capture) return enqueued;
  ++driver.waits;  // of pageable memory the driver waits itself
  driver.scheduler.finish(from->last);
  return end_wait(driver);
}

// From device memory, to device memory or pinned memory.
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  SOFTWARE_CUDA_CALL(cuMemcpyAsync);
  return enqueue_copy(driver, stream, source, [=, &driver] {
    if (holds(driver, pointer(target), bytes, "the target of a copy") &&
        holds(driver, pointer(source), bytes, "a copy from the device")) {
      driver.memory.open(pointer(target));
      std::memcpy(pointer(target), pointer(source), bytes);
    }
  });
}

CUresult cuMemsetD32Async(CUdeviceptr target, unsigned word, std::size_t words, CUstream stream) {
  SOFTWARE_CUDA_CALL(cuMemsetD32Async);
  if (target % sizeof(word) != 0) return CUDA_ERROR_INVALID_VALUE;
  return enqueue_copy(driver, stream, target, [=, &driver] {
    if (!holds(driver, pointer(target), words * sizeof(word), "a fill")) return;
    // Copies that double, because AddressSanitizer checks each word of a loop, which takes many times as
    // long.
    auto* const first = reinterpret_cast<unsigned*>(target);
    std::size_t filled = std::min<std::size_t>(words, 16);
    std::fill_n(first, filled, word);
    while (filled < words) {
      const std::size_t more = std::min(filled, words - filled);
      std::memcpy(first + filled, first, more * sizeof(word));
      filled += more;
    }
  });
}

// ---- streams -------------------------------------------------------------------------------------

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  SOFTWARE_CUDA_CALL(cuStreamCreate);
  Context* const context = driver.current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  auto* const made = new Stream;
  made->context = context;
  made->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  *stream = keep<CUstream>(driver.streams, made);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) {
  SOFTWARE_CUDA_CALL(cuStreamDestroy);
  Stream* const stream = find<Stream>(driver.streams, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  driver.streams.erase(stream);  // what it holds is still done
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  SOFTWARE_CUDA_CALL(cuStreamSynchronize);
  Stream* const stream = driver.stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = refuse_while_capturing(*stream)) return refused;
  if (driver.spoils_capture()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  ++driver.waits;
  std::vector<minuet::software_cuda::NodePtr> awaited{stream->last};
  for (const Stream* other : driver.streams) {
    if (stream->is_null && other->blocking && other->context == stream->context)
      awaited.push_back(other->last);
  }
  for (const minuet::software_cuda::NodePtr& node : awaited) driver.scheduler.finish(node);
  return end_wait(driver);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  SOFTWARE_CUDA_CALL(cuStreamWaitEvent);
  Stream* const stream = driver.stream(handle);
  Event* const awaited = find<Event>(driver.events, event);
  if (!stream || !awaited) return CUDA_ERROR_INVALID_HANDLE;
  return driver.wait_for(*stream, *awaited);
}

CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  SOFTWARE_CUDA_CALL(cuStreamGetCtx);
  const Stream* const stream = driver.stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *context = reinterpret_cast<CUcontext>(stream->context);
  *green = stream->green;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  SOFTWARE_CUDA_CALL(cuLaunchHostFunc);
  Stream* const stream = driver.stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  auto task = std::make_shared<Task>();
  task->run = [=] { function(data); };
  task->on_host = true;
  return driver.enqueue(*stream, task);
}

// ---- events --------------------------------------------------------------------------------------

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  SOFTWARE_CUDA_CALL(cuEventCreate);
  Context* const context = driver.current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  auto* const made = new Event;
  made->context = context;
  made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = keep<CUevent>(driver.events, made);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  SOFTWARE_CUDA_CALL(cuEventDestroy);
  Event* const event = find<Event>(driver.events, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  driver.events.erase(event);
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  SOFTWARE_CUDA_CALL(cuEventRecord);
  Stream* const from = driver.stream(stream);
  Event* const event = find<Event>(driver.events, handle);
  if (!from || !event || from->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  return driver.record(*from, *event);
}

CUresult cuEventQuery(CUevent handle) {
  SOFTWARE_CUDA_CALL(cuEventQuery);
  const Event* const event = find<Event>(driver.events, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (event->capture.lock()) return CUDA_ERROR_CAPTURED_EVENT;
  const bool done = !event->node || event->node->state == minuet::software_cuda::Node::State::Done;
  return done ? end_wait(driver) : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent handle) {
  SOFTWARE_CUDA_CALL(cuEventSynchronize);
  const Event* const event = find<Event>(driver.events, handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto capture = event->capture.lock()) {
    capture->valid = false;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  ++driver.waits;
  driver.scheduler.finish(event->node);
  return end_wait(driver);
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent first, CUevent second) {
  SOFTWARE_CUDA_CALL(cuEventElapsedTime);
  const Event* const begin = find<Event>(driver.events, first);
  const Event* const end = find<Event>(driver.events, second);
  if (!begin || !end || !begin->timed || !end->timed || !begin->node || !end->node)
    return CUDA_ERROR_INVALID_HANDLE;
  for (const Event* event : {begin, end}) {
    if (event->node->state != minuet::software_cuda::Node::State::Done) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
  return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent first, CUevent second) {
  return cuEventElapsedTime(milliseconds, first, second);
}

// ---- capture, graphs -----------------------------------------------------------------------------

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  SOFTWARE_CUDA_CALL(cuStreamBeginCapture);
  Stream* const stream = driver.stream(handle);
  return stream ? driver.begin_capture(*stream, mode) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  SOFTWARE_CUDA_CALL(cuStreamIsCapturing);
  const Stream* const stream = driver.stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *status = stream->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  SOFTWARE_CUDA_CALL(cuThreadExchangeStreamCaptureMode);
  driver.exchange_capture_mode(*mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  SOFTWARE_CUDA_CALL(cuStreamEndCapture);
  *graph = nullptr;
  Stream* const stream = driver.stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  auto made = std::make_unique<Graph>();
  if (const CUresult result = driver.end_capture(*stream, *made)) return result;
  *graph = reinterpret_cast<CUgraph>(made.release());
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  SOFTWARE_CUDA_CALL(cuGraphInstantiate);
  *exec = reinterpret_cast<CUgraphExec>(new GraphExec{*reinterpret_cast<Graph*>(graph), nullptr});
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  SOFTWARE_CUDA_CALL(cuGraphLaunch);
  Stream* const stream = driver.stream(handle);
  return stream ? driver.launch(*reinterpret_cast<GraphExec*>(exec), *stream) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  SOFTWARE_CUDA_CALL(cuGraphExecDestroy);
  delete reinterpret_cast<GraphExec*>(exec);
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  SOFTWARE_CUDA_CALL(cuGraphDestroy);
  delete reinterpret_cast<Graph*>(graph);
  return CUDA_SUCCESS;
}

// ---- what CUDA's other libraries ask ---------------------------------------------------------------

CUresult software_cuda_enqueue(CUstream stream, void (*work)(void*), void* state, void (*release)(void*)) {
  std::shared_ptr<void> kept(state, release);
  SOFTWARE_CUDA_CALL(software_cuda_enqueue);
  Stream* const target = driver.stream(stream);
  if (!target) return CUDA_ERROR_INVALID_HANDLE;
  auto task = std::make_shared<Task>();
  task->run = [&driver, work, kept] {
    driver.memory.open();
    work(kept.get());
  };
  return driver.enqueue(*target, task);
}

int software_cuda_holds(const void* memory, std::size_t bytes) {
  const Lock lock;
  return bytes == 0 || Driver::get().memory.find(memory, bytes) != nullptr;
}

void software_cuda_fault(const char* what) {
  const Lock lock;
  Driver::get().set_fault(what);
}
}
