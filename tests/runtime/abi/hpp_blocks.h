// Memory with the alignment of workspaces, for the tests of the C++ wrappers on the CPU device.
#pragma once

#include <cstdint>
#include <vector>

namespace minuet::abi {

struct alignas(16) Block {
  char bytes[16];
};

/// Returns at least one block, and at least `bytes` bytes.
inline std::vector<Block> blocks(std::int64_t bytes) {
  return std::vector<Block>(static_cast<std::size_t>(bytes) / sizeof(Block) + 1);
}

}  // namespace minuet::abi
