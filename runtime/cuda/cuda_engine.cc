#include "runtime/cuda/cuda_engine.h"

namespace minuet {

llvm::Expected<std::unique_ptr<Engine>> CudaEngine::create(std::shared_ptr<CudaDevice> device,
                                                           const EngineChoice& choice,
                                                           CudaEngineOptions options,
                                                           std::shared_ptr<SideStreams> side) {
  if (!side) {
    MINUET_ASSIGN(side, SideStreams::create(device));
  }
  MINUET_ASSIGN(std::unique_ptr<Launcher> launcher, Launcher::create(std::move(device), std::move(side)));
  MINUET_ASSIGN(std::unique_ptr<MapStep> map, MapStep::create(*launcher, choice));
  return std::unique_ptr<Engine>(new CudaEngine(std::move(launcher), std::move(map), options));
}

llvm::Expected<i32> CudaEngine::add_convolution(const ConvolutionChoice& choice, ConvolutionWeights weights) {
  const ContextScope current = scope();
  return gmas_.add_convolution(choice, weights);
}

llvm::Expected<i32> CudaEngine::add_permute_rows(const PermuteRowsSpec& spec) {
  return gmas_.add_permute_rows(spec);
}

llvm::Error CudaEngine::set_workspace(void* workspace) {
  const ContextScope current = scope();
  return gmas_.set_workspace(workspace);
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

llvm::Error CudaEngine::find_bounds(const i32* coordinates, i64 count, i32* bounds) {
  const ContextScope current = scope();
  return map_->find_bounds(coordinates, count, bounds);
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

llvm::Error CudaEngine::search(const SearchRequest& request) {
  const ContextScope current = scope();
  return map_->search(request);
}

llvm::Error CudaEngine::count_pairs(const Coords& queries, const MapView& map) {
  const ContextScope current = scope();
  return map_->count_pairs(queries, map);
}

llvm::Error CudaEngine::unpack(const Coords& coords, const KeyLayout& layout, i32* coordinates) {
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

llvm::Error CudaEngine::permute_rows(i32 permute, const void* input, i64 input_ld, const i32* index, i64 rows,
                                     void* output, i64 output_ld) {
  const ContextScope current = scope();
  return gmas_.permute_rows(permute, input, input_ld, index, rows, output, output_ld);
}

llvm::Error CudaEngine::prepare_convolution(const ConvolveRequest& request) {
  const ContextScope current = scope();
  return gmas_.prepare(request);
}

llvm::Error CudaEngine::send_prepared() {
  const ContextScope current = scope();
  return gmas_.send_prepared();
}

llvm::Error CudaEngine::convolve(const ConvolveRequest& request) {
  const ContextScope current = scope();
  return gmas_.convolve(request);
}

llvm::Expected<StageTimes> CudaEngine::stage_times() {
  if (!launcher_->profiler().on()) {
    return make_error(StatusCode::FailedPrecondition,
                      "profiling is off, so no stage was timed: turn it on (minuet_execution_set_profiling) "
                      "before the calls to time");
  }
  const ContextScope current = scope();
  return launcher_->profiler().times();
}

}  // namespace minuet
