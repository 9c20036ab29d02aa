// The software driver: the one lock, who is alive, and how a call begins.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/software_cuda/memory.h"
#include "tests/support/software_cuda/objects.h"
#include "tests/support/software_cuda/work.h"

namespace minuet::software_cuda {

constexpr int kDevices = 2;

/// The contexts that a thread has pushed. No object with a destructor: calls come while a thread's objects
/// go, too.
class ContextStack {
 public:
  Context* top() const { return depth_ == 0 ? nullptr : contexts_[depth_ - 1]; }
  /// False where it is full.
  bool push(Context* context);
  /// False where it is empty.
  bool pop();

 private:
  Context* contexts_[64];
  int depth_;
};

class Driver {
 public:
  static Driver& get();

  // ---- all that follows: with the lock held, which Call and Lock see to ----
  Memory memory;
  Scheduler scheduler;
  Context primary[kDevices];
  std::set<Context*> contexts;  // those that cuCtxCreate made
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Kernel*> kernels;
  std::set<Function*> functions;
  std::set<std::shared_ptr<Capture>> captures;
  std::map<std::string, std::int64_t> calls;
  std::map<std::string, std::pair<int, CUresult>> failing;
  std::int64_t waits = 0;
  std::string fault;

  static ContextStack& current();  // the thread's
  Context* current_context() const { return current().top(); }
  bool is_alive(const Context* context) const;
  /// The stream behind a handle, the null stream of the current context included; null where there is none.
  Stream* stream(CUstream handle);

  /// Appends to a stream, or to what it captures. CUDA_SUCCESS, or what forbids it.
  CUresult enqueue(Stream& stream, std::shared_ptr<const Task> task);
  /// Marks what a stream holds by now.
  CUresult record(Stream& stream, Event& event);
  CUresult wait_for(Stream& stream, Event& event);
  CUresult launch(GraphExec& exec, Stream& stream);
  CUresult begin_capture(Stream& stream, CUstreamCaptureMode mode);
  /// Of the calling thread: whose captures its calls may spoil.
  static void exchange_capture_mode(CUstreamCaptureMode& mode);
  CUresult end_capture(Stream& stream, Graph& graph);
  /// Whether a call that is unsafe under capture meets one that minds; it is void then.
  bool spoils_capture();
  void set_fault(const std::string& what);
  /// Ends all that belongs to a context.
  void empty(Context& context);

  std::mutex mutex;
  std::condition_variable changed;

 private:
  Driver();
  void run(const Task& task);
  void run_on_host(const NodePtr& node);
  void wait_for_host();
  NodePtr append(Stream& stream, std::shared_ptr<const Task> task);
};

/// The driver's lock, once a thread: work that runs may ask the driver too.
class Lock {
 public:
  Lock();
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock();

 private:
  bool took_;
};

/// One call of an entry point: takes the lock, counts, lets the device go on, and may have to refuse.
class Call {
 public:
  explicit Call(const char* name);
  explicit operator bool() const { return result == CUDA_SUCCESS; }
  CUresult result = CUDA_SUCCESS;
  Driver& driver = Driver::get();

 private:
  Lock lock_;
};

/// Begins an entry point: `call` holds the lock, and `driver` is the driver.
#define SOFTWARE_CUDA_CALL(name)             \
  ::minuet::software_cuda::Call call(#name); \
  if (!call) return call.result;             \
  [[maybe_unused]] ::minuet::software_cuda::Driver& driver = call.driver

}  // namespace minuet::software_cuda
