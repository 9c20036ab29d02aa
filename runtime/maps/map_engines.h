// Provides the engines that build coordinate sets and kernel maps outside of networks (section 5.1 of the
// Minuet paper).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/cloud_layout.h"
#include "runtime/engine/queue.h"

namespace minuet {

/// Enqueues the work that empties the hash table of a new index, because MapOperations::index_sets() empties
/// only slots that are marked as taken.
llvm::Error clear_index(Engine& engine, const IndexMemory& memory);

/// Owns one engine and the workspace of its calls. This class is not thread-safe.
class MapEngine {
 public:
  MapEngine(std::shared_ptr<MemorySource> memory, std::unique_ptr<Engine> engine, i32 permute_coordinates)
      : memory_(std::move(memory)), engine_(std::move(engine)), permute_coordinates_(permute_coordinates) {}

  Engine& operator*() const { return *engine_; }
  Engine* operator->() const { return engine_.get(); }
  i32 permute_coordinates() const { return permute_coordinates_; }
  llvm::Error begin(void* stream);
  /// Calls begin() for a call that makes a coordinate set or a kernel map. Returns FailedPrecondition if the
  /// stream is being captured, because every replay of the graph would repeat the work.
  llvm::Error begin_making(void* stream);
  /// Calls begin_making(), makes the workspace large enough for `limits`, and starts the Map step.
  llvm::Error begin_maps(const MapLimits& limits, void* stream);
  /// Copies device words to the host and waits for them. Returns FailedPrecondition if the stream is being
  /// captured.
  llvm::Error read_words(i32* host, const i32* source, i64 words);
  /// Ends the use of the engine that begin() started. The caller must call it after a failure too.
  void end();
  /// Waits for the work that uses the workspace, and then calls end(). The wait is needed because the next
  /// use of the engine may be on another stream. If `releases_wait` is false (Device::release_waits()), the
  /// function waits for all work of the call, because the caller may then destroy the set that it reads.
  void settle(bool releases_wait);

 private:
  llvm::Error refuse_capture() const;

  std::shared_ptr<MemorySource> memory_;
  // This memory is destroyed after the engine, whose destructor waits for the work that uses it.
  DeviceMemory workspace_;
  std::unique_ptr<Engine> engine_;
  i32 permute_coordinates_ = 0;
  // The flag is true from begin() to end(). At other times end() does nothing, because the engine may still
  // know the stream of an earlier call, and that stream may be destroyed.
  bool begun_ = false;
  // The flag is true if enqueued work uses the workspace.
  bool in_use_ = false;
  i32* pinned_ = nullptr;
  i64 pinned_words_ = 0;
};

/// Owns the engines for one device and one number of axes. Each call takes an engine for itself, so that no
/// call waits for the stream of another call.
class MapEngines : public std::enable_shared_from_this<MapEngines> {
 public:
  /// Compiles and loads the kernels of the Map step, if the device needs any. take() creates the engines
  /// later.
  static llvm::Expected<std::shared_ptr<MapEngines>> create(std::shared_ptr<Device> device,
                                                            KernelCache& cache, i32 ndim);
  struct GiveBack {
    // The pointer is null for the engine of a queue, because the queue keeps its engine.
    std::shared_ptr<MapEngines> owner;
    void operator()(MapEngine* engine) const;
  };
  using Lease = std::unique_ptr<MapEngine, GiveBack>;
  /// Returns the engine of `queue`, whose lock the caller must hold (Queue::lock). If `queue` is null,
  /// returns a free engine, or a new one if none is free.
  llvm::Expected<Lease> take(Queue* queue);

  /// Returns true if the engines can look up the rows of ordered views in an index
  /// (MapOperations::looks_up_rows()), which only those of GPUs can.
  bool looks_up_rows() const { return !device_->info().arch.empty(); }

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
  // Guards free_. No thread holds this lock while it waits for the device.
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<MapEngine>> free_;
};

}  // namespace minuet
