// Takes the memory of a device from functions of the caller (minuet_device_options).
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "codegen/base/error.h"
#include "kernels_templates/shared/macros.h"

namespace minuet {

/// Holds the caller's functions for the memory of a device. Both pointers are null if the device allocates
/// its memory itself.
struct AllocatorFunctions {
  void* (*allocate)(std::int64_t bytes, void* stream, void* user) = nullptr;
  void (*free)(void* memory, std::int64_t bytes, void* stream, void* user) = nullptr;
  void* user = nullptr;
};

/// Calls the caller's functions, and remembers the size of each block, because they get it back with the
/// block. The class is thread-safe.
class CallersAllocator {
 public:
  explicit CallersAllocator(const AllocatorFunctions& functions) : functions_(functions) {}
  CallersAllocator(const CallersAllocator&) = delete;
  CallersAllocator& operator=(const CallersAllocator&) = delete;

  /// Returns false if the device allocates its memory itself. The other functions must not be called then.
  explicit operator bool() const { return functions_.allocate != nullptr; }
  /// Returns ResourceExhausted if the caller has no memory, and InvalidArgument if the memory is not aligned.
  llvm::Expected<void*> allocate(i64 bytes, void* stream);
  /// Gives a block of allocate() back, and ignores any other memory.
  void release(void* memory, void* stream);
  bool has_blocks() const;
  /// Gives back all blocks that release() has not given back. All work that uses them must be done.
  void release_all();

 private:
  void give_back(void* memory, i64 bytes, void* stream) const;

  const AllocatorFunctions functions_;
  mutable std::mutex mutex_;  // Guards bytes_, and is never held during a call of the caller's functions.
  std::map<void*, i64> bytes_;
};

}  // namespace minuet
