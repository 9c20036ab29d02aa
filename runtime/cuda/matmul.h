// Grouped GEMMs through cuBLASLt: algorithms looked up once a bucket, bound to addresses once a cloud.
#pragma once

#include <cuda.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

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
  /// `lookups` counts it, the first time; the same key is found again under a lock.
  llvm::Expected<const MatmulAlgorithm*> find(const MatmulKey& key, i64& lookups);
  /// Whether there are batches by pointers for a shape.
  llvm::Expected<bool> takes_pointers(const MatmulShape& shape, i64& lookups);
  /// For exactly this problem; `result.found` says whether there is one.
  llvm::Error look_up(const MatmulProblem& problem, MatmulAlgorithm& result) const;
  llvm::Error lay_out(const MatmulProblem& problem, MatmulLayouts& layouts) const;
  /// Enqueues. An algorithm that refuses this very problem is replaced, in `matmul`, by one that takes it.
  llvm::Error run(BoundMatmul& matmul, void* workspace, CUstream stream, i64& lookups);

 private:
  explicit Matmuls(const CublasLt& library) : library_(library) {}
  cublasLtMatmulDescOpaque_t* operation(DType io) { return &operations_[static_cast<int>(io)]; }
  cublasStatus_t enqueue(const BoundMatmul& matmul, void* workspace, CUstream stream);

  const CublasLt& library_;
  cublasLtHandle_t handle_ = nullptr;
  mutable cublasLtMatmulDescOpaque_t operations_[kDTypeCount];  // cuBLASLt only reads them
  std::mutex mutex_;                                            // of the map; entries never change
  std::map<MatmulKey, MatmulAlgorithm> algorithms_;
};

/// A layer's own answers, so that a warm layer takes no lock. One thread at a time.
class MatmulMemo {
 public:
  llvm::Expected<const MatmulAlgorithm*> find(Matmuls& matmuls, const MatmulKey& key, i64& lookups) {
    for (const auto& entry : entries_) {
      if (entry.first == key) return entry.second;
    }
    MINUET_ASSIGN(const MatmulAlgorithm* algorithm, matmuls.find(key, lookups));
    entries_.emplace_back(key, algorithm);
    return algorithm;
  }

 private:
  std::vector<std::pair<MatmulKey, const MatmulAlgorithm*>> entries_;
};

}  // namespace minuet
