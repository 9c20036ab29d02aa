#include "tests/support/shim/shared_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/support/shim/sanitizers.h"

namespace minuet::shim {
namespace {

constexpr std::size_t kGuard = 256;
constexpr char kGuardByte = 0x5a;

void forbid([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MINUET_SHIM_ASAN
  __asan_poison_memory_region(memory, bytes);
#endif
}
void allow([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MINUET_SHIM_ASAN
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes)
    : bytes_(bytes), memory_(new char[bytes + 3 * kGuard]), memory_bytes_(bytes + 3 * kGuard) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
  data_ = memory_.get() + ((address + kGuard - 1) / kGuard * kGuard - address) + kGuard / 2;
}

SharedMemory::~SharedMemory() { allow(memory_.get(), memory_bytes_); }

void SharedMemory::open() {
  allow(memory_.get(), memory_bytes_);
  std::memset(memory_.get(), kGuardByte, memory_bytes_);
  std::memset(data_, kSharedPoison, bytes_);
  forbid(memory_.get(), memory_bytes_);
  allow(data_, bytes_);
}

bool SharedMemory::close() {
  allow(memory_.get(), memory_bytes_);
  const char* const end = data_ + bytes_;
  const auto whole = [](char byte) { return byte == kGuardByte; };
  const bool good = std::all_of(memory_.get(), data_, whole) &&
                    std::all_of(end, static_cast<const char*>(memory_.get()) + memory_bytes_, whole);
  std::memset(data_, kSharedPoison, bytes_);
  forbid(memory_.get(), memory_bytes_);
  return good;
}

bool SharedMemory::holds(const void* address, std::size_t bytes) const {
  const auto first = reinterpret_cast<std::uintptr_t>(address),
             begin = reinterpret_cast<std::uintptr_t>(data_);
  return first >= begin && first - begin <= bytes_ && bytes <= bytes_ - (first - begin);
}

}  // namespace minuet::shim
