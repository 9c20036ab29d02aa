// Defines the host clock with which the tool measures times.
#pragma once

#include <chrono>

namespace minuet::tool {

using Clock = std::chrono::steady_clock;

inline double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace minuet::tool
