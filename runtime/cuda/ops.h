// Ops on a GPU: an engine has one object per op family, made from the table in families.cc.
#pragma once

#include <memory>

#include "runtime/cuda/launcher.h"

namespace minuet {

/// The ops of one family on one engine. Each op is added once; for each cloud, prepare() comes before run().
/// Calls come from one thread at a time, between the engine's begin() and end(), with the device's context
/// current. They only enqueue.
class CudaOps {
 public:
  virtual ~CudaOps() = default;
  /// Returns the op's number within the family. `parameters` are those of Engine::add_op().
  virtual llvm::Expected<i32> add(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) = 0;
  /// Returns the bytes of device memory that the family keeps once all ops are added.
  virtual i64 workspace_bytes() const { return 0; }
  virtual llvm::Error set_workspace(void*) { return llvm::Error::success(); }
  /// Returns the bytes of device memory that a prepare or a run works in. Others may use it between two
  /// calls.
  virtual i64 scratch_bytes() const { return 0; }
  virtual llvm::Error prepare(i32, const OpRequest&) { return llvm::Error::success(); }
  /// Sends the data that the prepares of all ops wrote.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run(i32 op, const OpRequest& request) = 0;
};

/// A row of the table of families (families.cc).
struct CudaFamily {
  const OpFamily& family;
  std::unique_ptr<CudaOps> (*make)(Launcher& launcher, const CudaEngineOptions& options);
  /// Prepares what an op of the choice needs from a library; null if it needs nothing.
  llvm::Error (*warm_up)(CudaDevice& device, const OpChoice& choice);
  /// Returns true if two choices for one problem need the same warm-up.
  bool (*is_same_warm_up)(const OpChoice& a, const OpChoice& b);
};

llvm::ArrayRef<CudaFamily> cuda_families();

}  // namespace minuet
