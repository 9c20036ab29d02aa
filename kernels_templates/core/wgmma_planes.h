// This file computes sums += a * b on the tensor cores of a warpgroup, as wgmma.h does, with both operands in
// shared memory. Both are stored as rows of channels: a row holds all channels for one element of the depth,
// along which the product sums. `a` gives 64 channels, which are the rows of the sums, and `b` up to 256,
// which are their columns. The sums are laid out as in wgmma.h, and the same order of calls holds. Elements
// have 16 bits. The instructions require exactly sm_90a.
//
// An operand is divided into planes of 64 channels, each with the shape [64 rows][128 bytes]. The 16-byte
// units of a row are swizzled, so that the units of eight consecutive rows are in different banks.
#pragma once

#include "kernels_templates/core/wgmma.h"

namespace minuet {

constexpr i32 kPlaneChannels = 64, kPlaneRows = 64, kPlaneRowBytes = 128;
constexpr i32 kPlaneBytes = kPlaneRows * kPlaneRowBytes;
constexpr i32 kPlaneAtom = 1024;  // Gives the alignment of a plane in bytes.

/// Returns the position of byte `byte` of row `row` in a plane.
MINUET_HD constexpr i32 place_in_plane(i32 row, i32 byte) {
  return row * kPlaneRowBytes + (byte / 16 ^ (row & 7)) * 16 + byte % 16;
}

/// Returns the first address at or after `begin` that is aligned for planes.
MINUET_DEVICE unsigned char* align_planes(unsigned char* begin) {
  return begin + ((0u - shared_address(begin)) & (kPlaneAtom - 1));
}

/// Returns the operand that begins with the first rows of a plane. Further planes follow it in memory.
MINUET_DEVICE u64 wgmma_operand_of_planes(const unsigned char* plane) {
  constexpr u64 kSwizzle128 = u64{1} << 62, kBytesOfEightRows = u64{8 * kPlaneRowBytes / 16} << 32;
  constexpr u64 kBytesOfPlane = u64{kPlaneBytes / 16} << 16;
  return kSwizzle128 | kBytesOfEightRows | kBytesOfPlane | (shared_address(plane) & 0x3ffff) >> 4;
}
/// Returns the operand whose first row is `rows` rows behind that of `operand`, a multiple of 8.
MINUET_DEVICE u64 wgmma_operand_of_later_rows(u64 operand, i32 rows) {
  return operand + static_cast<u64>(rows * kPlaneRowBytes / 16);
}

/// Makes what threads have written to shared memory visible to products, which read it through the async
/// proxy. Either each writer calls it before the barrier that the readers wait for, or each reader after it.
MINUET_DEVICE void async_proxy_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if !defined(__CUDA_ARCH__)
/// Reads element `row` of channel `channel` of an operand, on the host.
template <DType T>
float element_of_planes(u64 operand, i32 row, i32 channel) {
  u64 address = wgmma_host_address(operand) + static_cast<u64>(channel / kPlaneChannels * kPlaneBytes) +
                static_cast<u64>(row * kPlaneRowBytes + channel % kPlaneChannels * 2);
  address ^= (address >> 7 & 7) << 4;  // The swizzle XORs bits 4 to 6 with bits 7 to 9.
  return from_16_bits<T>(*reinterpret_cast<const u16*>(address));
}

/// Computes one product for all threads of a warpgroup, on the host. `sums` has one entry for each thread.
template <DType T, i32 Columns>
void wgmma_planes_of_warpgroup(float* const* sums, u64 a, u64 b, bool adds) {
  constexpr u64 kLayout = ~u64{0xffff};  // Host addresses may carry into the two bits above the address.
  if (((a ^ wgmma_operand_of_planes(nullptr)) & kLayout) != 0 || ((a ^ b) & kLayout) != 0)
    shim::fail("an operand of wgmma that is not laid out as planes are");
  constexpr i32 kDepth = mma_depth<T>();
  float rows[kWgmmaRows][kDepth], column[kDepth];
  for (i32 row = 0; row < kWgmmaRows; ++row) {
    for (i32 k = 0; k < kDepth; ++k) rows[row][k] = element_of_planes<T>(a, k, row);
  }
  for (i32 c = 0; c < Columns; ++c) {
    for (i32 k = 0; k < kDepth; ++k) column[k] = element_of_planes<T>(b, k, c);
    for (i32 row = 0; row < kWgmmaRows; ++row) {
      float& sum = sums[row / 16 * 32 + row % 8 * 4 + c % 8 / 2][c / 8 * 4 + row % 16 / 8 * 2 + c % 2];
      sum = shim::add_products(adds ? sum : 0, rows[row], column, kDepth);
    }
  }
}
#endif

// These macros list the sums of a product. Each list covers 32 columns more than the one before it.
#define MINUET_D1 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define MINUET_D2 MINUET_D1 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define MINUET_D3 MINUET_D2 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define MINUET_D4 MINUET_D3 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MINUET_D5 MINUET_D4 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define MINUET_D6 MINUET_D5 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define MINUET_D7 \
  MINUET_D6 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define MINUET_D8                                                                                \
  MINUET_D7                                                                                      \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, " \
  "%127"
#define MINUET_SUMS(j)                                                                          \
  "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3]), "+f"(sums[j + 1][0]), \
      "+f"(sums[j + 1][1]), "+f"(sums[j + 1][2]), "+f"(sums[j + 1][3])
#define MINUET_S1 MINUET_SUMS(0), MINUET_SUMS(2)
#define MINUET_S2 MINUET_S1, MINUET_SUMS(4), MINUET_SUMS(6)
#define MINUET_S3 MINUET_S2, MINUET_SUMS(8), MINUET_SUMS(10)
#define MINUET_S4 MINUET_S3, MINUET_SUMS(12), MINUET_SUMS(14)
#define MINUET_S5 MINUET_S4, MINUET_SUMS(16), MINUET_SUMS(18)
#define MINUET_S6 MINUET_S5, MINUET_SUMS(20), MINUET_SUMS(22)
#define MINUET_S7 MINUET_S6, MINUET_SUMS(24), MINUET_SUMS(26)
#define MINUET_S8 MINUET_S7, MINUET_SUMS(28), MINUET_SUMS(30)

/// Starts a product of 16 rows of both operands. All threads of the warpgroup must call it together with the
/// same operands. T is F16 or BF16. `Tiles` is the number of 8-column tiles of the sums: 4, 8, 12, 16 or 32.
/// If `adds` is false, the sums are set to the product.
template <DType T, i32 Tiles>
MINUET_DEVICE void wgmma_planes(float (&sums)[Tiles][4], u64 a, u64 b, bool adds) {
  static_assert(Tiles == 4 || Tiles == 8 || Tiles == 12 || Tiles == 16 || Tiles == 32,
                "32, 64, 96, 128 or 256 columns");
  static_assert(T == DType::F16 || T == DType::BF16,
                "only elements of 16 bits may be stored as rows of channels");
#if defined(__CUDA_ARCH__)
#define MINUET_WGMMA(tiles, columns, types, d, s, a_operand, b_operand, adds_operand)                     \
  if constexpr (Tiles == tiles) {                                                                         \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, " adds_operand                                           \
                 ", 0; wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." types " {" d "}, " a_operand \
                 ", " b_operand ", p, 1, 1, 1, 1; }"                                                      \
                 : s                                                                                      \
                 : "l"(a), "l"(b), "r"(static_cast<u32>(adds)));                                          \
  }
#define MINUET_WGMMA_OF(types)                                              \
  MINUET_WGMMA(4, "32", types, MINUET_D1, MINUET_S1, "%16", "%17", "%18")   \
  MINUET_WGMMA(8, "64", types, MINUET_D2, MINUET_S2, "%32", "%33", "%34")   \
  MINUET_WGMMA(12, "96", types, MINUET_D3, MINUET_S3, "%48", "%49", "%50")  \
  MINUET_WGMMA(16, "128", types, MINUET_D4, MINUET_S4, "%64", "%65", "%66") \
  MINUET_WGMMA(32, "256", types, MINUET_D8, MINUET_S8, "%128", "%129", "%130")
  if constexpr (T == DType::F16) {
    MINUET_WGMMA_OF("f16.f16")
  } else {
    MINUET_WGMMA_OF("bf16.bf16")
  }
#undef MINUET_WGMMA_OF
#undef MINUET_WGMMA
#else
  shim::wgmma_shared(wgmma_planes_of_warpgroup<T, Tiles * 8>, sums[0], a, b, adds);
#endif
}

#undef MINUET_SUMS
#undef MINUET_S1
#undef MINUET_S2
#undef MINUET_S3
#undef MINUET_S4
#undef MINUET_S5
#undef MINUET_S6
#undef MINUET_S7
#undef MINUET_S8
#undef MINUET_D1
#undef MINUET_D2
#undef MINUET_D3
#undef MINUET_D4
#undef MINUET_D5
#undef MINUET_D6
#undef MINUET_D7
#undef MINUET_D8

}  // namespace minuet
