// Grouped GEMMs through cuBLASLt. Algorithms are looked up once per bucket and bound to addresses once per
// cloud.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "codegen/choose/ops/convolution.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/matmul_key.h"

namespace minuet {

inline MatmulShape shape_of(const GmasChoice& choice) {
  const ConvolutionProblem& problem = choice.problem;
  return {problem.in_channels, problem.out_channels, problem.dtype, choice.gemm.algorithm};
}

/// Device memory that an algorithm may use, per stream.
constexpr i64 kMatmulWorkspaceBytes = i64{8} << 20;

/// The result of a look-up. `found` is false if cuBLASLt has no algorithm.
struct MatmulAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false;
};

/// The algorithm of a key. Only is_warm changes.
struct MatmulEntry : MatmulAlgorithm {
  MatmulEntry(const MatmulKey& the_key, const MatmulAlgorithm& algorithm, const MatmulEntry* the_next)
      : MatmulAlgorithm(algorithm), key(the_key), next(the_next) {}

  const MatmulKey key;
  mutable std::atomic<bool> is_warm{false};  // true if its kernel is loaded or being loaded
  const MatmulEntry* const next;             // in the same bucket of the hash table
};

/// The layouts of one problem. cuBLASLt is column-major, so the GEMM is out^T = weight^T in^T.
struct MatmulLayouts {
  cublasLtMatrixLayoutOpaque_t weight, input, output;
};

/// One GEMM or batch, ready to run. In Pointers mode the three addresses are those of arrays of pointers.
struct BoundMatmul {
  MatmulProblem problem;
  MatmulLayouts layouts;
  cublasLtMatmulAlgo_t algorithm = {};
  const void* weight = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
};

/// The GEMM algorithms of one device. Thread-safe; the device's context must be current in every call.
class Matmuls {
 public:
  static llvm::Expected<std::unique_ptr<Matmuls>> create(const std::string& cublaslt = {});
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  /// Returns the algorithm for a key; it stays valid as long as this object. The first call for a key asks
  /// cuBLASLt, which takes long, and counts that in `lookups`; later calls find it without a lock.
  llvm::Expected<const MatmulEntry*> find(const MatmulKey& key, i64& lookups);
  /// Returns true if cuBLASLt has batches by pointers for a shape.
  llvm::Expected<bool> takes_pointers(const MatmulShape& shape, i64& lookups);
  /// Looks an algorithm up for exactly this problem; `result.found` is false if there is none.
  llvm::Error look_up(const MatmulProblem& problem, MatmulAlgorithm& result) const;
  llvm::Error lay_out(const MatmulProblem& problem, MatmulLayouts& layouts) const;
  /// Enqueues the GEMM. If the algorithm refuses this very problem, `matmul` gets one that accepts it.
  llvm::Error run(BoundMatmul& matmul, void* workspace, CUstream stream, i64& lookups);

 private:
  explicit Matmuls(const CublasLt& library) : library_(library) {}
  static const MatmulEntry* find_in(const MatmulEntry* entry, const MatmulKey& key);
  cublasLtMatmulDescOpaque_t* operation(DType io) { return &operations_[static_cast<int>(io)]; }
  cublasStatus_t enqueue(const BoundMatmul& matmul, void* workspace, CUstream stream);

  const CublasLt& library_;
  cublasLtHandle_t handle_ = nullptr;
  mutable cublasLtMatmulDescOpaque_t operations_[kDTypeCount];  // cuBLASLt only reads them
  std::mutex mutex_;  // guards additions to entries_; find() takes no lock
  std::deque<MatmulEntry> entries_;
  std::array<std::atomic<const MatmulEntry*>, 256> buckets_ = {};  // by the hash of the key
};

}  // namespace minuet
