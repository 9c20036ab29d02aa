// Holds the state that all calls on one stream share (minuet_queue), which is additional streams for GEMMs,
// scratch memory, and memory of coordinate sets and kernel maps.
//
// Work on a stream runs in order, so a call may reuse the memory of the call before it without waiting.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/engine/device.h"

namespace minuet {

/// Holds blocks of device memory that are reused. The work that used a block before its release and the work
/// that uses it after the next allocate() must be enqueued on the same stream. The class is thread-safe.
class BlockPool final : public MemorySource {
 public:
  BlockPool(std::shared_ptr<Device> device, void* stream) : device_(std::move(device)), stream_(stream) {}
  ~BlockPool() override;
  llvm::Expected<void*> allocate(i64 bytes) override;
  void release(void* memory) override;
  bool returns_idle_memory() const override { return false; }

 private:
  /// Returns the smallest free block of at least `bytes` bytes and less than twice that, or null if there is
  /// none.
  void* take_free(i64 bytes);
  /// Frees all unused blocks. The driver or the order of the stream keeps work that still uses them safe.
  void trim();

  const std::shared_ptr<Device> device_;
  void* const stream_;
  std::mutex mutex_;  // Guards free_ and bytes_, and is never held during a driver call.
  std::multimap<i64, void*> free_;
  std::map<void*, i64> bytes_;  // Holds the size of each block in use.
};

class MapEngine;

/// Holds a thread's locks on a queue. The locks are empty if the call has no queue.
struct QueueLock {
  std::unique_lock<std::mutex> in_call, at_work;
};

/// Represents the queue of one stream. It allows one call at a time, but memory may be released at any time.
class Queue {
 public:
  static llvm::Expected<std::shared_ptr<Queue>> create(std::shared_ptr<Device> device, void* stream);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  void* stream() const { return stream_; }
  const std::shared_ptr<MemorySource>& memory() const { return memory_; }
  const std::shared_ptr<EngineShare>& share() const { return share_; }
  /// Returns InvalidArgument if `stream` is not the queue's stream.
  llvm::Error check_stream(void* stream) const;
  /// Returns scratch memory of at least `bytes` bytes that every call may use. Its contents do not survive
  /// between two calls. If a larger block is needed, it replaces the current one, which stays valid for its
  /// other owners.
  llvm::Expected<std::shared_ptr<const DeviceMemory>> scratch(i64 bytes) { return grown(scratch_, bytes); }
  /// Returns scratch memory for the ops of an engine (Engine::scratch_bytes()), whose size does not depend on
  /// the cloud. It behaves like scratch().
  llvm::Expected<std::shared_ptr<const DeviceMemory>> engine_scratch(i64 bytes) {
    return grown(engine_scratch_, bytes);
  }
  /// Returns the queue's engine for sets and maps of `ndim` axes. It is null until the caller creates the
  /// engine and stores it here.
  std::shared_ptr<MapEngine>& map_engine(i32 ndim) { return map_engines_[ndim]; }
  /// Locks the queue for a whole call. Returns FailedPrecondition if another thread's call is in progress.
  llvm::Expected<QueueLock> lock();
  /// Waits for the call in progress, if any, and locks the queue. This is meant for queries, such as the row
  /// count of a set, which any thread may make at any time.
  std::unique_lock<std::mutex> work() { return std::unique_lock<std::mutex>(work_mutex_); }

 private:
  using Block = std::shared_ptr<const DeviceMemory>;

  Queue(std::shared_ptr<Device> device, void* stream, std::shared_ptr<EngineShare> share);
  llvm::Expected<Block> grown(Block& block, i64 bytes);

  const std::shared_ptr<Device> device_;
  void* const stream_;
  const std::shared_ptr<EngineShare> share_;
  const std::shared_ptr<MemorySource> memory_;
  Block scratch_, engine_scratch_;
  std::map<i32, std::shared_ptr<MapEngine>> map_engines_;
  std::mutex in_call_;     // Only lock() takes this mutex.
  std::mutex work_mutex_;  // Both lock() and work() take this mutex.
};

}  // namespace minuet
