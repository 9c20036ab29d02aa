// This file computes sums += a * b on the tensor cores of a warpgroup (four warps, 128 threads). `a` has 64
// rows in registers, `b` has up to 128 columns in shared memory, both have 32 bytes along k, and the sums are
// fp32, or 32-bit integers for operands of 8-bit integers. The instructions require exactly sm_90a.
//
// Warp w holds rows 16 w to 16 w + 15 in the layout of mma(). With g = l / 4 and t = l % 4, lane l holds word
// t + 4 (i / 2) of row g + 8 (i % 2) as a[i], and the sum of row g + 8 (i / 2) and column 8 j + 2 t + i % 2
// as sums[j][i].
//
// The products are asynchronous. Callers use these functions in the following order:
//   wgmma_fence();           // It comes after the last access to sums and a.
//   wgmma<T>(sums, a, b);    // It may be called any number of times.
//   wgmma_commit();
//   wgmma_wait();            // It comes before sums, a or the memory of b are accessed.
// The products read shared memory through the async proxy, as bulk copies do. Data that threads wrote there
// is visible only after a fence.proxy.async.
#pragma once

#include "kernels_templates/core/mma.h"
#include "kernels_templates/core/shared_address.h"

namespace minuet {

constexpr i32 kWarpgroup = 128;  // Gives the number of threads of a warpgroup.
constexpr i32 kWgmmaRows = 64;
/// Gives the number of contiguous bytes of the operand b along k. A piece is enough for two products, and a
/// half piece for one.
constexpr i32 kWgmmaPiece = 64, kWgmmaHalfPiece = 32;
constexpr i32 kWgmmaAtom = 512;  // Gives the alignment of the operand b in bytes.

/// Returns the position of byte `byte` of column `column` in a piece of the shape [columns][kWgmmaPiece]. The
/// 16-byte units of the piece are swizzled so that eight columns cover all banks.
MINUET_HD constexpr i32 wgmma_place(i32 column, i32 byte) {
  return column * kWgmmaPiece + (byte / 16 ^ (column / 2 & 3)) * 16 + byte % 16;
}

/// Does the same for a half piece of the shape [columns][kWgmmaHalfPiece], which is enough for one product.
MINUET_HD constexpr i32 wgmma_place_of_half(i32 column, i32 byte) {
  return column * kWgmmaHalfPiece + (byte / 16 ^ (column / 4 & 1)) * 16 + byte % 16;
}

#if !defined(__CUDA_ARCH__)
/// Returns the low 32 bits of a host address. An operand of wgmma() keeps only 18 of them, because the shared
/// memory window has less than 2^18 bytes. The block's base address gives the other bits.
inline u32 shared_address(const void* shared) { return static_cast<u32>(reinterpret_cast<u64>(shared)); }
#endif

/// Returns the first address at or after `begin` that is aligned for the operand b of wgmma().
MINUET_DEVICE unsigned char* align_wgmma(unsigned char* begin) {
  return begin + ((0u - shared_address(begin)) & (kWgmmaAtom - 1));
}

/// Returns the operand b of a product, which is the first 32 bytes of all columns of a piece. The piece has
/// the shape [columns][kWgmmaPiece] and must be aligned to kWgmmaAtom.
MINUET_DEVICE u64 wgmma_operand(const unsigned char* piece) {
  constexpr u64 kSwizzle64 = u64{2} << 62, kBytesOfEightColumns = u64{8 * kWgmmaPiece / 16} << 32;
  return kSwizzle64 | kBytesOfEightColumns | u64{1} << 16 | (shared_address(piece) & 0x3ffff) >> 4;
}
/// Returns the operand b of a product that is a half piece, which must be aligned to half of kWgmmaAtom.
MINUET_DEVICE u64 wgmma_operand_of_half(const unsigned char* half) {
  constexpr u64 kSwizzle32 = u64{3} << 62, kBytesOfEightColumns = u64{8 * kWgmmaHalfPiece / 16} << 32;
  return kSwizzle32 | kBytesOfEightColumns | u64{1} << 16 | (shared_address(half) & 0x3ffff) >> 4;
}
/// Returns the operand that begins `bytes` bytes after the operand `b`, in the second half of the same piece
/// of shared memory or in another piece.
MINUET_DEVICE u64 wgmma_operand_behind(u64 b, i32 bytes) { return b + static_cast<u64>(bytes / 16); }

MINUET_DEVICE void wgmma_fence() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
  shim::wgmma_fence();
#endif
}

MINUET_DEVICE void wgmma_commit() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
  shim::wgmma_commit();
#endif
}

/// Waits for all committed products of this warpgroup, except those of the last `Groups` commits.
template <i32 Groups = 0>
MINUET_DEVICE void wgmma_wait() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Groups) : "memory");
#else
  shim::wgmma_wait(Groups);
