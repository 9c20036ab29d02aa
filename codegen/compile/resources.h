// Finds the resources that helper processes may use, including the limits of control groups. The CPUs are
// counted by codegen/base/cpu_count.h.
#pragma once

#include <cstdint>
#include <string>

namespace minuet {

struct Resources {
  int cores = 1;
  std::int64_t memory_bytes = 0;  // New processes can use this many bytes without swapping.
};

/// Returns the memory that the machine and the control groups of this process and their parents allow, and
/// the result of cpu_count(). `root` is the folder that contains proc/ and sys/. If it is not empty, `cores`
/// is the number of CPUs of this thread, limited by the control groups in `root`.
Resources available_resources(const std::string& root = "");

}  // namespace minuet
