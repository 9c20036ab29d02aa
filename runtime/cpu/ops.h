// Ops on the CPU: each op is an object, made from the table in families.cc.
#pragma once

#include <memory>

#include "codegen/base/thread_pool.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/engine.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Resources that an op uses during a call.
struct CpuCall {
  ThreadPool& pool;
  const VectorKernels& kernels;
  float* scratch;     // [slots of the pool][scratch_words]
  i64 scratch_words;  // the maximum over the engine's ops
  /// Runs `work` and adds its time to one stage if profiling is on.
  llvm::function_ref<void(double StageTimes::*stage, llvm::function_ref<void()> work)> timed;
};

/// One op. Only one thread calls it at a time.
class CpuOp {
 public:
  virtual ~CpuOp() = default;
  /// Returns the fp32 words of scratch that the op needs for each slot of the pool.
  virtual i64 scratch_words() const = 0;
  /// Prepares the op for a cloud. Called before its first run on that cloud.
  virtual llvm::Error prepare(const CpuCall&, const OpRequest&) { return llvm::Error::success(); }
  virtual llvm::Error run(const CpuCall& call, const OpRequest& request) = 0;
};

/// A row of the table of families (families.cc).
struct CpuFamily {
  const OpFamily& family;
  llvm::Expected<std::unique_ptr<CpuOp>> (*make)(const OpChoice& choice,
                                                 llvm::ArrayRef<const void*> parameters);
};
llvm::ArrayRef<CpuFamily> cpu_families();

/// Returns InvalidArgument if the device cannot run the choice with these parameters (Engine::add_op()).
llvm::Expected<std::unique_ptr<CpuOp>> make_cpu_op(const OpChoice& choice,
                                                   llvm::ArrayRef<const void*> parameters);

}  // namespace minuet
