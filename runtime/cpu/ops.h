// Declares the interface of ops on the CPU. Each op is an object, which is made from the table in
// families.cc.
#pragma once

#include <memory>

#include "codegen/base/thread_pool.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/engine.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Holds the resources that an op uses during a call.
struct CpuCall {
  ThreadPool& pool;
  const VectorKernels& kernels;
  float* scratch;     // Has the shape [threads of the pool][scratch_words].
  i64 scratch_words;  // Holds the maximum of CpuOp::scratch_words() over the engine's ops.
  /// Runs `work` and, if profiling is on, adds its time to the member `stage` of the engine's StageTimes.
  llvm::function_ref<void(double StageTimes::*stage, llvm::function_ref<void()> work)> timed;
};

/// Runs one op. Only one thread at a time calls it.
class CpuOp {
 public:
  virtual ~CpuOp() = default;
  /// Returns how many fp32 words of scratch memory the op needs for each thread of the pool.
  virtual i64 scratch_words() const = 0;
  /// Prepares the op for a point cloud. It is called before the first run on that cloud.
  virtual llvm::Error prepare(const CpuCall&, const OpRequest&) { return llvm::Error::success(); }
  virtual llvm::Error run(const CpuCall& call, const OpRequest& request) = 0;
};

/// Describes a row of the table of op families, which families.cc defines.
struct CpuFamily {
  const OpFamily& family;
  llvm::Expected<std::unique_ptr<CpuOp>> (*make)(const OpChoice& choice);
};
llvm::ArrayRef<CpuFamily> cpu_families();

/// Makes an op that runs `choice`. Returns InvalidArgument if a tensor's rows have fewer elements than the
/// tensor has channels.
llvm::Expected<std::unique_ptr<CpuOp>> make_cpu_op(const OpChoice& choice);

}  // namespace minuet
