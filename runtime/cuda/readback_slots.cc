#include "runtime/cuda/readback_slots.h"

#include <atomic>

namespace minuet {
namespace {

constexpr i64 kSlotsAtOnce = 16;

}  // namespace

class ReadbackSlots::Fetched final : public DeferredReadback {
 public:
  Fetched(std::shared_ptr<ReadbackSlots> owner, Slot slot, i64 words)
      : owner_(std::move(owner)), slot_(slot), words_(words) {}
  /// The slot may be reused before the copy has finished, because its next copy is enqueued behind this one
  /// on the same stream.
  ~Fetched() override { owner_->give_back(slot_); }
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;

  llvm::Expected<llvm::ArrayRef<i32>> wait() override {
    if (!has_arrived_) {
      const Driver& driver = owner_->device_->driver();
      const ContextScope scope(driver, owner_->device_->context());
      const CaptureScope alone(driver, CU_STREAM_CAPTURE_MODE_RELAXED);
      MINUET_TRY(check(driver, driver.cuEventSynchronize(slot_.event), "waiting for a readback"));
      has_arrived_ = true;
    }
    return llvm::ArrayRef<i32>(slot_.words, static_cast<std::size_t>(words_));
  }

 private:
  const std::shared_ptr<ReadbackSlots> owner_;
  const Slot slot_;
  const i64 words_;
  std::atomic<bool> has_arrived_{false};  // It is true once a wait has succeeded.
};

ReadbackSlots::~ReadbackSlots() {
  const Driver& driver = device_->driver();
  const ContextScope scope(driver, device_->context());
  const CaptureScope alone(driver);
  for (const Slot& slot : slots_) {
    static_cast<void>(driver.cuEventSynchronize(slot.event));
    static_cast<void>(driver.cuEventDestroy(slot.event));
  }
  for (void* const memory : pinned_) static_cast<void>(driver.cuMemFreeHost(memory));
}

llvm::Expected<std::shared_ptr<DeferredReadback>> ReadbackSlots::fetch(CUstream stream, const i32* source,
                                                                       i64 words) {
  if (words > kMostReadbackWords) {
    return make_error(StatusCode::Internal, "a readback has {0} words; at most {1} are allowed", words,
                      kMostReadbackWords);
  }
  std::optional<Slot> slot = take_free();
  if (!slot) {
    MINUET_TRY(add_slots());
    slot = take_free();
  }
  auto fetched = std::make_shared<Fetched>(shared_from_this(), *slot, words);
  const Driver& driver = device_->driver();
  MINUET_TRY(check(driver,
                   driver.cuMemcpyDtoHAsync(slot->words, device_address(source),
                                            static_cast<std::size_t>(words) * sizeof(i32), stream),
                   "cuMemcpyDtoHAsync"));
  MINUET_TRY(check(driver, driver.cuEventRecord(slot->event, stream), "cuEventRecord after a readback"));
  return fetched;
}

llvm::Error ReadbackSlots::add_slots() {
  const Driver& driver = device_->driver();
  const CaptureScope alone(driver);
  pinned_.reserve(pinned_.size() + 1);  // The reservation makes sure that push_back below cannot fail.
  slots_.reserve(slots_.size() + kSlotsAtOnce);
  void* memory = nullptr;
  MINUET_TRY(check(driver, driver.cuMemHostAlloc(&memory, kSlotsAtOnce * kMostReadbackWords * sizeof(i32), 0),
                   "allocating pinned memory"));
  pinned_.push_back(memory);
  for (i64 i = 0; i < kSlotsAtOnce; ++i) {
    Slot slot{static_cast<i32*>(memory) + i * kMostReadbackWords, nullptr};
    MINUET_TRY(check(driver, driver.cuEventCreate(&slot.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    slots_.push_back(slot);
    give_back(slot);
  }
  return llvm::Error::success();
}

std::optional<ReadbackSlots::Slot> ReadbackSlots::take_free() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const Slot slot = free_.back();
  free_.pop_back();
  return slot;
}

void ReadbackSlots::give_back(Slot slot) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(slot);
}

}  // namespace minuet
