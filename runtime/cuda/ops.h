// What runs ops on a GPU: an object for each family of an engine, made from the table in ops.cc.
#pragma once

#include <memory>

#include "runtime/cuda/launcher.h"

namespace minuet {

/// The ops of one family on one engine. An op is added once; for each cloud prepare() comes before run().
/// Calls come from one thread at a time, inside the engine's begin() and end(), with the device's context
/// current. All only enqueue.
class CudaOps {
 public:
  virtual ~CudaOps() = default;
  /// Returns the op's number among those of the family. `parameters`: as Engine::add_op().
  virtual llvm::Expected<i32> add(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) = 0;
  /// Device memory that the family keeps, once all ops are added.
  virtual i64 workspace_bytes() const { return 0; }
  virtual llvm::Error set_workspace(void*) { return llvm::Error::success(); }
  /// Device memory that a prepare or a run works in. Others may use it between two calls.
  virtual i64 scratch_bytes() const { return 0; }
  virtual llvm::Error prepare(i32, const OpRequest&) { return llvm::Error::success(); }
  /// Sends what the prepares of all ops wrote.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run(i32 op, const OpRequest& request) = 0;
};

/// A line of the table.
struct CudaFamily {
  const OpFamily& family;
  std::unique_ptr<CudaOps> (*make)(Launcher& launcher, const CudaEngineOptions& options);
  /// Makes ready what an op of the choice asks a library for; null where it asks for nothing.
  llvm::Error (*warm_up)(CudaDevice& device, const OpChoice& choice);
  /// Whether two choices for one problem ask for the same.
  bool (*is_same_warm_up)(const OpChoice& a, const OpChoice& b);
};

/// Null where the device does not know the family.
const CudaFamily* find_cuda_family(const OpFamily& family);

}  // namespace minuet
