// What device memory of tests holds before anything is written to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace minuet {

/// A NaN as fp32, and both halves one as fp16 and bf16.
inline constexpr uint32_t kPoison = 0xffc0ffeeu;

/// `bytes` bytes of it, to copy from: good until the thread's next call.
inline const void* poison(int64_t bytes) {
  thread_local std::vector<uint32_t> words;
  const size_t count = static_cast<size_t>(bytes) / 4 + 1;
  if (words.size() < count) words.resize(count, kPoison);
  return words.data();
}

}  // namespace minuet
