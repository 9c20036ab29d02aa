// What the software NVRTC reads out of a kernel's compiled host library: it lies there as bytes, behind a
// mark.
#pragma once

namespace minuet::software_cuda {

inline constexpr char kFactsMark[] = "software CUDA kernel's facts:";

struct KernelFacts {
  char mark[sizeof kFactsMark];
  int max_threads;  // of a block
  int params_bytes;
};

}  // namespace minuet::software_cuda
