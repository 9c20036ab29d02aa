// Runs grouped GEMMs through cuBLASLt. An algorithm is looked up once per bucket of sizes (matmul_key.h) and
// bound to addresses once per point cloud.
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

/// Limits the device memory that one cuBLASLt algorithm may use on one stream.
constexpr i64 kMatmulWorkspaceBytes = i64{8} << 20;

/// Holds the result of looking up a GEMM algorithm. `found` is false if cuBLASLt has none.
struct MatmulAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  bool found = false;
};

/// Holds the algorithm of a key. Only is_warm changes after the construction.
struct MatmulEntry : MatmulAlgorithm {
  MatmulEntry(const MatmulKey& the_key, const MatmulAlgorithm& algorithm, const MatmulEntry* the_next)
      : MatmulAlgorithm(algorithm), key(the_key), next(the_next) {}

  const MatmulKey key;
  mutable std::atomic<bool> is_warm{false};  // A thread sets this before it loads the kernel.
  const MatmulEntry* const next;             // This is the next entry in the same bucket of the hash table.
};

/// Holds cuBLASLt's descriptions of the matrices of one GEMM. cuBLASLt is column-major, so the GEMM computes
/// out^T = weight^T in^T.
struct MatmulLayouts {
  cublasLtMatrixLayoutOpaque_t weight, input, output;
};

/// Describes one GEMM or batch that is ready to run. With BatchMode::Pointers, `weight`, `input` and `output`
/// are the addresses of arrays of pointers.
struct BoundMatmul {
  MatmulProblem problem;
  MatmulLayouts layouts;
  cublasLtMatmulAlgo_t algorithm = {};
  const void* weight = nullptr;
  const void* input = nullptr;
  void* output = nullptr;
};

/// Finds and runs GEMM algorithms on one device. The class is thread-safe. The device's context must be
/// current in every call.
class Matmuls {
 public:
  static llvm::Expected<std::unique_ptr<Matmuls>> create(const std::string& cublaslt = {});
  ~Matmuls();
  Matmuls(const Matmuls&) = delete;
  Matmuls& operator=(const Matmuls&) = delete;

  /// Returns the algorithm for a key. The result stays valid as long as this object. The first call for a key
  /// asks cuBLASLt, which takes long, and adds 1 to `lookups`. Later calls find the algorithm without a lock.
  llvm::Expected<const MatmulEntry*> find(const MatmulKey& key, i64& lookups);
  /// Returns true if cuBLASLt can run batches of this shape whose members are given by arrays of pointers.
  llvm::Expected<bool> takes_pointers(const MatmulShape& shape, i64& lookups);
  /// Looks up an algorithm for exactly this problem. `result.found` is false if there is none.
  llvm::Error look_up(const MatmulProblem& problem, MatmulAlgorithm& result) const;
  llvm::Error lay_out(const MatmulProblem& problem, MatmulLayouts& layouts) const;
  /// Enqueues the GEMM. If its algorithm refuses the problem, looks up another algorithm for exactly this
  /// problem, adds 1 to `lookups` and stores the algorithm in `matmul`.
  llvm::Error run(BoundMatmul& matmul, void* workspace, CUstream stream, i64& lookups);

 private:
  explicit Matmuls(const CublasLt& library) : library_(library) {}
  static const MatmulEntry* find_in(const MatmulEntry* entry, const MatmulKey& key);
  cublasLtMatmulDescOpaque_t* operation(DType io) { return &operations_[static_cast<int>(io)]; }
  cublasStatus_t enqueue(const BoundMatmul& matmul, void* workspace, CUstream stream);

  const CublasLt& library_;
  cublasLtHandle_t handle_ = nullptr;
  /// cuBLASLt only reads these descriptors, but its functions take non-const pointers.
  mutable cublasLtMatmulDescOpaque_t operations_[kDTypeCount];
  std::mutex mutex_;  // Guards additions to entries_. A search in buckets_ takes no lock.
  std::deque<MatmulEntry> entries_;
  /// The index of a bucket is the hash of its keys modulo 256.
  std::array<std::atomic<const MatmulEntry*>, 256> buckets_ = {};
};

}  // namespace minuet
