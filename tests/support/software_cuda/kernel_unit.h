// Before every kernel that the software NVRTC compiles for the host: CUDA's names by the shim, and what makes
// the kernel's entry and facts of its name. Few includes: they are read again for every kernel.
#pragma once

#include "tests/support/shim/device.h"
// The shim comes first: kernels use the names it defines.
#include "tests/support/software_cuda/kernel_facts.h"

namespace minuet::software_cuda {

template <class Params>
void call(void (*kernel)(const Params&), const void* params) {
  kernel(*static_cast<const Params*>(params));
}
template <class Params>  // of a kernel that does not say MINUET_PARAMS
void call(void (*kernel)(Params), const void* params) {
  kernel(*static_cast<const Params*>(params));
}
inline void call(void (*kernel)(), const void*) { kernel(); }

template <class Params>
constexpr int params_bytes(void (*)(Params)) {
  return sizeof(Params);
}
constexpr int params_bytes(void (*)()) { return 0; }

/// Every kernel's launch bound is its Spec's `threads`; a kernel without has the device's.
template <class Spec>
constexpr int max_threads(const Spec& spec) {
  if constexpr (requires { spec.threads; }) {
    return spec.threads;
  } else {
    return 1024;
  }
}

constexpr KernelFacts facts(int threads, int bytes) {
  KernelFacts facts = {{}, threads, bytes};
  for (unsigned i = 0; i < sizeof kFactsMark; ++i) facts.mark[i] = kFactsMark[i];
  return facts;
}

}  // namespace minuet::software_cuda

/// A compile that calls itself CUDA's has these names too.
#define __host__
#define __device__
#define __global__
#define __launch_bounds__(...)
