// Device memory between guards that no work may write to.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/abi.h"

namespace minuet::abi {

class GuardedMemory {
 public:
  GuardedMemory(Machine& machine, int64_t bytes)
      : machine_(machine), bytes_(bytes), memory_(machine, 2 * kGuard + bytes), before_(guards()) {}
  void* data() const { return begin() + kGuard; }
  int64_t bytes() const { return bytes_; }
  void expect_guards() const { EXPECT_TRUE(guards() == before_) << "something was written outside"; }

 private:
  static constexpr int64_t kGuard = 1 << 16;
  char* begin() const { return static_cast<char*>(memory_.data()); }
  std::vector<char> guards() const {
    std::vector<char> both(2 * kGuard);
    check(minuet_device_synchronize(machine_.device(), nullptr));
    check(minuet_device_copy(machine_.device(), both.data(), begin(), kGuard, 1));
    check(minuet_device_copy(machine_.device(), both.data() + kGuard, begin() + kGuard + bytes_, kGuard, 1));
    return both;
  }

  Machine& machine_;
  int64_t bytes_;
  Buffer memory_;
  std::vector<char> before_;
};

}  // namespace minuet::abi
