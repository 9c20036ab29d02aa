// What all calls on one stream share (minuet_queue): side streams, scratch, memory of sets and maps.
//
// A stream runs one thing after the other, so what one call leaves the next one may take, with no wait.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/engine/device.h"

namespace minuet {

/// Blocks of device memory that are used again. Whoever releases one and whoever takes it next enqueue on one
/// stream. Thread-safe.
class BlockPool final : public MemorySource {
 public:
  explicit BlockPool(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~BlockPool() override;
  llvm::Expected<void*> allocate(i64 bytes) override;
  void release(void* memory) override;
  bool gives_idle() const override { return false; }

 private:
  void* take_free(i64 bytes);
  /// Frees what nobody has; the driver waits for work that still uses it.
  void trim();

  const std::shared_ptr<Device> device_;
  std::mutex mutex_;  // of the two maps; never held while the driver works
  std::multimap<i64, void*> free_;
  std::map<void*, i64> bytes_;  // of each block that is out
};

class MapEngine;

/// A thread's hold on a queue, or on none.
struct QueueCall {
  std::unique_lock<std::mutex> in_call, at_work;
};

/// One call at a time, but for the release of memory.
class Queue {
 public:
  static llvm::Expected<std::shared_ptr<Queue>> create(std::shared_ptr<Device> device, void* stream);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  void* stream() const { return stream_; }
  const std::shared_ptr<MemorySource>& memory() const { return memory_; }
  const std::shared_ptr<EngineShare>& share() const { return share_; }
  /// InvalidArgument where a call is for another stream.
  llvm::Error check_stream(void* stream) const;
  /// Memory that is anybody's between two calls: at least `bytes`. A larger block takes the place of the
  /// last; who holds that one may go on to use it.
  llvm::Expected<std::shared_ptr<const DeviceMemory>> scratch(i64 bytes) { return grown(scratch_, bytes); }
  /// The same for Engine::scratch_bytes(), which every cloud needs alike.
  llvm::Expected<std::shared_ptr<const DeviceMemory>> engine_scratch(i64 bytes) {
    return grown(engine_scratch_, bytes);
  }
  /// The queue's engine for sets and maps of `ndim` axes; null before the first.
  std::shared_ptr<MapEngine>& map_engine(i32 ndim) { return map_engines_[ndim]; }
  /// The whole of a call; FailedPrecondition beside another thread's.
  llvm::Expected<QueueCall> lock();
  /// Of what any thread may ask while another one calls: that call ends first.
  std::unique_lock<std::mutex> work() { return std::unique_lock<std::mutex>(at_work_); }

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
  std::mutex in_call_;  // of calls; each of them works, and so does who only asks
  std::mutex at_work_;
};

}  // namespace minuet
