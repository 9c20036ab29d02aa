#include "runtime/maps/map_engines.h"

#include <algorithm>

#include "codegen/cache/kernel_cache.h"

namespace minuet {
namespace {

constexpr i64 kLeastPinnedWords = 1024;

}  // namespace

llvm::Error clear_index(Engine& engine, const IndexMemory& memory) {
  MINUET_TRY(engine.fill_words(memory.taken, 0, memory.slots / 32));
  return engine.fill_words(memory.table, 0,
                           memory.slots * static_cast<i64>(sizeof(Superblock) / sizeof(u32)));
}

llvm::Error MapEngine::begin(void* stream) {
  MINUET_TRY(engine_->begin(stream));
  begun_ = true;
  return llvm::Error::success();
}

/// Returns FailedPrecondition if the stream is being captured. Sets and maps are made once and shared, but
/// every replay of the graph would repeat the work that makes them.
llvm::Error MapEngine::refuse_capture() const {
  if (!engine_->was_captured()) return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "the stream is being captured: make sets and maps, and ask for counts and pairs, before the capture");
}

llvm::Error MapEngine::begin_making(void* stream) {
  MINUET_TRY(begin(stream));
  return refuse_capture();
}

llvm::Error MapEngine::begin_maps(const MapLimits& limits, void* stream) {
  MINUET_TRY(begin_making(stream));
  const i64 bytes = engine_->maps().workspace_bytes(limits);
  if (bytes > workspace_.bytes()) {
    workspace_ = DeviceMemory();
    MINUET_ASSIGN(workspace_, allocate_grown(memory_, bytes, slack_of(bytes)));
  }
  in_use_ = true;
  return engine_->maps().begin(limits, workspace_.data());
}

llvm::Error MapEngine::read_words(i32* host, const i32* source, i64 words) {
  MINUET_TRY(refuse_capture());
  if (words > pinned_words_) {
    // The size at least doubles, so that there are few allocations, because the engine keeps the old blocks
    // too.
    const i64 grown = std::max<i64>(2 * words, kLeastPinnedWords);
    MINUET_ASSIGN(void* pinned, engine_->allocate_pinned(grown * static_cast<i64>(sizeof(i32))));
    pinned_ = static_cast<i32*>(pinned);
    pinned_words_ = grown;
  }
  MINUET_TRY(engine_->read_back(pinned_, source, words * static_cast<i64>(sizeof(i32))));
  MINUET_TRY(engine_->wait());
  in_use_ = false;
  std::copy_n(pinned_, words, host);
  return llvm::Error::success();
}

void MapEngine::end() {
  if (begun_) llvm::consumeError(engine_->end());
  begun_ = false;
}

void MapEngine::settle(bool releases_wait) {
  const bool may_be_read = begun_ && !releases_wait && !engine_->was_captured();
  if (in_use_ || may_be_read) llvm::consumeError(engine_->wait());
  in_use_ = false;
  end();
}

llvm::Expected<std::shared_ptr<MapEngines>> MapEngines::create(std::shared_ptr<Device> device,
                                                               KernelCache& cache, i32 ndim) {
  EngineChoice choice = choose_engine(ndim);
  const PermuteRowsSpec permute = choose_permute_coordinates(ndim);
  if (!device->info().arch.empty()) {
    SourceList list;
    add_sources(list, choice.map32);
    add_sources(list, choice.map64);
    list.add(permute);
    const std::vector<KernelRequest> requests = requests_of(list.take(), device->info().arch);
    MINUET_ASSIGN(const BinaryList binaries, cache.get_or_compile_all(requests));
    MINUET_TRY(
        device->load(binaries, [&](const Binary& refused) { return cache.replace(requests, refused); }));
  }
  return std::shared_ptr<MapEngines>(new MapEngines(std::move(device), choice, permute));
}

llvm::Expected<MapEngines::Lease> MapEngines::take(Queue* queue) {
  if (queue) {
    std::shared_ptr<MapEngine>& kept = queue->map_engine(choice_.ndim);
    if (!kept) {
      MINUET_ASSIGN(kept, create_engine(queue->memory(), queue->share()));
    }
    return Lease(kept.get(), {nullptr});
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      Lease lease(free_.back().release(), {shared_from_this()});
      free_.pop_back();
      return lease;
    }
  }
  MINUET_ASSIGN(std::unique_ptr<MapEngine> made, create_engine(device_, nullptr));
  return Lease(made.release(), {shared_from_this()});
}

llvm::Expected<std::unique_ptr<MapEngine>> MapEngines::create_engine(
    std::shared_ptr<MemorySource> memory, std::shared_ptr<EngineShare> share) const {
  MINUET_ASSIGN(std::unique_ptr<Engine> engine, device_->create_engine(choice_, std::move(share)));
  MINUET_ASSIGN(const i32 permute, engine->add_permute_rows(permute_));
  return std::make_unique<MapEngine>(std::move(memory), std::move(engine), permute);
}

void MapEngines::GiveBack::operator()(MapEngine* engine) const {
  owner ? owner->give_back(engine) : engine->end();
}

void MapEngines::give_back(MapEngine* engine) {
  std::unique_ptr<MapEngine> owned(engine);
  owned->settle(device_->release_waits());
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(owned));
}

}  // namespace minuet
