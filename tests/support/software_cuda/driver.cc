#include "tests/support/software_cuda/driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string_view>
#include <thread>

namespace minuet::software_cuda {
namespace {

thread_local bool lock_held = false;
thread_local char thread_mark = 0;

std::uint64_t seed_of_environment() {
  const char* const seed = std::getenv("SOFTWARE_CUDA_SEED");
  const std::uint64_t first = first_seed(seed, std::getenv("MINUET_SOFTWARE_SEED"));
  if (seed && seed == std::string_view(kFreshSeed)) {
    std::fprintf(stderr, "software CUDA: MINUET_SOFTWARE_SEED=%llu repeats the orders of this process\n",
                 static_cast<unsigned long long>(first));
  }
  return first;
}

void append_unique(std::vector<std::size_t>& steps, const std::vector<std::size_t>& more) {
  for (const std::size_t step : more) {
    if (std::find(steps.begin(), steps.end(), step) == steps.end()) steps.push_back(step);
  }
}

/// Whether all of `steps` are among `ends` or come before them.
bool are_before(const Graph& graph, const std::vector<std::size_t>& steps,
                const std::vector<std::size_t>& ends) {
  std::set<std::size_t> seen(ends.begin(), ends.end());
  // A step comes after lower numbers only.
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    if (seen.count(i)) seen.insert(graph.steps[i].after.begin(), graph.steps[i].after.end());
  }
  return std::all_of(steps.begin(), steps.end(), [&](std::size_t step) { return seen.count(step) > 0; });
}

}  // namespace

Lock::Lock() : took_(!lock_held) {
  if (!took_) return;
  Driver::get().mutex.lock();
  lock_held = true;
}
Lock::~Lock() {
  if (!took_) return;
  lock_held = false;
  Driver::get().mutex.unlock();
}

Driver::Driver()
    : scheduler({[this](const Task& task) { run(task); }, [this](const NodePtr& node) { run_on_host(node); },
                 [this] { wait_for_host(); }}) {
  scheduler.seed(seed_of_environment());
  for (int device = 0; device < kDevices; ++device) {
    primary[device].device = device;
    primary[device].primary = true;
  }
}

Driver& Driver::get() {
  static auto* const driver = new Driver;  // calls may come while the process ends
  return *driver;
}

bool ContextStack::push(Context* context) {
  if (depth_ == static_cast<int>(std::size(contexts_))) return false;
  contexts_[depth_++] = context;
  return true;
}

bool ContextStack::pop() {
  if (depth_ == 0) return false;
  --depth_;
  return true;
}

ContextStack& Driver::current() {
  static thread_local ContextStack stack;
  return stack;
}

bool Driver::is_alive(const Context* context) const {
  if (context && context->primary) return context->users > 0;
  return contexts.count(const_cast<Context*>(context)) > 0;
}

Stream* Driver::stream(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    Context* const context = current_context();
    if (!context) return nullptr;
    if (!context->null_stream) {
      context->null_stream = std::make_unique<Stream>();
      context->null_stream->context = context;
      context->null_stream->is_null = true;
    }
    return context->null_stream.get();
  }
  Stream* const stream = reinterpret_cast<Stream*>(handle);
  return streams.count(stream) ? stream : nullptr;
}

void Driver::set_fault(const std::string& what) {
  if (!fault.empty()) return;
  fault = what;
  std::fprintf(stderr, "software CUDA: %s (seed %llu)\n", what.c_str(),
               static_cast<unsigned long long>(scheduler.seed()));
}

void Driver::wait_for_host() {
  lock_held = false;
  std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
  changed.wait(lock);
  lock.release();
  lock_held = true;
}

void Driver::run_on_host(const NodePtr& node) {
  std::thread([this, node] {
    node->task->run();
    const Lock lock;
    scheduler.done(node);
    changed.notify_all();
  }).detach();
}

void Driver::run(const Task& task) {
  if (!fault.empty()) return;  // nothing runs after a fault
  try {
    task.run();
  } catch (const std::exception& error) {
    set_fault(error.what());
  }
}

NodePtr Driver::append(Stream& stream, std::shared_ptr<const Task> task) {
  auto node = std::make_shared<Node>();
  node->task = std::move(task);
  if (stream.last) node->after.push_back(stream.last);
  if (stream.is_null) {
    for (const Stream* other : streams) {
      if (other->blocking && other->context == stream.context && other->last)
        node->after.push_back(other->last);
    }
  } else if (stream.blocking && stream.context->null_stream && stream.context->null_stream->last) {
    node->after.push_back(stream.context->null_stream->last);
  }
  stream.last = node;
  scheduler.add(node);
  return node;
}

