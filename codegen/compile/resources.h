// What processes of the helper program may take of the machine: less than there is, where control groups say
// so. CPUs are counted in codegen/base/cpu_count.h.
#pragma once

#include <cstdint>
#include <string>

namespace minuet {

struct Resources {
  int cores = 1;
  std::int64_t memory_bytes = 0;  // that new processes can have without swapping
};

/// The memory that the machine and each control group above this process allow, and the CPUs of cpu_count().
/// `root`: the folder in which proc/ and sys/ lie; where it is given, its groups limit the CPUs of this
/// thread.
Resources available_resources(const std::string& root = "");

}  // namespace minuet
