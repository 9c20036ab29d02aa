// Lets a thread flush subnormals to zero, as hosts do whose code was compiled for speed.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace minuet {

/// While it exists, the thread that made it reads subnormals as zeros, and gets zeros instead of subnormals.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : before_(mode()) { set_mode(before_ | kFlush); }
  ~FlushedSubnormals() { set_mode(before_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr std::uint64_t kFlush = 0x8040;  // FTZ and DAZ
  static std::uint64_t mode() { return _mm_getcsr(); }
  static void set_mode(std::uint64_t mode) { _mm_setcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = 1u << 24;  // FZ
  static std::uint64_t mode() {
    std::uint64_t mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set_mode(std::uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
#else
#error "say how threads of this processor flush subnormals"
#endif

  const std::uint64_t before_;
};

}  // namespace minuet
