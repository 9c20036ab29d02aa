// Engines that build coordinate sets and kernel maps outside of networks (paper, section 5.1).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/engine/queue.h"

namespace minuet {

/// One engine and the workspace of its calls. Not thread-safe.
class MapEngine {
 public:
  MapEngine(std::shared_ptr<MemorySource> memory, std::unique_ptr<Engine> engine, i32 permute_coordinates)
      : memory_(std::move(memory)), engine_(std::move(engine)), permute_coordinates_(permute_coordinates) {}

  Engine& operator*() const { return *engine_; }
  Engine* operator->() const { return engine_.get(); }
  i32 permute_coordinates() const { return permute_coordinates_; }
  llvm::Error begin(void* stream);
  /// Calls begin() for results that are made once. Returns FailedPrecondition in a capture, because every
  /// replay would repeat the work.
  llvm::Error begin_making(void* stream);
  /// Calls begin_making() and starts the Map step.
  llvm::Error begin_maps(const MapLimits& limits, void* stream);
  /// Copies device words to the host and waits. Returns FailedPrecondition in a capture.
  llvm::Error read_words(i32* host, const i32* source, i64 words);
  /// Ends a use of the engine. It must be called after a failure too.
  void end();
  /// Ends a use and waits for work that uses the workspace, because the next use may be on another stream.
  void settle();

 private:
  llvm::Error refuse_capture() const;

  std::shared_ptr<MemorySource> memory_;
  DeviceMemory workspace_;  // destroyed after the engine, which waits for the work that uses it
  std::unique_ptr<Engine> engine_;
  i32 permute_coordinates_ = 0;
  // False: the engine may still know the stream of an earlier call, which may be destroyed.
  bool begun_ = false;
  bool in_use_ = false;  // true: enqueued work uses the workspace
  i32* pinned_ = nullptr;
  i64 pinned_words_ = 0;
};

/// The engines of one device and dimension. Each call takes one for itself, so that no call waits for the
/// stream of another one.
class MapEngines : public std::enable_shared_from_this<MapEngines> {
 public:
  /// Compiles and loads the kernels of the Map step.
  static llvm::Expected<std::shared_ptr<MapEngines>> create(std::shared_ptr<Device> device,
                                                            KernelCache& cache, i32 ndim);
  struct GiveBack {
    std::shared_ptr<MapEngines> owner;  // null for the engine of a queue, which the queue keeps
    void operator()(MapEngine* engine) const;
  };
  using Lease = std::unique_ptr<MapEngine, GiveBack>;
  /// Returns the engine of `queue`, which must be in a call; if `queue` is null, any free engine.
  llvm::Expected<Lease> take(Queue* queue);

  /// Returns the estimate of key bits (KeyBits) for sets whose bounds are not declared.
  i32 key_bits() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return key_bits_.bits();
  }
  void note_key_bits(i32 needed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    key_bits_.note(needed);
  }

  const std::shared_ptr<Device>& device() const { return device_; }
  i32 ndim() const { return choice_.ndim; }

 private:
  MapEngines(std::shared_ptr<Device> device, const EngineChoice& choice, PermuteRowsSpec permute)
      : device_(std::move(device)), choice_(choice), permute_(permute) {}
  llvm::Expected<std::unique_ptr<MapEngine>> create_engine(std::shared_ptr<MemorySource> memory,
                                                           std::shared_ptr<EngineShare> share) const;
  void give_back(MapEngine* engine);

  const std::shared_ptr<Device> device_;
  const EngineChoice choice_;
  const PermuteRowsSpec permute_;
  mutable std::mutex mutex_;  // guards the members below; never held during a wait
  std::vector<std::unique_ptr<MapEngine>> free_;
  KeyBits key_bits_;
};

}  // namespace minuet
