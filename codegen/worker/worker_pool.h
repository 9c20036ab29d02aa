// What helper processes do for this one: a compile, or as many at once as cores and memory allow (R16, R19).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "codegen/cache/entry.h"
#include "codegen/compiler.h"
#include "codegen/worker/request.h"
#include "codegen/worker/resources.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

class Trace;

struct WorkerOptions {
  std::string helper;                   // the program; empty: minuet-compile beside the library
  std::string nvrtc;                    // the library to open; empty: found as open_nvrtc finds it
  const CancelToken* cancel = nullptr;  // kills the helper; the error is Cancelled
  std::string time_trace;               // as in CompileControl; for one compile
};

/// One compile in a process of its own, which is started once more where it is lost (then ResourceExhausted),
/// and again for seconds where the system has no process or file to spare. Thread-safe.
llvm::Expected<PackedEntry> compile_in_worker(const KernelRequest& request, const WorkerOptions& options);
/// Which NVRTC there is, in the same way, but Unavailable where the helper is lost. `others`: as for
/// open_nvrtc.
llvm::Expected<NvrtcInfo> identify_in_worker(const WorkerOptions& options,
                                             const std::vector<std::string>& others);

struct WorkerPoolOptions {
  WorkerOptions worker;                  // its time_trace is not used
  int jobs = 0;                          // most processes at a time; 0: one a core
  bool pch = true;                       // precompiled headers, where enough requests share them
  std::int64_t memory_budget = 0;        // bytes for all processes; 0: what there is
  std::vector<std::string> time_traces;  // as in CompileControl, one for each request; empty: none
  Trace* trace = nullptr;                // where spans go; null: nowhere

  using Compile = llvm::function_ref<llvm::Expected<PackedEntry>()>;
  /// Stands around each compile: may find the kernel elsewhere, and keeps what `compile` gives. Called from
  /// several threads at once; null: nothing does.
  std::function<llvm::Expected<Entry>(std::size_t index, Compile compile)> around;
};

struct WorkerPoolReport {
  int workers = 0;              // at a time
  int started = 0;              // processes, with those that followed lost ones
  int lost = 0;                 // processes that ended before they answered
  int pch_created = 0;          // compiles that made a precompiled header
  int pch_used = 0;             // compiles that used one
  std::int64_t peak_bytes = 0;  // of the one process that took most
};

/// How many processes: as asked (or one a core), no more than jobs, and half a GiB for each, at least one.
int count_workers(int asked, const Resources& resources, std::size_t jobs);

class WorkerPool {
 public:
  /// Called once for every request, in the order of completion: one call at a time, from several threads.
  using OnDone = std::function<void(std::size_t index, llvm::Expected<Entry> entry)>;

  explicit WorkerPool(WorkerPoolOptions options) : options_(std::move(options)) {}

  /// Compiles all requests and returns when each is done. A request that fails takes no other with it; one
  /// whose helper was lost is tried once more. Where the host runs out of memory some requests are never
  /// done. When cancelled, what is not done yet is done as Cancelled.
  WorkerPoolReport run(const std::vector<KernelRequest>& requests, const OnDone& on_done);

 private:
  WorkerPoolOptions options_;
};

}  // namespace minuet
