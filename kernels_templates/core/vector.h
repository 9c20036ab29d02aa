// This file loads, stores and converts 1 to 16 consecutive bytes, with one access each.
#pragma once

#include "kernels_templates/core/convert.h"

// Other code accesses the same rows as arrays of float, half or bytes. A Vector may alias them all, for which
// host compilers need an attribute. Device code accesses memory through PTX and needs none.
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define MINUET_MAY_ALIAS
#else
#define MINUET_MAY_ALIAS [[gnu::may_alias]]
#endif

namespace minuet {

template <i32 Bytes>
struct VectorWord {
  using Type = u32;
};
template <>
struct VectorWord<2> {
  using Type = u16;
};
template <>
struct VectorWord<1> {
  using Type = unsigned char;
};

/// Holds `Bytes` bytes in registers, aligned to their size. `Bytes` is 1, 2, 4, 8 or 16.
template <i32 Bytes>
struct alignas(Bytes) MINUET_MAY_ALIAS Vector {
  static_assert(Bytes > 0 && Bytes <= 16 && (Bytes & (Bytes - 1)) == 0,
                "one access is 1, 2, 4, 8 or 16 bytes");
  using Word = typename VectorWord<Bytes>::Type;
  static constexpr i32 kWords = Bytes / static_cast<i32>(sizeof(Word));
  Word words[kWords];
};

template <i32 Bytes>
MINUET_HD Vector<Bytes> zero_vector() {
  Vector<Bytes> v;
  MINUET_UNROLL
  for (i32 w = 0; w < Vector<Bytes>::kWords; ++w) v.words[w] = 0;
  return v;
}

/// Loads `Bytes` bytes at `base` + `byte` through the read-only cache. The kernel must not write them.
template <i32 Bytes>
MINUET_HD Vector<Bytes> load_vector(const void* base, i64 byte) {
  const char* address = static_cast<const char*>(base) + byte;
#if defined(__CUDA_ARCH__)
  // The load is inline PTX, because the compiler may split the load of an aggregate in two.
  Vector<Bytes> v;
  if constexpr (Bytes == 16) {
    asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3])
        : "l"(__cvta_generic_to_global(address)));
  } else if constexpr (Bytes == 8) {
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];"
        : "=r"(v.words[0]), "=r"(v.words[1])
        : "l"(__cvta_generic_to_global(address)));
  } else {
    v.words[0] = __ldg(reinterpret_cast<const typename Vector<Bytes>::Word*>(address));
  }
  return v;
#else
  return *reinterpret_cast<const Vector<Bytes>*>(address);
#endif
}

/// Returns load_vector() if `present`, otherwise zeros. It is one predicated instruction, because a branch
/// around each load would keep the compiler from having several loads in flight. `Fresh` must be set for data
/// that the preceding programmatic launch may have written (core/programmatic.h), because the compiler may
/// move a read-only load in front of the wait.
template <i32 Bytes, bool Fresh = false>
MINUET_HD Vector<Bytes> load_vector_if(bool present, const void* base, i64 byte) {
#if defined(__CUDA_ARCH__)
  const auto address = __cvta_generic_to_global(static_cast<const char*>(base) + byte);
  const u32 predicate = present;
  Vector<Bytes> v = zero_vector<Bytes>();
#define MINUET_LOAD_IF(load, stays)                                                                \
  if constexpr (Bytes == 16) {                                                                     \
    asm stays("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p " load ".v4.u32 {%0, %1, %2, %3}, [%4]; }" \
              : "+r"(v.words[0]), "+r"(v.words[1]), "+r"(v.words[2]), "+r"(v.words[3])             \
              : "l"(address), "r"(predicate));                                                     \
  } else if constexpr (Bytes == 8) {                                                               \
    asm stays("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p " load ".v2.u32 {%0, %1}, [%2]; }"         \
              : "+r"(v.words[0]), "+r"(v.words[1])                                                 \
              : "l"(address), "r"(predicate));                                                     \
  } else if constexpr (Bytes == 4) {                                                               \
    asm stays("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " load ".u32 %0, [%1]; }"                  \
              : "+r"(v.words[0])                                                                   \
              : "l"(address), "r"(predicate));                                                     \
  } else if constexpr (Bytes == 2) {                                                               \
    asm stays("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " load ".u16 %0, [%1]; }"                  \
              : "+h"(v.words[0])                                                                   \
              : "l"(address), "r"(predicate));                                                     \
  } else {                                                                                         \
    u16 byte_of_word = 0;                                                                          \
    asm stays("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " load ".u8 %0, [%1]; }"                   \
              : "+h"(byte_of_word)                                                                 \
              : "l"(address), "r"(predicate));                                                     \
    v.words[0] = static_cast<unsigned char>(byte_of_word);                                         \
  }
  if constexpr (Fresh) {
    MINUET_LOAD_IF("ld.global", volatile)
  } else {
    MINUET_LOAD_IF("ld.global.nc", )
  }
#undef MINUET_LOAD_IF
  return v;
#else
  return present ? load_vector<Bytes>(base, byte) : zero_vector<Bytes>();
#endif
}

