// Declares the interface of ops on a GPU. An engine has one object per op family, which it makes from the
// table in families.cc.
#pragma once

#include <memory>

#include "runtime/cuda/launcher.h"

namespace minuet {

/// Runs the ops of one family on one engine. Each op is added once. For each cloud, prepare() comes before
/// run(). Calls come from one thread at a time, between the engine's begin() and end(), with the device's
/// context current. All calls only enqueue work.
class CudaOps {
 public:
  virtual ~CudaOps() = default;
  /// Adds an op and returns its number within the family.
  virtual llvm::Expected<i32> add(const OpChoice& choice) = 0;
  /// Returns how many bytes of device memory the family needs for data that it keeps between calls. The
  /// result is valid once all ops are added.
  virtual i64 workspace_bytes() const { return 0; }
  virtual llvm::Error set_workspace(void*) { return llvm::Error::success(); }
  /// Returns how many bytes of device memory prepare() and run() work in. Other code may overwrite this
  /// memory between two calls.
  virtual i64 scratch_bytes() const { return 0; }
  virtual llvm::Error prepare(i32, const OpRequest&) { return llvm::Error::success(); }
  /// Sends the data that prepare() wrote for all ops to the device.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run(i32 op, const OpRequest& request) = 0;
};

/// Holds CudaOps::workspace_bytes() and CudaOps::scratch_bytes() of a family.
struct OpMemory {
  i64 workspace = 0, scratch = 0;
};

/// Describes a row of the table of op families, which families.cc defines.
struct CudaFamily {
  const OpFamily& family;
  std::unique_ptr<CudaOps> (*make)(Launcher& launcher, const CudaEngineOptions& options);
  /// Prepares what an op of this choice needs from libraries, such as GEMM algorithms of cuBLASLt. The
  /// pointer is null if the family needs nothing from libraries.
  llvm::Error (*warm_up)(CudaDevice& device, const OpChoice& choice);
  /// Returns true if two choices for one problem need the same warm-up. The pointer is null if warm_up is
  /// null.
  bool (*is_same_warm_up)(const OpChoice& a, const OpChoice& b);
  /// Returns the most memory that the family may need for ops of these choices, whatever the GPU and the
  /// versions of libraries are. It serves to tell the size of a workspace where there is no GPU. The pointer
  /// is null if the family needs no memory.
  OpMemory (*memory_bound)(llvm::ArrayRef<OpChoice> choices);
};

llvm::ArrayRef<CudaFamily> cuda_families();

/// Returns the row of `family` in the table, or Internal if there is none.
inline llvm::Expected<const CudaFamily*> cuda_family(const OpFamily& family) {
  const CudaFamily* const row = find_family(cuda_families(), family);
  if (row != nullptr) return row;
  return make_error(StatusCode::Internal, "the GPU has no kernels for ops of kind {0}", family.name);
}

}  // namespace minuet
