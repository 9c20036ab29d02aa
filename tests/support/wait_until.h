// What tests wait for instead of times: something is looked at until it is there.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <string>

namespace minuet {

/// Looks until `condition` holds. The bound is a guard against a hang, minutes past what a busy machine
/// takes; where it ends the test has failed.
template <class Condition>
bool wait_until(const std::string& what, const Condition& condition) {
  for (int i = 0; i < 120000; ++i) {
    if (condition()) return true;
    ::poll(nullptr, 0, 2);
  }
  ADD_FAILURE() << "for minutes not seen: " << what;
  return false;
}

}  // namespace minuet
