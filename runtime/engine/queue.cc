#include "runtime/engine/queue.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i64 kLeastBlock = 4096;

/// Rounds up to one of eight sizes between consecutive powers of two, so that blocks of similar sizes can be
/// reused.
i64 block_bytes(i64 bytes) {
  i64 step = kLeastBlock / 8;
  while (16 * step < bytes) step *= 2;
  return std::max(kLeastBlock, (bytes + step - 1) / step * step);
}

}  // namespace

BlockPool::~BlockPool() { trim(); }

void BlockPool::trim() {
  std::multimap<i64, void*> blocks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    blocks.swap(free_);
  }
  if (blocks.empty()) return;
  // The null stream cannot be named to release_on(), for which null means that no work uses the memory.
  if (!stream_ && !device_->release_waits()) llvm::consumeError(device_->synchronize(nullptr));
  for (const auto& [bytes, block] : blocks) device_->release_on(stream_, block);
}

void* BlockPool::take_free(i64 bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = free_.lower_bound(bytes);
  if (found == free_.end() || found->first >= 2 * bytes) return nullptr;
  void* const block = found->second;
  bytes_.emplace(block, found->first);
  free_.erase(found);
  return block;
}

llvm::Expected<void*> BlockPool::allocate(i64 bytes) {
  bytes = block_bytes(bytes);
  if (void* const block = take_free(bytes)) return block;
  llvm::Expected<void*> block = device_->allocate_on(stream_, bytes);
  if (!block) {
    StatusError failure = take_status(block.takeError());
    if (failure.code() != StatusCode::ResourceExhausted)
      return llvm::make_error<StatusError>(std::move(failure));
    // The missing memory may be in unused blocks, which trim() frees.
    trim();
    block = device_->allocate_on(stream_, bytes);
    if (!block) return block.takeError();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_.emplace(*block, bytes);
  return *block;
}

void BlockPool::release(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = bytes_.find(memory);
  unpoison_parts(memory, found->second);
  free_.emplace(found->second, memory);
  bytes_.erase(found);
}

Queue::Queue(std::shared_ptr<Device> device, void* stream, std::shared_ptr<EngineShare> share)
    : device_(std::move(device)),
      stream_(stream),
      share_(std::move(share)),
      memory_(std::make_shared<BlockPool>(device_, stream)) {}

llvm::Expected<std::shared_ptr<Queue>> Queue::create(std::shared_ptr<Device> device, void* stream) {
  MINUET_ASSIGN(std::shared_ptr<EngineShare> share, device->create_share());
  return std::shared_ptr<Queue>(new Queue(std::move(device), stream, std::move(share)));
}

llvm::Error Queue::check_stream(void* stream) const {
  if (stream == stream_) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the call uses another stream than its queue, which keeps all calls in order: pass the "
                    "queue's stream, or create the sets, maps and executions without a queue");
}

llvm::Expected<QueueLock> Queue::lock() {
  QueueLock call{std::unique_lock<std::mutex>(in_call_, std::try_to_lock), {}};
  if (!call.in_call.owns_lock()) {
    return make_error(StatusCode::FailedPrecondition,
                      "the queue is in use by another thread: create a queue for each thread");
  }
  call.at_work = work();
  return call;
}

llvm::Expected<Queue::Block> Queue::grown(Block& block, i64 bytes) {
  if (block && block->bytes() >= bytes) return block;
  const bool growing = block != nullptr;
  // Releases the old block first if it has no other owner, because memory may not suffice for both blocks.
  if (block.use_count() == 1) block.reset();
  MINUET_ASSIGN(DeviceMemory memory, growing ? allocate_grown(memory_, bytes, slack_of(bytes))
                                             : DeviceMemory::create(memory_, bytes));
  block = std::make_shared<const DeviceMemory>(std::move(memory));
  return block;
}

}  // namespace minuet
