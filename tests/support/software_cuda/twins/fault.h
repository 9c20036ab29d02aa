// What a twin calls where a GPU would hang or compute garbage. Under the software driver it is a fault of the
// device; in a test of the shim alone it ends the test.
#pragma once

#include <cstdio>
#include <cstdlib>

extern "C" __attribute__((weak)) void software_cuda_fault(const char* what);

namespace minuet {

inline void twin_fault(const char* what) {
  if (software_cuda_fault != nullptr) return software_cuda_fault(what);
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace minuet
