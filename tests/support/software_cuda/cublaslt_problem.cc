#include "tests/support/software_cuda/cublaslt_problem.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace minuet::software {
namespace {

constexpr uint64_t kLeastWorkspace = 1024, kWorkspaceSizes = 7;  // 1 to 64 KiB, all of it written
// Above these the choice of an algorithm changes no more.
constexpr uint64_t kLargestHeight = 1 << 18, kLargestBatch = 20;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

uint64_t signature_of(const Algorithm& algorithm) {
  unsigned char bytes[offsetof(Algorithm, signature)];
  std::memcpy(bytes, &algorithm, sizeof(bytes));
  uint64_t hash = 0x5349474e;
  for (unsigned char byte : bytes) hash = mix(hash, byte);
  return hash;
}

const char* read_layout(const cublasLtMatrixLayoutOpaque_t* opaque, MatrixLayout& layout) {
  if (!load(opaque, layout)) return "a layout was never initialised";
  if (layout.rows == 0 || layout.columns == 0) return "a layout has no elements";
  const uint64_t line = layout.row_major ? layout.columns : layout.rows;
  if (layout.ld < 0 || static_cast<uint64_t>(layout.ld) < line) return "a leading dimension is too small";
  return nullptr;
}

/// An algorithm is good for up to twice the size that it was looked up for, and takes any smaller one.
bool fits(uint64_t looked_up, uint64_t asked, uint64_t largest) {
  return std::min(asked, largest) <= 2 * looked_up;
}

uint8_t orders_of(const MatmulCall& call) {
  uint8_t orders = 0;
  for (int i = 0; i < kOperands; ++i) orders |= static_cast<uint8_t>(call.layouts[i].row_major << i);
  return orders;
}

}  // namespace

const char* read_call(const cublasLtMatmulDescOpaque_t* operation,
                      const cublasLtMatrixLayoutOpaque_t* const (&layouts)[4], MatmulCall& call) {
  if (!load(operation, call.operation)) return "the operation was never initialised";
  for (int i = 0; i < kOperands; ++i) {
    if (const char* wrong = read_layout(layouts[i], call.layouts[i])) return wrong;
  }
  const auto& [a, b, c, d] = call.layouts;
  if (b.rows != a.columns) return "B's rows are not A's columns";
  for (const MatrixLayout* out : {&c, &d}) {
    if (out->rows != a.rows) return "the output's rows are not A's";
    if (out->columns != b.columns) return "the output's columns are not B's";
  }
  if (c.type != d.type) return "C and D have two types";
  for (const MatrixLayout* other : {&b, &c, &d}) {
    if (other->batch != a.batch) return "the layouts have different batch counts";
    if (other->pointers != a.pointers) return "the layouts have different batch modes";
  }
  return nullptr;
}

bool is_supported(const MatmulCall& call) {
  const auto& [a, b, c, d] = call.layouts;
  if (a.type != b.type) return false;
  if (d.type != a.type && d.type != CUDA_R_32F) return false;
  return call.operation.compute == CUBLAS_COMPUTE_32F || a.type == CUDA_R_32F;
}

uint64_t hash_of(const MatmulCall& call) {
  uint64_t hash = mix(static_cast<uint64_t>(call.operation.compute), static_cast<uint64_t>(call.mode()));
  for (const MatrixLayout& layout : call.layouts) hash = mix(hash, layout.type);
  for (uint64_t size : {call.m(), call.n(), call.k(), static_cast<uint64_t>(call.batch())}) {
    hash = mix(hash, size);
  }
  return hash ^ (hash >> 32);
}

uint16_t pitches_of(const MatmulCall& call) {
  uint64_t hash = 0;
  for (const MatrixLayout& layout : call.layouts) hash = mix(hash, static_cast<uint64_t>(layout.ld));
  return static_cast<uint16_t>(hash >> 48);
}

Algorithm algorithm_for(const MatmulCall& call, const Preference& preference, uint64_t number) {
  Algorithm algorithm = {};
  algorithm.magic = Algorithm::kMagic;
  algorithm.compute = static_cast<uint8_t>(call.operation.compute);
  algorithm.mode = static_cast<uint8_t>(call.mode());
  algorithm.type = static_cast<uint8_t>(call.layouts[kA].type);
  algorithm.out_type = static_cast<uint8_t>(call.layouts[kD].type);
  algorithm.orders = orders_of(call);
  algorithm.reduces_in_place = (preference.reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
  for (int i = 0; i < kOperands; ++i) {
    algorithm.alignment_log2[i] = static_cast<uint8_t>(std::countr_zero(preference.alignments[i]));
  }
  algorithm.pitches = pitches_of(call);
  algorithm.m = static_cast<uint32_t>(call.m());
  algorithm.n = static_cast<uint32_t>(call.n());
  algorithm.k = static_cast<uint32_t>(call.k());
  algorithm.batch = static_cast<uint32_t>(call.batch());
  algorithm.workspace = static_cast<uint32_t>(std::min(
      preference.workspace / 16 * 16, kLeastWorkspace << (hash_of(call) / 64 + number) % kWorkspaceSizes));
  algorithm.signature = signature_of(algorithm);
  return algorithm;
}

const char* refusal(const Algorithm& algorithm, const MatmulCall& call, bool exact) {
  if (algorithm.signature != signature_of(algorithm)) return "no look-up returned this algorithm";
  if (algorithm.compute != call.operation.compute || algorithm.type != call.layouts[kA].type ||
      algorithm.out_type != call.layouts[kD].type) {
    return "the algorithm is for other types";
  }
  if (algorithm.mode != call.mode()) return "the algorithm is for another batch mode";
  if (algorithm.orders != orders_of(call)) return "the algorithm is for another order of elements";
  if (algorithm.m != call.m() || algorithm.k != call.k()) return "the algorithm is for another m or k";
  if (algorithm.pitches != pitches_of(call)) return "the algorithm is for other leading dimensions";
  const auto batch = static_cast<uint64_t>(call.batch());
  if (!fits(algorithm.n, call.n(), kLargestHeight)) return "the algorithm is for another size of n";
  if (!fits(algorithm.batch, batch, kLargestBatch)) return "the algorithm is for another size of batch";
  if (exact && (algorithm.n != call.n() || algorithm.batch != batch)) {
    return "a test asked that only exact algorithms are taken";
  }
  return nullptr;
}

}  // namespace minuet::software