/// Starts a load from `address` + `Offset` if `present`, for use later. The compiler does not move the load.
/// If not `present`, the result is zeros with `Zeros`, and undefined without. With `Zeros`, the compiler may
/// copy the loaded value to other registers at once, which waits for the load. Without `Zeros`, nothing
/// waits, and the caller must mask the value with keep_if() where it uses it. `Bytes` must be at least 4.
template <i32 Bytes, i32 Offset, bool Zeros, bool Fresh = false>
MINUET_HD Vector<Bytes> start_load_if(bool present, const char* address) {
  static_assert(Bytes >= 4, "whole registers");
  Vector<Bytes> v;
#if defined(__CUDA_ARCH__)
  const auto global = __cvta_generic_to_global(address);
  const u32 predicate = present;
#define MINUET_START_LOAD(zeros, load, predicate_operand, ...)                                     \
  if constexpr (Zeros) {                                                                           \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, " predicate_operand ", 0; " zeros "@p " load " }" \
                 : __VA_ARGS__                                                                     \
                 : "l"(global), "r"(predicate), "n"(Offset));                                      \
  } else {                                                                                         \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, " predicate_operand ", 0; @p " load " }"          \
                 : __VA_ARGS__                                                                     \
                 : "l"(global), "r"(predicate), "n"(Offset));                                      \
  }
#define MINUET_START_LOADS(load)                                                                   \
  if constexpr (Bytes == 16) {                                                                     \
    MINUET_START_LOAD("mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; ",              \
                      load ".v4.u32 {%0, %1, %2, %3}, [%4 + %6];", "%5", "=&r"(v.words[0]),        \
                      "=&r"(v.words[1]), "=&r"(v.words[2]), "=&r"(v.words[3]))                     \
  } else if constexpr (Bytes == 8) {                                                               \
    MINUET_START_LOAD("mov.u32 %0, 0; mov.u32 %1, 0; ", load ".v2.u32 {%0, %1}, [%2 + %4];", "%3", \
                      "=&r"(v.words[0]), "=&r"(v.words[1]))                                        \
  } else {                                                                                         \
    MINUET_START_LOAD("mov.u32 %0, 0; ", load ".u32 %0, [%1 + %3];", "%2", "=&r"(v.words[0]))      \
  }
  if constexpr (Fresh) {
    MINUET_START_LOADS("ld.global")
  } else {
    MINUET_START_LOADS("ld.global.nc")
  }
#undef MINUET_START_LOADS
#undef MINUET_START_LOAD
#else
  for (u32& word : v.words) word = Zeros ? 0 : ~0u;
  if (present) v = load_vector<Bytes>(address, Offset);
#endif
  return v;
}

/// Returns `word` if `mask` is ~0, and 0 if `mask` is 0. The compiler does not move this operation to an
/// earlier place, where it would wait for the load of `word`.
MINUET_HD u32 keep_if(u32 mask, u32 word) {
#if defined(__CUDA_ARCH__)
  u32 result;
  asm volatile("and.b32 %0, %1, %2;" : "=r"(result) : "r"(word), "r"(mask));
  return result;
#else
  return word & mask;
#endif
}

