// Finds the resources that helper processes may use, including the limits of control groups. CPUs are counted
// in codegen/base/cpu_count.h.
#pragma once

#include <cstdint>
#include <string>

namespace minuet {

struct Resources {
  int cores = 1;
  std::int64_t memory_bytes = 0;  // available to new processes without swapping
};

/// Returns the memory that the machine and each control group above this process allow, and the CPUs of
/// cpu_count(). `root` is the folder that contains proc/ and sys/; if it is given, its groups limit the CPUs
/// of this thread.
Resources available_resources(const std::string& root = "");

}  // namespace minuet
