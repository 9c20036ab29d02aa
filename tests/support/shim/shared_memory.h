// The dynamic shared memory of one block.
#pragma once

#include <cstddef>
#include <memory>

namespace minuet::shim {

/// Every byte that nobody wrote yet, or that a copy under way will write: NaN in every element type.
constexpr int kSharedPoison = 0xff;

/// Aligned to 128 bytes and not to 256. What lies around it is watched: by ASan at once, else by guard bytes
/// when the block ends.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// For a new block: poisoned, and open to it.
  void open();
  /// Its block has ended: poisoned, and under ASan not to be touched. False where guard bytes were
  /// overwritten.
  bool close();
  char* data() const { return data_; }
  bool holds(const void* address, std::size_t bytes) const;

 private:
  std::size_t bytes_;
  std::unique_ptr<char[]> memory_;
  std::size_t memory_bytes_;
  char* data_;
};

}  // namespace minuet::shim
