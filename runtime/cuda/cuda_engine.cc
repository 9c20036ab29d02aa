#include "runtime/cuda/cuda_engine.h"

#include <algorithm>

#include "runtime/engine/arena.h"

namespace minuet {

llvm::Expected<std::unique_ptr<Engine>> CudaEngine::create(std::shared_ptr<CudaDevice> device,
                                                           const EngineChoice& choice,
                                                           CudaEngineOptions options,
                                                           std::shared_ptr<SideStreams> side) {
  MINUET_ASSIGN(std::unique_ptr<Launcher> launcher, Launcher::create(std::move(device), std::move(side)));
  MINUET_ASSIGN(std::unique_ptr<MapStep> map, MapStep::create(*launcher, choice));
  return std::unique_ptr<Engine>(new CudaEngine(std::move(launcher), std::move(map), options));
}

llvm::Expected<i32> CudaEngine::add_op(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) {
  const ContextScope current = scope();
  auto found = llvm::find_if(families_, [&](const Family& known) { return known.family == &choice.kind(); });
  if (found == families_.end()) {
    const CudaFamily* const family = find_cuda_family(choice.kind());
    if (family == nullptr) {
      return make_error(StatusCode::Internal, "no kernels of the family {0} run on a GPU",
                        choice.kind().name);
    }
    families_.push_back({&choice.kind(), family->make(*launcher_, options_)});
    found = std::prev(families_.end());
  }
  MINUET_ASSIGN(const i32 number, found->ops->add(choice, parameters));
  ops_.push_back({found->ops.get(), number});
  return static_cast<i32>(ops_.size()) - 1;
}

llvm::Expected<i32> CudaEngine::add_permute_rows(const PermuteRowsSpec& spec) { return permute_.add(spec); }

i64 CudaEngine::workspace_bytes() const {
  ArenaLayout parts;
  for (const Family& family : families_) parts.add(family.ops->workspace_bytes());
  return parts.bytes();
}

llvm::Error CudaEngine::set_workspace(void* workspace) {
  const ContextScope current = scope();
  ArenaLayout parts;
  for (const Family& family : families_) {
    const i64 offset = parts.add(family.ops->workspace_bytes());
    MINUET_TRY(family.ops->set_workspace(static_cast<char*>(workspace) + offset));
  }
  return llvm::Error::success();
}

/// One family works in it at a time.
i64 CudaEngine::scratch_bytes() const {
  i64 bytes = 0;
  for (const Family& family : families_) bytes = std::max(bytes, family.ops->scratch_bytes());
  return bytes;
}

llvm::Error CudaEngine::begin(void* stream) {
  const ContextScope current = scope();
  return launcher_->begin(static_cast<CUstream>(stream));
}

llvm::Error CudaEngine::end() {
  const ContextScope current = scope();
  return launcher_->end();
}

llvm::Error CudaEngine::fill_words(void* target, u32 word, i64 words) {
  const ContextScope current = scope();
  return launcher_->fill(target, word, words);
}

llvm::Error CudaEngine::read_back(void* host, const void* source, i64 bytes) {
  const ContextScope current = scope();
  return launcher_->read_back(host, source, bytes);
}

llvm::Expected<std::shared_ptr<LateWords>> CudaEngine::fetch_late(const i32* source, i64 words) {
  const ContextScope current = scope();
  if (!late_) late_ = std::make_shared<LateSlots>(launcher_->shared_device());
  ++launcher_->counters().copies;
  return late_->fetch(launcher_->stream(), source, words);
}

llvm::Error CudaEngine::send(void* target, const void* host, i64 bytes) {
  const ContextScope current = scope();
  MINUET_TRY(launcher_->send(target, host, bytes));
  return launcher_->record_copy();
}

llvm::Error CudaEngine::wait_for_sends() {
  const ContextScope current = scope();
  return launcher_->wait_for_copy();
}

llvm::Error CudaEngine::wait() {
  const ContextScope current = scope();
  return launcher_->wait();
}

llvm::Expected<void*> CudaEngine::allocate_pinned(i64 bytes) {
  const ContextScope current = scope();
  return launcher_->allocate_pinned(bytes);
}

llvm::Error CudaEngine::find_layout(const LayoutRequest& request) {
  const ContextScope current = scope();
  return map_->find_layout(request);
}

llvm::Error CudaEngine::begin_maps(const MapLimits& limits, void* workspace) {
  const ContextScope current = scope();
  return map_->begin(limits, workspace);
}

llvm::Error CudaEngine::build_coords(const BuildCoordsRequest& request) {
  const ContextScope current = scope();
  return map_->build_coords(request);
}

llvm::Error CudaEngine::downsample(const DownsampleRequest& request) {
  const ContextScope current = scope();
  return map_->downsample(request);
}

llvm::Error CudaEngine::index_sets(const IndexSetsRequest& request) {
  const ContextScope current = scope();
  return map_->index_sets(request);
}

llvm::Error CudaEngine::search_index(llvm::ArrayRef<IndexedSearch> searches) {
  const ContextScope current = scope();
  return map_->search_index(searches);
}

llvm::Error CudaEngine::search(const SearchRequest& request) {
  const ContextScope current = scope();
  return map_->search(request);
}

llvm::Error CudaEngine::void_failed(const u32* status, i32* words, i64 counts) {
  const ContextScope current = scope();
  return map_->void_failed(status, words, counts);
}

llvm::Error CudaEngine::count_pairs(const Coords& queries, const MapView& map) {
  const ContextScope current = scope();
  return map_->count_pairs(queries, map);
}

llvm::Error CudaEngine::make_masks(const Coords& queries, i32 volume, const NeighbourView& view,
                                   i32* counts) {
  const ContextScope current = scope();
  return map_->make_masks(queries, volume, view, counts);
}

i64 CudaEngine::view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const {
  return map_->view_workspace_bytes(requests);
}

llvm::Error CudaEngine::make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) {
  const ContextScope current = scope();
  return map_->make_views(requests, static_cast<char*>(workspace));
}

