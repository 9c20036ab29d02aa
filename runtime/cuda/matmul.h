// Grouped GEMMs through cuBLASLt: algorithms looked up once a bucket, bound to addresses once a cloud.
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

/// Device memory that an algorithm may use, one piece a stream.
constexpr i64 kMatmulWorkspaceBytes = i64{8} << 20;

/// What a look-up found: `found` is false where cuBLASLt has no algorithm.
struct MatmulAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false;
};

/// The algorithm of a key. Nothing of it changes but is_warm.
struct MatmulEntry : MatmulAlgorithm {
  MatmulEntry(const MatmulKey& the_key, const MatmulAlgorithm& algorithm, const MatmulEntry* the_next)
      : MatmulAlgorithm(algorithm), key(the_key), next(the_next) {}

  const MatmulKey key;
  mutable std::atomic<bool> is_warm{false};  // its kernel is loaded, or some thread is loading it
  const MatmulEntry* const next;             // of the same bucket
};

/// The layouts of one problem. The GEMM is column-major for cuBLASLt: out^T = weight^T in^T.
struct MatmulLayouts {
  cublasLtMatrixLayoutOpaque_t weight, input, output;
};

/// One GEMM or batch, ready to run. In Pointers mode the three addresses are arrays of pointers.
struct BoundMatmul {
  MatmulProblem problem;
  MatmulLayouts layouts;
  cublasLtMatmulAlgo_t algorithm = {};
  const void* weight = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
};

/// Algorithms of one device. Thread-safe; the device's context is current in every call.
class Matmuls {
 public:
  static llvm::Expected<std::unique_ptr<Matmuls>> create(const std::string& cublaslt = {});
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  /// The algorithm for a key; valid as long as this. One look-up costs tens of microseconds, and
  /// `lookups` counts it, the first time; the same key is found again without a lock.
  llvm::Expected<const MatmulEntry*> find(const MatmulKey& key, i64& lookups);
  /// Whether there are batches by pointers for a shape.
  llvm::Expected<bool> takes_pointers(const MatmulShape& shape, i64& lookups);
  /// For exactly this problem; `result.found` says whether there is one.
  llvm::Error look_up(const MatmulProblem& problem, MatmulAlgorithm& result) const;
  llvm::Error lay_out(const MatmulProblem& problem, MatmulLayouts& layouts) const;
  /// Enqueues. An algorithm that refuses this very problem is replaced, in `matmul`, by one that takes it.
  llvm::Error run(BoundMatmul& matmul, void* workspace, CUstream stream, i64& lookups);

 private:
  explicit Matmuls(const CublasLt& library) : library_(library) {}
  static const MatmulEntry* find_in(const MatmulEntry* entry, const MatmulKey& key);
  cublasLtMatmulDescOpaque_t* operation(DType io) { return &operations_[static_cast<int>(io)]; }
  cublasStatus_t enqueue(const BoundMatmul& matmul, void* workspace, CUstream stream);

  const CublasLt& library_;
  cublasLtHandle_t handle_ = nullptr;
  mutable cublasLtMatmulDescOpaque_t operations_[kDTypeCount];  // cuBLASLt only reads them
  std::mutex mutex_;                                            // of adding entries; finding takes no lock
  std::deque<MatmulEntry> entries_;
  std::array<std::atomic<const MatmulEntry*>, 256> buckets_ = {};  // by the hash of the key
};

}  // namespace minuet
