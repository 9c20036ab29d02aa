// Engines that build coordinate sets and kernel maps outside of networks (paper 5.1).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/engine/queue.h"

namespace minuet {

/// One engine with the memory that its calls work in. One thread at a time.
class MapEngine {
 public:
  MapEngine(std::shared_ptr<MemorySource> memory, std::unique_ptr<Engine> engine, i32 permute_coordinates)
      : memory_(std::move(memory)), engine_(std::move(engine)), permute_coordinates_(permute_coordinates) {}

  Engine& operator*() const { return *engine_; }
  Engine* operator->() const { return engine_.get(); }
  i32 permute_coordinates() const { return permute_coordinates_; }
  llvm::Error begin(void* stream);
  /// begin(), of what is made once, and not at each replay: not in a capture.
  llvm::Error begin_making(void* stream);
  /// The same, and the Map step's.
  llvm::Error begin_maps(const MapLimits& limits, void* stream);
  /// Copies device words to the host and waits; not in a capture.
  llvm::Error read_words(i32* host, const i32* source, i64 words);
  /// Ends the caller's use, after a failure too.
  void end();
  /// The next use may be on another stream: waits where what is enqueued uses the workspace.
  void settle();

 private:
  llvm::Error refuse_capture() const;

  std::shared_ptr<MemorySource> memory_;
  DeviceMemory workspace_;  // goes after the engine, which waits for what uses it
  std::unique_ptr<Engine> engine_;
  i32 permute_coordinates_ = 0;
  bool begun_ = false;   // else the engine knows an earlier call's stream, which may be gone
  bool in_use_ = false;  // the workspace, by what is enqueued
  i32* pinned_ = nullptr;
  i64 pinned_words_ = 0;
};

/// Those of one device and dimension: a call takes one for itself, so that none waits for another's stream.
class MapEngines : public std::enable_shared_from_this<MapEngines> {
 public:
  /// Compiles and loads the kernels of the Map step.
  static llvm::Expected<std::shared_ptr<MapEngines>> create(std::shared_ptr<Device> device,
                                                            KernelCache& cache, i32 ndim);
  struct GiveBack {
    std::shared_ptr<MapEngines> owner;  // null for a queue's engine, which stays there
    void operator()(MapEngine* engine) const;
  };
  using Lease = std::unique_ptr<MapEngine, GiveBack>;
  /// The queue's own, in a call of the queue's; without one, which may be null, any.
  llvm::Expected<Lease> take(Queue* queue);

  /// Of sets whose bounds are looked for (KeyBits).
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
  mutable std::mutex mutex_;  // of what follows; never held while anything waits
  std::vector<std::unique_ptr<MapEngine>> free_;
  KeyBits key_bits_;
};

}  // namespace minuet
