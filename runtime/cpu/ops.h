// What runs ops on the CPU: an object for each op, made from the table in families.cc.
#pragma once

#include <memory>

#include "codegen/base/thread_pool.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/engine.h"
#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// What an op works with during a call.
struct CpuCall {
  ThreadPool& pool;
  const VectorKernels& kernels;
  float* scratch;     // [slots of the pool][scratch_words]
  i64 scratch_words;  // the most that an op of the engine wants
  /// Runs `work` and adds its time to one stage, where profiling is on.
  llvm::function_ref<void(double StageTimes::*stage, llvm::function_ref<void()> work)> timed;
};

/// One op. Calls come from one thread at a time.
class CpuOp {
 public:
  virtual ~CpuOp() = default;
  /// fp32 words of scratch for each slot of the pool.
  virtual i64 scratch_words() const = 0;
  /// What the op needs for a cloud before its first run there.
  virtual llvm::Error prepare(const CpuCall&, const OpRequest&) { return llvm::Error::success(); }
  virtual llvm::Error run(const CpuCall& call, const OpRequest& request) = 0;
};

/// A line of the table of families (families.cc).
struct CpuFamily {
  const OpFamily& family;
  llvm::Expected<std::unique_ptr<CpuOp>> (*make)(const OpChoice& choice,
                                                 llvm::ArrayRef<const void*> parameters);
};
llvm::ArrayRef<CpuFamily> cpu_families();

/// InvalidArgument where the device cannot run the choice with these parameters (Engine::add_op()).
llvm::Expected<std::unique_ptr<CpuOp>> make_cpu_op(const OpChoice& choice,
                                                   llvm::ArrayRef<const void*> parameters);

}  // namespace minuet