#endif
}

#if !defined(__CUDA_ARCH__)
/// Returns the address in host memory at which an operand begins. The operand holds only the low 18 bits of
/// it, and the address of the block's shared memory gives the rest.
inline u64 wgmma_host_address(u64 operand) {
  const u64 base = reinterpret_cast<u64>(shim::dynamic_shared());
  return base + (((operand & 0x3fff) * 16 - base) & 0x3ffff);
}

/// Unpacks the rows of the operand a, which has an entry for each thread.
template <class Element, i32 Depth, class Unpack>
void wgmma_rows(const u32* const* a, Element (&rows)[kWgmmaRows][Depth], Unpack unpack) {
  u32 words[kMmaWords];
  for (i32 row = 0; row < kWgmmaRows; ++row) {
    for (i32 w = 0; w < kMmaWords; ++w)
      words[w] = a[row / 16 * 32 + row % 8 * 4 + w % 4][w / 4 * 2 + row % 16 / 8];
    unpack(words, rows[row]);
  }
}
/// Unpacks column `column` of the operand b.
template <class Element, i32 Depth, class Unpack>
void wgmma_column(u64 b, i32 column, Element (&elements)[Depth], Unpack unpack) {
  const bool is_half = b >> 62 == 3;
  const i32 pitch = is_half ? kWgmmaHalfPiece : kWgmmaPiece;
  if ((b >> 62 != 2 && !is_half) || (b >> 32 & 0x3fff) != static_cast<u64>(8 * pitch / 16) ||
      (b >> 49 & 7) != 0)
    shim::fail("an operand of wgmma that is not laid out as this one is");
  const u64 start = wgmma_host_address(b);
  u32 words[kMmaWords];
  for (i32 w = 0; w < kMmaWords; ++w) {
    u64 address = start + static_cast<u64>(column * pitch + w * 4);
    // The swizzle XORs bits 4 and 5 with bits 7 and 8, and in a half piece bit 4 with bit 7.
    address ^= (address >> 7 & (is_half ? 1 : 3)) << 4;
    words[w] = *reinterpret_cast<const u32*>(address);
  }
  unpack(words, elements);
}
/// Returns the sum of a row and a column among those of all threads, which have the type Sum.
template <class Sum>
Sum& wgmma_sum(float* const* sums, i32 row, i32 column) {
  float* const of_thread = sums[row / 16 * 32 + row % 8 * 4 + column % 8 / 2];
  return reinterpret_cast<Sum*>(of_thread)[column / 8 * 4 + row % 16 / 8 * 2 + column % 2];
}

/// Computes one product for all threads of a warpgroup, on the host. `sums` and `a` have 128 entries, one per
/// thread, and `b` is the operand from wgmma_operand().
template <DType T, i32 Columns>
void wgmma_of_warpgroup(float* const* sums, const u32* const* a, u64 b) {
  constexpr i32 kDepth = mma_depth<T>();
  float rows[kWgmmaRows][kDepth], column[kDepth];
  wgmma_rows(a, rows, mma_elements<T>);
  for (i32 c = 0; c < Columns; ++c) {
    wgmma_column(b, c, column, mma_elements<T>);
    for (i32 row = 0; row < kWgmmaRows; ++row) {
      float& sum = wgmma_sum<float>(sums, row, c);
      sum = shim::add_products(sum, rows[row], column, kDepth);
    }
  }
}

/// Does the same for integers. `sums` has the addresses of arrays of i32.
template <DType T, i32 Columns>
void integer_wgmma_of_warpgroup(float* const* sums, const u32* const* a, u64 b) {
  i32 rows[kWgmmaRows][kMmaWords * 4], column[kMmaWords * 4];
  wgmma_rows(a, rows, mma_integers<T>);
  for (i32 c = 0; c < Columns; ++c) {
    wgmma_column(b, c, column, mma_integers<DType::S8>);
    for (i32 row = 0; row < kWgmmaRows; ++row) {
      i32& sum = wgmma_sum<i32>(sums, row, c);
      sum = add_integer_products(sum, rows[row], column);
    }
  }
}
#endif

// These macros list the operands of a product. Each list covers 16 columns more than the one before it.
#define MINUET_D1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MINUET_D2 MINUET_D1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MINUET_D3 MINUET_D2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MINUET_D4 MINUET_D3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MINUET_D5 MINUET_D4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MINUET_D6 MINUET_D5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MINUET_D7 MINUET_D6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MINUET_D8 MINUET_D7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MINUET_SUMS(c, j)                                                                           \
  c(sums[j][0]), c(sums[j][1]), c(sums[j][2]), c(sums[j][3]), c(sums[j + 1][0]), c(sums[j + 1][1]), \
      c(sums[j + 1][2]), c(sums[j + 1][3])
