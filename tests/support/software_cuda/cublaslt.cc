// A cuBLASLt for tests without a GPU: the entry points of runtime/cuda/cublaslt.inc, for the software CUDA
// device.
//
// It refuses what the real one refuses, and faults where the real one would compute nonsense: see
// cublaslt_work.cc for what is checked when a product runs.
#include <bit>
#include <cstring>

#include "tests/support/software_cuda/cublaslt_state.h"
#include "tests/support/software_cuda/cublaslt_work.h"

using namespace minuet::software;

namespace {

constexpr std::size_t kVersion = 130002;

/// Whether `value` took the attribute: its size must be the documented one.
template <class Value>
bool take(const void* buffer, std::size_t bytes, Value& value) {
  if (!buffer || bytes != sizeof(Value)) return false;
  std::memcpy(&value, buffer, sizeof(Value));
  return true;
}

bool set(MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute, const void* buffer,
         std::size_t bytes) {
  int32_t order = 0;
  uint32_t mode = 0;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      if (!take(buffer, bytes, order)) return false;
      layout.row_major = order == CUBLASLT_ORDER_ROW;
      return order == CUBLASLT_ORDER_ROW || order == CUBLASLT_ORDER_COL;
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return take(buffer, bytes, layout.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(buffer, bytes, layout.batch) && layout.batch > 0;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(buffer, bytes, layout.stride);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_MODE:
      if (!take(buffer, bytes, mode)) return false;
      layout.pointers = mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY;
      return mode == CUBLASLT_BATCH_MODE_POINTER_ARRAY || mode == CUBLASLT_BATCH_MODE_STRIDED;
    default:
      return false;
  }
}

bool set(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* buffer,
         std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(buffer, bytes, preference.workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(buffer, bytes, preference.reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: {
      uint32_t& alignment = preference.alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
      return take(buffer, bytes, alignment) && std::has_single_bit(alignment);
    }
    default:
      return false;
  }
}

template <class Mine, class Opaque, class Attribute>
cublasStatus_t set_attribute(Opaque* opaque, Attribute attribute, const void* buffer, std::size_t bytes) {
  Mine mine;
  if (!load(opaque, mine)) return State::get().wrong("an attribute of what was never initialised");
  if (!set(mine, attribute, buffer, bytes))
    return State::get().wrong("an attribute that is unknown or not valid");
  store(mine, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

/// The real one may begin its list with a candidate that says of itself that it does not work. Three that do
/// are what is behind it, as far as there is room.
int list_algorithms(const MatmulCall& call, const Preference& preference, int most,
                    cublasLtMatmulHeuristicResult_t* results) {
  int count = 0;
  if (most > 1 && hash_of(call) / 8 % 4 == 0) {
    results[count] = {};
    results[count++].state = CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (uint64_t number = 0; number < 3 && count < most; ++number) {
    cublasLtMatmulHeuristicResult_t& result = results[count++];
    result = {};
    const Algorithm algorithm = algorithm_for(call, preference, number);
    store(algorithm, &result.algo);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return count;
}

cublasStatus_t check_matmul(const MatmulWork& work, const cublasLtMatmulAlgo_t* opaque) {
  State& state = State::get();
  if (!work.addresses[kA] || !work.addresses[kB] || !work.addresses[kD] ||
      (work.beta != 0 && !work.addresses[kC])) {
    return state.wrong("an operand is null");
  }
  if (!is_supported(work.call)) return state.wrong("no such product", CUBLAS_STATUS_NOT_SUPPORTED);
  Algorithm algorithm;
  // Null asks the real one for a look-up in every call, which no caller here may want.
  if (!load(opaque, algorithm)) return state.wrong("no look-up returned this algorithm");
  if (const char* why = refusal(algorithm, work.call, false)) return state.wrong(why);
  if (state.refuses_inexact()) {
    if (const char* why = refusal(algorithm, work.call, true))
      return state.refuse(why, CUBLAS_STATUS_NOT_SUPPORTED);
  }
  if (work.workspace_bytes < algorithm.workspace) return state.wrong("the workspace is too small");
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::size_t cublasLtGetVersion() { return kVersion; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(status) \
  case status:       \
    return #status;
    NAME(CUBLAS_STATUS_SUCCESS)
    NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    NAME(CUBLAS_STATUS_ALLOC_FAILED)
    NAME(CUBLAS_STATUS_INVALID_VALUE)
    NAME(CUBLAS_STATUS_ARCH_MISMATCH)
    NAME(CUBLAS_STATUS_MAPPING_ERROR)
    NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    NAME(CUBLAS_STATUS_INTERNAL_ERROR)
    NAME(CUBLAS_STATUS_NOT_SUPPORTED)
    NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef NAME
  }
  return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return State::get().wrong("no place for a handle");
  if (!Driver::find()) return State::get().refuse("no software driver", CUBLAS_STATUS_NOT_INITIALIZED);
  *handle = State::get().add_handle();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (State::get().drop_handle(handle)) return CUBLAS_STATUS_SUCCESS;
  return State::get().wrong("no handle", CUBLAS_STATUS_NOT_INITIALIZED);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t opaque, std::size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (!opaque || size != sizeof(*opaque)) return State::get().wrong("an operation of the wrong size");
  if ((compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) || scale != CUDA_R_32F) {
    return State::get().wrong("an operation that is not fp32's or tf32's");
  }
  store(Operation{Operation::kMagic, compute}, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t opaque, std::size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  if (!opaque || size != sizeof(*opaque)) return State::get().wrong("a layout of the wrong size");
  if (type != CUDA_R_16F && type != CUDA_R_16BF && type != CUDA_R_32F) {
    return State::get().wrong("a layout of a type that there is not");
  }
  MatrixLayout layout = {};
  layout.magic = MatrixLayout::kMagic;
  layout.type = static_cast<uint16_t>(type);
  layout.rows = rows;
  layout.columns = columns;
  layout.ld = ld;
  layout.batch = 1;
  store(layout, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* buffer,
                                                std::size_t bytes) {
  return set_attribute<MatrixLayout>(layout, attribute, buffer, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t opaque, std::size_t size) {
  if (!opaque || size != sizeof(*opaque)) return State::get().wrong("a preference of the wrong size");
  // The documented defaults: no workspace, every way to add split sums, 256 bytes.
  store(Preference{Preference::kMagic, CUBLASLT_REDUCTION_SCHEME_MASK, 0, {256, 256, 256, 256}}, opaque);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* buffer, std::size_t bytes) {
  return set_attribute<Preference>(preference, attribute, buffer, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t opaque, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  State& state = State::get();
  const std::optional<cublasStatus_t> failure = state.begin_lookup();
  if (!state.has_handle(handle)) return state.wrong("no handle", CUBLAS_STATUS_NOT_INITIALIZED);
  if (!results || !count || most < 1) return state.wrong("no place for results");
  *count = 0;
  Preference preference;
  if (!load(opaque, preference)) return state.wrong("the preference was never initialised");
  MatmulCall call;
  if (const char* why = read_call(operation, {a, b, c, d}, call)) return state.wrong(why);
  if (failure) return *failure;
  if (!is_supported(call)) return state.refuse("no such product", CUBLAS_STATUS_NOT_SUPPORTED);
  if (const char* why = state.hidden(call)) {
    // The real one says it in either way.
    return state.refuse(why, hash_of(call) & 16 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS);
  }
  *count = list_algorithms(call, preference, most, results);
  state.count_found();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  State& state = State::get();
  const std::optional<cublasStatus_t> failure = state.begin_matmul();
  if (!state.has_handle(handle)) return state.wrong("no handle", CUBLAS_STATUS_NOT_INITIALIZED);
  MatmulWork work;
  work.driver = Driver::find();
  if (!work.driver) return state.refuse("no software driver", CUBLAS_STATUS_NOT_INITIALIZED);
  if (const char* why = read_call(operation, {a_layout, b_layout, c_layout, d_layout}, work.call)) {
    return state.wrong(why);
  }
  if (!take(alpha, sizeof(float), work.alpha) || !take(beta, sizeof(float), work.beta)) {
    return state.wrong("alpha or beta is null");
  }
  const void* addresses[] = {a, b, c, d};
  std::memcpy(work.addresses, addresses, sizeof(addresses));
  work.workspace = static_cast<char*>(workspace);
  work.workspace_bytes = workspace_bytes;
  if (const cublasStatus_t status = check_matmul(work, algorithm)) return status;
  if (failure) return *failure;
  static_cast<void>(load(algorithm, work.algorithm));
  if (enqueue(work, stream) != CUDA_SUCCESS) {
    return state.refuse("the driver did not take the work", CUBLAS_STATUS_EXECUTION_FAILED);
  }
  state.count_enqueued(work.algorithm);
  return CUBLAS_STATUS_SUCCESS;
}
