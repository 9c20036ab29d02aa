// Copies words from the device to the host without making the host wait at once. The copies reuse pinned
// memory.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Owns slots of pinned memory with an event each. Only one thread at a time calls fetch(), but any thread
/// may wait for a result and release it.
class ReadbackSlots : public std::enable_shared_from_this<ReadbackSlots> {
 public:
  explicit ReadbackSlots(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  /// Waits for the copies that are still in progress.
  ~ReadbackSlots();
  ReadbackSlots(const ReadbackSlots&) = delete;
  ReadbackSlots& operator=(const ReadbackSlots&) = delete;

  /// Enqueues a copy of at most kMostReadbackWords words. It must not be called during a stream capture. It
  /// allocates memory if no slot is free.
  llvm::Expected<std::shared_ptr<DeferredReadback>> fetch(CUstream stream, const i32* source, i64 words);

 private:
  struct Slot {
    i32* words = nullptr;
    CUevent event = nullptr;
  };
  class Fetched;

  llvm::Error add_slots();
  std::optional<Slot> take_free();
  void give_back(Slot slot);

  const std::shared_ptr<CudaDevice> device_;
  std::vector<Slot> slots_;
  std::vector<void*> pinned_;  // Holds the memory blocks that contain the words of the slots.
  std::mutex mutex_;           // Guards free_. No thread holds it during a driver call.
  std::vector<Slot> free_;
};

}  // namespace minuet