#define MINUET_S1(c) MINUET_SUMS(c, 0)
#define MINUET_S2(c) MINUET_S1(c), MINUET_SUMS(c, 2)
#define MINUET_S3(c) MINUET_S2(c), MINUET_SUMS(c, 4)
#define MINUET_S4(c) MINUET_S3(c), MINUET_SUMS(c, 6)
#define MINUET_S5(c) MINUET_S4(c), MINUET_SUMS(c, 8)
#define MINUET_S6(c) MINUET_S5(c), MINUET_SUMS(c, 10)
#define MINUET_S7(c) MINUET_S6(c), MINUET_SUMS(c, 12)
#define MINUET_S8(c) MINUET_S7(c), MINUET_SUMS(c, 14)

// Emits the product of `Tiles` 8-column tiles. `types` holds the depth and the types of the instruction, `c`
// is the constraint of a sum, and `scales` holds the last operands.
#define MINUET_WGMMA(tiles, columns, types, d, s, operands, scales)                                       \
  if constexpr (Tiles == tiles) {                                                                         \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" columns types " {" d "}, " operands ", 1" scales ";" \
                 : s                                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                   \
  }
#define MINUET_WGMMA_OF(types, c, scales)                                                      \
  MINUET_WGMMA(2, "16", types, MINUET_D1, MINUET_S1(c), "{%8, %9, %10, %11}, %12", scales)     \
  MINUET_WGMMA(4, "32", types, MINUET_D2, MINUET_S2(c), "{%16, %17, %18, %19}, %20", scales)   \
  MINUET_WGMMA(6, "48", types, MINUET_D3, MINUET_S3(c), "{%24, %25, %26, %27}, %28", scales)   \
  MINUET_WGMMA(8, "64", types, MINUET_D4, MINUET_S4(c), "{%32, %33, %34, %35}, %36", scales)   \
  MINUET_WGMMA(10, "80", types, MINUET_D5, MINUET_S5(c), "{%40, %41, %42, %43}, %44", scales)  \
  MINUET_WGMMA(12, "96", types, MINUET_D6, MINUET_S6(c), "{%48, %49, %50, %51}, %52", scales)  \
  MINUET_WGMMA(14, "112", types, MINUET_D7, MINUET_S7(c), "{%56, %57, %58, %59}, %60", scales) \
  MINUET_WGMMA(16, "128", types, MINUET_D8, MINUET_S8(c), "{%64, %65, %66, %67}, %68", scales)

/// Starts a product. All threads of the warpgroup must call it together with the same `b`. T is F16, BF16 or
/// TF32, as for mma(). `Tiles` is the number of 8-column tiles, even and at most 16. `a` must not change
/// until wgmma_wait() returns.
template <DType T, i32 Tiles>
MINUET_DEVICE void wgmma(float (&sums)[Tiles][4], const u32 (&a)[4], u64 b) {
  static_assert(Tiles % 2 == 0 && Tiles <= 16, "16 to 128 columns");
#if defined(__CUDA_ARCH__)
  if constexpr (T == DType::F16) {
    MINUET_WGMMA_OF("k16.f32.f16.f16", "+f", ", 1, 1, 0")
  } else if constexpr (T == DType::BF16) {
    MINUET_WGMMA_OF("k16.f32.bf16.bf16", "+f", ", 1, 1, 0")
  } else {
    static_assert(T == DType::TF32, "a type whose products are not here");
    MINUET_WGMMA_OF("k8.f32.tf32.tf32", "+f", ", 1, 1")
  }
#else
  shim::wgmma(wgmma_of_warpgroup<T, Tiles * 8>, sums[0], a, b);
#endif
}

/// Does the same for integers modulo 2^32. `a` has elements of T, which is U8 or S8, and `b` has elements of
/// S8.
template <DType T, i32 Tiles>
MINUET_DEVICE void wgmma(i32 (&sums)[Tiles][4], const u32 (&a)[4], u64 b) {
  static_assert(Tiles % 2 == 0 && Tiles <= 16, "16 to 128 columns");
  static_assert(is_integer(T), "integers have integer sums");
#if defined(__CUDA_ARCH__)
  if constexpr (T == DType::U8) {
    MINUET_WGMMA_OF("k32.s32.u8.s8", "+r", "")
  } else {
    MINUET_WGMMA_OF("k32.s32.s8.s8", "+r", "")
  }
#else
  // The shim hands the addresses of the sums back to the function that multiplies.
  shim::wgmma(integer_wgmma_of_warpgroup<T, Tiles * 8>, reinterpret_cast<float*>(sums[0]), a, b);
#endif
}

#undef MINUET_WGMMA_OF
#undef MINUET_WGMMA
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
