// This file makes headers portable between NVRTC, host compilers and the CPU test shim.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define MINUET_HD __host__ __device__ inline
#define MINUET_DEVICE __device__ inline
#define MINUET_KERNEL __global__
#define MINUET_LAUNCH_BOUNDS(...) __launch_bounds__(__VA_ARGS__)
#define MINUET_PARAMS(Type) const Type
#define MINUET_UNROLL _Pragma("unroll")
#define MINUET_NO_UNROLL _Pragma("unroll 1")
#else
#define MINUET_HD inline
#define MINUET_DEVICE inline
#define MINUET_KERNEL
#define MINUET_LAUNCH_BOUNDS(...)
// The shim passes Params by reference. Otherwise each of up to a thousand host threads would hold its own
// copy of up to 4 KB.
#define MINUET_PARAMS(Type) const Type&
#define MINUET_UNROLL
#define MINUET_NO_UNROLL
#endif

namespace minuet {

// NVRTC has no <cstdint> without cuda::std. The widths below hold on every platform that CUDA supports.
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
static_assert(sizeof(u16) == 2 && sizeof(i32) == 4 && sizeof(i64) == 8,
              "Minuet assumes 32-bit int and 64-bit long long");

}  // namespace minuet
