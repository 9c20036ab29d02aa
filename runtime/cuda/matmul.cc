#include "runtime/cuda/matmul.h"

#include "llvm/ADT/Hashing.h"

namespace minuet {
namespace {

constexpr int kCandidates = 4;

// If an algorithm splits a sum, it must add the partial sums in a fixed order. Algorithms do so in the
// workspace, but not in place, so the schemes that add in place are excluded.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

cudaDataType_t data_type(DType type) {
  switch (type) {
#define MINUET_DTYPE_ROW(type, name, storage, bytes, overflow, cuda, ...) \
  case DType::type:                                                       \
    return cuda;
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
    case DType::U8:
    case DType::S8:
      break;  // GEMMs of cuBLASLt multiply no integers.
  }
  return CUDA_R_32F;
}

constexpr cublasComputeType_t kComputes[] = {
#define MINUET_DTYPE_ROW(type, name, storage, bytes, overflow, cuda, compute) compute,
    MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
};

std::size_t hash_of(const MatmulKey& key) {
  return llvm::hash_combine(key.shape.in_channels, key.shape.out_channels, key.shape.io, key.shape.algorithm,
                            key.mode, key.height_bucket, key.batch_bucket, key.input_ld, key.weight_alignment,
                            key.input_alignment, key.output_alignment);
}

}  // namespace

llvm::Expected<std::unique_ptr<Matmuls>> Matmuls::create(const std::string& cublaslt) {
  MINUET_ASSIGN(const CublasLt* library, CublasLt::get(cublaslt));
  std::unique_ptr<Matmuls> matmuls(new Matmuls(*library));
  MINUET_TRY(check(*library, library->cublasLtCreate(&matmuls->handle_), "cublasLtCreate"));
  for (i32 i = 0; i < kDTypeCount; ++i) {
    cublasLtMatmulDescOpaque_t& operation = matmuls->operations_[i];
    MINUET_TRY(check(
        *library,
        library->cublasLtMatmulDescInit_internal(&operation, sizeof(operation), kComputes[i], CUDA_R_32F),
        "cublasLtMatmulDescInit"));
  }
  return matmuls;
}

Matmuls::~Matmuls() {
  if (handle_) static_cast<void>(library_.cublasLtDestroy(handle_));
}

llvm::Error Matmuls::lay_out(const MatmulProblem& problem, MatmulLayouts& layouts) const {
  const MatmulShape& shape = problem.shape;
  const auto height = static_cast<std::uint64_t>(problem.height);
  const auto in = static_cast<std::uint64_t>(shape.in_channels);
  const auto out = static_cast<std::uint64_t>(shape.out_channels);
  // A rejected attribute must not go unnoticed, because a layout without its batch mode would make the GEMM
  // read a table of pointers as numbers.
  auto lay = [&](cublasLtMatrixLayoutOpaque_t& layout, DType type, std::uint64_t rows, std::uint64_t columns,
                 i64 ld, i64 stride) -> llvm::Error {
    MINUET_TRY(check(library_,
                     library_.cublasLtMatrixLayoutInit_internal(&layout, sizeof(layout), data_type(type),
                                                                rows, columns, ld),
                     "cublasLtMatrixLayoutInit"));
    if (problem.mode == BatchMode::Single) return llvm::Error::success();
    auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      return check(library_,
                   library_.cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof(value)),
                   "cublasLtMatrixLayoutSetAttribute");
    };
    MINUET_TRY(set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(problem.batch)));
    return problem.mode == BatchMode::Strided
               ? set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, static_cast<std::int64_t>(stride))
               : set(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE,
                     static_cast<std::uint32_t>(CUBLASLT_BATCH_MODE_POINTER_ARRAY));
  };
  MINUET_TRY(lay(layouts.weight, shape.io, out, in, shape.out_channels, static_cast<i64>(in * out)));
  MINUET_TRY(lay(layouts.input, shape.io, in, height, problem.input_ld, problem.height * problem.input_ld));
  return lay(layouts.output, DType::F32, out, height, shape.out_channels,
             problem.height * shape.out_channels);
}