llvm::Error CudaEngine::unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) {
  const ContextScope current = scope();
  return map_->unpack(coords, layout, coordinates);
}

llvm::Error CudaEngine::make_tables(const MapView& map, i32 direct_offset, const GmasTables& tables) {
  const ContextScope current = scope();
  return map_->make_tables(map, direct_offset, tables);
}

llvm::Error CudaEngine::compact_pairs(const MapView& map, i32* sources, i32* targets) {
  const ContextScope current = scope();
  return map_->compact_pairs(map, sources, targets);
}

llvm::Error CudaEngine::permute_rows(const PermuteRequest& request) {
  const ContextScope current = scope();
  llvm::Error permuted = permute_.run(request);
  launcher_->end_step();
  return permuted;
}

llvm::Error CudaEngine::prepare_op(const OpRequest& request) {
  const ContextScope current = scope();
  const Op& op = ops_[request.op];
  return op.ops->prepare(op.number, request);
}

llvm::Error CudaEngine::send_prepared() {
  const ContextScope current = scope();
  for (const Family& family : families_) MINUET_TRY(family.ops->send_prepared());
  return llvm::Error::success();
}

llvm::Error CudaEngine::run_op(const OpRequest& request) {
  const ContextScope current = scope();
  const Op& op = ops_[request.op];
  launcher_->profiler().set_op(request.op);
  llvm::Error ran = op.ops->run(op.number, request);
  launcher_->profiler().set_op(-1);
  launcher_->end_step();
  return ran;
}

llvm::Expected<PassTimes> CudaEngine::pass_times() {
  if (!launcher_->profiler().on()) {
    return make_error(StatusCode::FailedPrecondition,
                      "profiling is off, so no stage was timed: turn it on (minuet_execution_set_profiling) "
                      "before the calls to time");
  }
  const ContextScope current = scope();
  return launcher_->profiler().times();
}

}  // namespace minuet
