// Random numbers that are the same on every platform: no std distributions, no library of the system.
#pragma once

#include <cstdint>

namespace minuet {

/// splitmix64: one word of state, good enough for inputs of tests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// [0, bound), bound >= 1. The bias of the modulo is below 2^-32 for the bounds in use.
  uint64_t below(uint64_t bound) { return next() % bound; }
  /// [least, greatest], both included.
  int64_t between(int64_t least, int64_t greatest) {
    return least + static_cast<int64_t>(below(static_cast<uint64_t>(greatest - least) + 1));
  }
  /// [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double least, double greatest) { return least + (greatest - least) * uniform(); }
  /// Mean 0, variance 1: the sum of twelve uniforms, which needs no logarithm and has no far tails.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

}  // namespace minuet