llvm::Error Matmuls::look_up(const MatmulProblem& problem, MatmulAlgorithm& result) const {
  MatmulLayouts layouts;
  result.found = false;
  if (llvm::Error error = lay_out(problem, layouts)) {
    if (problem.mode != BatchMode::Pointers) return error;
    // This version of cuBLASLt does not support pointer arrays, so result.found remains false.
    llvm::consumeError(std::move(error));
    return llvm::Error::success();
  }
  cublasLtMatmulPreferenceOpaque_t preference;
  MINUET_TRY(check(library_, library_.cublasLtMatmulPreferenceInit_internal(&preference, sizeof(preference)),
                   "cublasLtMatmulPreferenceInit"));
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return check(library_,
                 library_.cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  MINUET_TRY(
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kMatmulWorkspaceBytes)));
  MINUET_TRY(prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions));
  const auto output_alignment = static_cast<std::uint32_t>(problem.output_alignment);
  MINUET_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                    static_cast<std::uint32_t>(problem.weight_alignment)));
  MINUET_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    static_cast<std::uint32_t>(problem.input_alignment)));
  MINUET_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, output_alignment));
  MINUET_TRY(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, output_alignment));

  // Some algorithms in cuBLASLt's list cannot run, so the code requests several, and more if the tuned choice
  // is not the first one.
  cublasLtMatmulHeuristicResult_t results[kMostGemmAlgorithms] = {};
  const int most = problem.shape.algorithm == 0 ? kCandidates : kMostGemmAlgorithms;
  int count = 0;
  const cublasStatus_t status = library_.cublasLtMatmulAlgoGetHeuristic(
      handle_, &operations_[static_cast<int>(problem.shape.io)], &layouts.weight, &layouts.input,
      &layouts.output, &layouts.output, &preference, most, results, &count);
  // It is no error if cuBLASLt has no algorithm; `result.found` then remains false. Any other failure is an
  // error.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return llvm::Error::success();
  MINUET_TRY(check(library_, status, "cublasLtMatmulAlgoGetHeuristic"));
  // Counts the usable algorithms that are still to be skipped. If there are too few, the last one is taken.
  i32 rest = problem.shape.algorithm;
  for (int i = 0; i < count && rest >= 0; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS ||
        results[i].workspaceSize > static_cast<std::size_t>(kMatmulWorkspaceBytes)) {
      continue;
    }
    result.algorithm = results[i].algo;
    result.found = true;
    --rest;
  }
  return llvm::Error::success();
}

const MatmulEntry* Matmuls::find_in(const MatmulEntry* entry, const MatmulKey& key) {
  while (entry != nullptr && entry->key != key) entry = entry->next;
  return entry;
}

llvm::Expected<const MatmulEntry*> Matmuls::find(const MatmulKey& key, i64& lookups) {
  std::atomic<const MatmulEntry*>& bucket = buckets_[hash_of(key) % buckets_.size()];
  if (const MatmulEntry* const known = find_in(bucket.load(std::memory_order_acquire), key)) return known;
  // The look-up in cuBLASLt runs without the lock. If two threads look up the same key, the result that is
  // added first is kept.
  MatmulAlgorithm algorithm;
  ++lookups;
  MINUET_TRY(look_up(representative(key), algorithm));
  const std::lock_guard<std::mutex> lock(mutex_);
  const MatmulEntry* const first = bucket.load(std::memory_order_relaxed);
  if (const MatmulEntry* const known = find_in(first, key)) return known;
  const MatmulEntry* const added = &entries_.emplace_back(key, algorithm, first);
  bucket.store(added, std::memory_order_release);
  return added;
}

llvm::Expected<bool> Matmuls::takes_pointers(const MatmulShape& shape, i64& lookups) {
  MINUET_ASSIGN(const MatmulEntry* algorithm, find(pointers_probe(shape), lookups));
  return algorithm->found;
}

cublasStatus_t Matmuls::enqueue(const BoundMatmul& matmul, void* workspace, CUstream stream) {
  static constexpr float kOne = 1, kZero = 0;
  // The API takes non-const pointers to layouts, but only reads the layouts.
  auto& layouts = const_cast<MatmulLayouts&>(matmul.layouts);
  return library_.cublasLtMatmul(handle_, operation(matmul.problem.shape.io), &kOne, matmul.weight,
                                 &layouts.weight, matmul.input, &layouts.input, &kZero, matmul.output,
                                 &layouts.output, matmul.output, &layouts.output, &matmul.algorithm,
                                 workspace, static_cast<std::size_t>(kMatmulWorkspaceBytes), stream);
}

llvm::Error Matmuls::run(BoundMatmul& matmul, void* workspace, CUstream stream, i64& lookups) {
  cublasStatus_t status = enqueue(matmul, workspace, stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    MatmulAlgorithm exact;
    ++lookups;
    MINUET_TRY(look_up(matmul.problem, exact));
    if (exact.found) {
      matmul.algorithm = exact.algorithm;
      status = enqueue(matmul, workspace, stream);
    }
  }
  if (status == CUBLAS_STATUS_SUCCESS) return llvm::Error::success();
  return cublaslt_error(library_, status,
                        llvm::formatv("cublasLtMatmul of {0} x [{1}, {2}] x [{2}, {3}]", matmul.problem.batch,
                                      matmul.problem.height, matmul.problem.shape.in_channels,
                                      matmul.problem.shape.out_channels)
                            .str());
}

}  // namespace minuet
