// An allocator of a caller (minuet_device_options) for tests. What it gets back is overwritten as soon as its
// contract allows, and given out again, so that a block that the library still uses shows in the results.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "include/minuet/minuet.h"

namespace minuet::abi {

class CallersPool {
 public:
  /// `name` is the device's, as in minuet_device_open.
  explicit CallersPool(std::string name);
  ~CallersPool();
  CallersPool(const CallersPool&) = delete;
  CallersPool& operator=(const CallersPool&) = delete;

  minuet_device_options options();

  /// The `nth` allocation from now on (1 is the next one) gets nothing; 0: none.
  void fail(int64_t nth);
  /// Gives memory that is not aligned to 256 bytes.
  void misalign(bool on) { misaligns_ = on; }
  /// Is called in both callbacks, before anything else.
  void on_call(std::function<void(void* stream)> visit) { visit_ = std::move(visit); }

  int64_t allocations() const { return allocations_; }
  int64_t frees() const { return frees_; }
  int64_t live() const;
  /// How often the pool itself asked the driver for device memory.
  int64_t driver_allocations() const { return driver_allocations_; }
  std::set<void*> streams() const;
  /// What the library did against the contract, one sentence a line.
  std::string faults() const;

 private:
  struct Block {
    char* memory = nullptr;  // as the pool made it
    int64_t bytes = 0;
    void* stream = nullptr;
  };
  void* allocate(int64_t bytes, void* stream);
  void free(void* memory, int64_t bytes, void* stream);
  void note_call(void* stream);
  char* make(int64_t bytes);
  void overwrite(const Block& block, void* stream) const;

  const std::string name_;
  const bool on_gpu_;
  CUstream copies_ = nullptr;
  std::function<void(void* stream)> visit_;
  std::atomic<int64_t> allocations_{0}, frees_{0}, driver_allocations_{0}, left_{0};
  std::atomic<bool> misaligns_{false};
  mutable std::mutex mutex_;  // Guards what follows.
  std::map<void*, Block> live_;
  std::vector<Block> idle_;
  std::set<void*> streams_;
  std::string faults_;
};

}  // namespace minuet::abi