CUresult Driver::enqueue(Stream& stream, std::shared_ptr<const Task> task) {
  if (stream.capture) {
    Capture& capture = *stream.capture;
    if (!capture.valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture.graph.steps.push_back({std::move(task), stream.captured});
    stream.captured = {capture.graph.steps.size() - 1};
    return CUDA_SUCCESS;
  }
  if (stream.is_null) {
    // The null stream waits for the others, which a stream that captures cannot take part in.
    for (Stream* other : streams) {
      if (other->capture && other->blocking && other->context == stream.context) {
        other->capture->valid = false;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
    }
  }
  append(stream, std::move(task));
  return CUDA_SUCCESS;
}

CUresult Driver::record(Stream& stream, Event& event) {
  if (stream.capture) {
    if (!stream.capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event.capture = stream.capture;
    event.captured = stream.captured;
    return CUDA_SUCCESS;
  }
  event.capture.reset();
  auto task = std::make_shared<Task>();
  event.time = std::make_shared<std::chrono::steady_clock::time_point>();
  task->run = [time = event.time] { *time = std::chrono::steady_clock::now(); };
  event.node = append(stream, task);
  return CUDA_SUCCESS;
}

CUresult Driver::wait_for(Stream& stream, Event& event) {
  if (const std::shared_ptr<Capture> capture = event.capture.lock()) {
    if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream.capture && stream.capture != capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (stream.is_null) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream.capture = capture;
    capture->streams.insert(&stream);
    append_unique(stream.captured, event.captured);
    return CUDA_SUCCESS;
  }
  if (stream.capture) {
    // Of work outside of the capture, which a replay could not wait for.
    stream.capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!event.node) return CUDA_SUCCESS;
  append(stream, nullptr)->after.push_back(event.node);
  return CUDA_SUCCESS;
}

CUresult Driver::launch(GraphExec& exec, Stream& stream) {
  if (stream.capture) return CUDA_ERROR_NOT_SUPPORTED;
  const NodePtr first = append(stream, nullptr);
  if (exec.last) first->after.push_back(exec.last);
  const NodePtr last = std::make_shared<Node>();
  last->after.push_back(first);
  std::vector<NodePtr> nodes;
  for (const Graph::Step& step : exec.graph.steps) {
    auto node = std::make_shared<Node>();
    node->task = step.task;
    node->after.push_back(first);
    for (const std::size_t before : step.after) node->after.push_back(nodes[before]);
    nodes.push_back(node);
    last->after.push_back(node);
    scheduler.add(node);
  }
  scheduler.add(last);
  stream.last = exec.last = last;
  return CUDA_SUCCESS;
}

CUresult Driver::begin_capture(Stream& stream, CUstreamCaptureMode mode) {
  if (stream.is_null) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream.capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream.capture = std::make_shared<Capture>();
  stream.capture->mode = mode;
  stream.capture->thread = &thread_mark;
  stream.capture->origin = &stream;
  stream.capture->streams = {&stream};
  captures.insert(stream.capture);
  return CUDA_SUCCESS;
}

CUresult Driver::end_capture(Stream& stream, Graph& graph) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != &thread_mark) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  bool joined = true;
  for (Stream* other : capture->streams) {
    joined = joined && are_before(capture->graph, other->captured, stream.captured);
  }
  for (Stream* other : capture->streams) {
    other->capture.reset();
    if (other != &stream) other->captured.clear();
  }
  stream.captured.clear();
  captures.erase(capture);
  if (!capture->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  graph = std::move(capture->graph);
  return CUDA_SUCCESS;
}

namespace {
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
}  // namespace

void Driver::exchange_capture_mode(CUstreamCaptureMode& mode) { std::swap(thread_mode, mode); }

bool Driver::spoils_capture() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  bool spoils = false;
  for (const std::shared_ptr<Capture>& capture : captures) {
    const bool own = capture->thread == &thread_mark;
    const bool minds = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                           ? own || thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                           : own && capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    if (minds) capture->valid = false;
    spoils = spoils || minds;
  }
  return spoils;
}

void Driver::empty(Context& context) {
  scheduler.finish_all();
  for (auto stream = streams.begin(); stream != streams.end();) {
    if ((*stream)->context != &context) {
      ++stream;
      continue;
    }
    delete *stream;
    stream = streams.erase(stream);
  }
  context.null_stream.reset();
  for (auto event = events.begin(); event != events.end();) {
    if ((*event)->context != &context) {
      ++event;
      continue;
    }
    delete *event;
    event = events.erase(event);
  }
  memory.release_all(&context);
  ++context.generation;
}

Call::Call(const char* name) {
  ++driver.calls[name];
  if (!driver.fault.empty()) {
    result = CUDA_ERROR_ILLEGAL_ADDRESS;
    return;
  }
  const auto failing = driver.failing.find(name);
  if (failing != driver.failing.end() && --failing->second.first == 0) {
    result = failing->second.second;
    driver.failing.erase(failing);
    return;
  }
  driver.scheduler.advance();
}

}  // namespace minuet::software_cuda
