// Words that the host fetches while it goes on enqueuing, into pinned memory that is used again.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace minuet {

/// Slots of pinned memory with an event each. One thread at a time fetches; any may wait, and let go.
class ReadbackSlots : public std::enable_shared_from_this<ReadbackSlots> {
 public:
  explicit ReadbackSlots(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  /// Waits for the copies that nobody waited for.
  ~ReadbackSlots();
  ReadbackSlots(const ReadbackSlots&) = delete;
  ReadbackSlots& operator=(const ReadbackSlots&) = delete;

  /// Enqueues a copy of at most kMostReadbackWords; not in a capture. Allocates where more are under way than
  /// ever.
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
  std::vector<void*> pinned_;  // where the slots' words are
  std::mutex mutex_;           // of free_; never held while the driver works
  std::vector<Slot> free_;
};

}  // namespace minuet
