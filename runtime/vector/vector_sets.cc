#include "runtime/vector/vector_kernels.h"

namespace minuet {

// Each of the following functions is defined by the compilation of vector_kernels.cc for its instruction set.
const VectorKernels& vector_kernels_baseline();
#ifdef MINUET_X86_SETS
const VectorKernels& vector_kernels_avx2();
const VectorKernels& vector_kernels_avx512();
#endif

namespace {

bool machine_has(VectorSet set) {
#ifdef MINUET_X86_SETS
  // F16C, which converts fp16 in hardware, is not tested, because every processor with AVX2 and FMA has it.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (set == VectorSet::Avx2) return avx2;
  if (set == VectorSet::Avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  }
#endif
  return set == VectorSet::Baseline;
}

}  // namespace

const VectorKernels* vector_kernels(VectorSet set) {
  if (set == VectorSet::Best) {
    set = machine_has(VectorSet::Avx512) ? VectorSet::Avx512
          : machine_has(VectorSet::Avx2) ? VectorSet::Avx2
                                         : VectorSet::Baseline;
  }
  if (!machine_has(set)) return nullptr;
#ifdef MINUET_X86_SETS
  if (set == VectorSet::Avx512) return &vector_kernels_avx512();
  if (set == VectorSet::Avx2) return &vector_kernels_avx2();
#endif
  return &vector_kernels_baseline();
}

}  // namespace minuet
