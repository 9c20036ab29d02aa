// What the handles of the software driver stand for. A handle is the object's address; Driver knows which are
// alive.
#pragma once

#include <cuda.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/software_cuda/cubin.h"
#include "tests/support/software_cuda/work.h"

namespace minuet::software_cuda {

/// A graph of tasks, as capture makes it: nodes after those that they name.
struct Graph {
  struct Step {
    std::shared_ptr<const Task> task;
    std::vector<std::size_t> after;
  };
  std::vector<Step> steps;
};

/// A graph that runs: once at a time, as real ones do.
struct GraphExec {
  Graph graph;
  NodePtr last;
};

struct Stream;

/// What is being captured. It ends where the stream that began it ends it.
struct Capture {
  Graph graph;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  const void* thread = nullptr;  // of the call that began it
  Stream* origin = nullptr;
  std::set<Stream*> streams;
  bool valid = true;  // no call came that a capture forbids
};

struct Context {
  int device = 0;
  bool primary = false;
  int users = 0;       // of a primary one
  int generation = 0;  // a primary one comes back anew
  std::unique_ptr<Stream> null_stream;
};

struct Stream {
  Context* context = nullptr;
  CUgreenCtx green = nullptr;
  bool blocking = true;  // orders itself with the null stream
  bool is_null = false;
  NodePtr last;
  std::shared_ptr<Capture> capture;
  std::vector<std::size_t> captured;  // the steps that the next one comes after
};

struct Event {
  Context* context = nullptr;
  bool timed = true;
  NodePtr node;                                                 // null: never recorded
  std::shared_ptr<std::chrono::steady_clock::time_point> time;  // of the last record, once it is done
  std::weak_ptr<Capture> capture;                               // where it was recorded last
  std::vector<std::size_t> captured;
};

/// A loaded cubin.
struct Library {
  ~Library();
  Cubin cubin;
  void* handle = nullptr;  // of the host's library
  Entry entry = nullptr;
};

struct Kernel {
  std::shared_ptr<Library> library;
  std::map<int, int> dynamic_shared;  // by device: the most that a launch may ask for, where not 48 KB
  std::set<std::pair<Context*, int>> loaded;  // contexts and their generations
};

struct Function {
  Kernel* kernel = nullptr;
  Context* context = nullptr;
};

struct GreenContext {
  Context* context = nullptr;
};

}  // namespace minuet::software_cuda