/// Returns *address, an entry of a table of row numbers, if `present`, otherwise -1. It is one predicated
/// load, as in load_vector_if(). With `Started` the compiler does not move the load, so it can be issued
/// early for later use.
template <bool Fresh = false, bool Started = false>
MINUET_HD i32 load_row_if(bool present, const i32* address) {
#if defined(__CUDA_ARCH__)
  i32 row;
#define MINUET_LOAD_ROW(load, stays)                                                            \
  asm stays("{ .reg .pred p; setp.ne.u32 p, %2, 0; mov.s32 %0, -1; @p " load ".s32 %0, [%1]; }" \
            : "=&r"(row)                                                                        \
            : "l"(__cvta_generic_to_global(address)), "r"(static_cast<u32>(present)))
  if constexpr (Fresh) {
    MINUET_LOAD_ROW("ld.global", volatile);
  } else if constexpr (Started) {
    MINUET_LOAD_ROW("ld.global.nc", volatile);
  } else {
    MINUET_LOAD_ROW("ld.global.nc", );
  }
#undef MINUET_LOAD_ROW
  return row;
#else
  return present ? *address : -1;
#endif
}

template <i32 Bytes>
MINUET_HD void store_vector(void* base, i64 byte, const Vector<Bytes>& v) {
  char* address = static_cast<char*>(base) + byte;
#if defined(__CUDA_ARCH__)
  if constexpr (Bytes == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(address)),
                 "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3])
                 : "memory");
  } else if constexpr (Bytes == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(address)), "r"(v.words[0]),
                 "r"(v.words[1])
                 : "memory");
  } else {
    *reinterpret_cast<typename Vector<Bytes>::Word*>(address) = v.words[0];
  }
#else
  *reinterpret_cast<Vector<Bytes>*>(address) = v;
#endif
}

/// Returns the index of the lowest set bit, or 0 if no bit is set.
MINUET_HD i32 lowest_bit(u32 bits) {
#if defined(__CUDA_ARCH__)
  return bits == 0 ? 0 : __ffs(static_cast<i32>(bits)) - 1;
#else
  return bits == 0 ? 0 : __builtin_ctz(bits);
#endif
}
/// Returns the index of the highest set bit; at least one bit must be set.
MINUET_HD i32 highest_bit(u32 bits) {
#if defined(__CUDA_ARCH__)
  return 31 - __clz(static_cast<int>(bits));
#else
  return 31 - __builtin_clz(bits);
#endif
}

MINUET_HD i32 count_bits(u32 bits) {
#if defined(__CUDA_ARCH__)
  return __popc(bits);
#else
  return __builtin_popcount(bits);
#endif
}

/// Converts stored elements to GEMM operands. It rounds TF32 and returns other types unchanged.
template <DType T, i32 Bytes>
MINUET_HD Vector<Bytes> to_operand(Vector<Bytes> v) {
  if constexpr (rounds_operands(T)) {
    static_assert(T == DType::TF32, "a type whose operands are not rounded here");
    MINUET_UNROLL
    for (i32 w = 0; w < Vector<Bytes>::kWords; ++w) v.words[w] = round_to_tf32(v.words[w]);
  }
  return v;
}

/// Converts the vector's Bytes / dtype_bytes(T) elements of type T to fp32.
template <DType T, i32 Bytes>
MINUET_HD void to_floats(const Vector<Bytes>& v, float* values) {
  MINUET_UNROLL
  for (i32 w = 0; w < Vector<Bytes>::kWords; ++w) {
    if constexpr (storage_type(T) == DType::F32) {
      values[w] = float_of(v.words[w]);
    } else if constexpr (Bytes == 2) {
      values[w] = from_16_bits<T>(v.words[w]);
    } else {
      from_16_bit_pair<T>(v.words[w], values + 2 * w);
    }
  }
}

template <DType T, i32 Bytes>
MINUET_HD Vector<Bytes> from_floats(const float* values) {
  Vector<Bytes> v;
  MINUET_UNROLL
  for (i32 w = 0; w < Vector<Bytes>::kWords; ++w) {
    if constexpr (storage_type(T) == DType::F32) {
      v.words[w] = bits_of(values[w]);
    } else if constexpr (Bytes == 2) {
      v.words[w] = to_16_bits<T>(values[w]);
    } else {
      v.words[w] = to_16_bit_pair<T>(values[2 * w], values[2 * w + 1]);
    }
  }
  return v;
}

}  // namespace minuet
