// What the stand-ins of CUDA's other libraries ask of the software driver; exported by its libcuda.so.1,
// which they find with dlopen("libcuda.so.1", RTLD_NOLOAD).
#pragma once

#include <cuda.h>

#include <cstddef>

extern "C" {
/// Host work in the order of `stream`, as a kernel would be. It runs when the scheduler gets there, in
/// whatever thread is in the driver then, device memory open; under capture it becomes a node, and runs once
/// a replay. `release` is called once, after the last run, whatever comes of the work.
CUresult software_cuda_enqueue(CUstream stream, void (*work)(void* state), void* state,
                               void (*release)(void* state));
/// Whether all of [memory, memory + bytes) lies in one live allocation of the device or of pinned memory. 0
/// bytes: yes.
int software_cuda_holds(const void* memory, std::size_t bytes);
/// A fault of the device, as an illegal address is one: printed, and the answer of every call from then on.
/// For work that runs.
void software_cuda_fault(const char* what);
}
