// What this process may take of the machine: less than there is, where control groups or the scheduler say
// so.
#pragma once

#include <cstdint>
#include <string>

namespace minuet {

struct Resources {
  int cores = 1;
  std::int64_t memory_bytes = 0;  // that new processes can have without swapping
};

/// The least that the machine and each control group above this process allow, of version 1 or 2. `root`: the
/// folder in which proc/ and sys/ lie.
Resources available_resources(const std::string& root = "/");

}  // namespace minuet
