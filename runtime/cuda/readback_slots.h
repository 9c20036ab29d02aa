// Copies of device words to the host that the host does not wait for at once. Their pinned memory is reused.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Slots of pinned memory with an event each. fetch() is called by one thread at a time; any thread may wait
/// for a result and release it.
class ReadbackSlots : public std::enable_shared_from_this<ReadbackSlots> {
 public:
  explicit ReadbackSlots(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  /// Waits for the copies that are still under way.
  ~ReadbackSlots();
  ReadbackSlots(const ReadbackSlots&) = delete;
  ReadbackSlots& operator=(const ReadbackSlots&) = delete;

  /// Enqueues a copy of at most kMostReadbackWords words; not in a capture. Allocates if no slot is free.
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
  std::vector<void*> pinned_;  // holds the words of the slots
  std::mutex mutex_;           // guards free_; never held during driver calls
  std::vector<Slot> free_;
};

}  // namespace minuet
