#include "runtime/cpu/cpu_engine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace minuet {

class CpuEngine::Timer {
 public:
  using Clock = std::chrono::steady_clock;

  Timer(CpuEngine& engine, double StageTimes::*stage, bool of_maps) : engine_(engine), stage_(stage) {
    if (!engine.profiling_) return;
    StageTimes& times = engine.times_;
    // A new pass over the maps, or over the features, replaces the times of the last one.
    if (of_maps && engine.fresh_maps_) times.sort = times.map = 0;
    if (!of_maps && engine.fresh_features_) times.gather = times.gemm = times.scatter = times.other = 0;
    (of_maps ? engine.fresh_maps_ : engine.fresh_features_) = false;
    start_ = Clock::now();
  }
  ~Timer() {
    if (!engine_.profiling_) return;
    engine_.times_.*stage_ += std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

 private:
  CpuEngine& engine_;
  double StageTimes::*stage_;
  Clock::time_point start_;
};

CpuEngine::CpuEngine(std::shared_ptr<ThreadPool> pool, const VectorKernels& kernels, i32 ndim)
    : pool_(std::move(pool)), kernels_(kernels), ndim_(ndim) {}

CpuEngine::~CpuEngine() {
  for (void* memory : pinned_) std::free(memory);
}

llvm::Expected<i32> CpuEngine::add_convolution(const ConvolutionChoice& choice, ConvolutionWeights weights) {
  const ConvolutionProblem& problem = choice.problem;
  if (problem.input.ld < problem.in_channels || problem.output.ld < problem.out_channels ||
      (problem.residual && problem.residual_input.ld < problem.out_channels)) {
    return make_error(StatusCode::InvalidArgument,
                      "rows of {0} and {1} elements are too short for {2} -> {3} channels", problem.input.ld,
                      problem.output.ld, problem.in_channels, problem.out_channels);
  }
  if (weights.weight == nullptr ||
      (problem.scale_shift && (weights.scale == nullptr || weights.shift == nullptr))) {
    return make_error(StatusCode::InvalidArgument, "the convolution's weights are missing");
  }
  layers_.push_back({problem, weights});
  scratch_words_ = std::max(scratch_words_, convolve_scratch_words(problem));
  return static_cast<i32>(layers_.size()) - 1;
}

llvm::Expected<i32> CpuEngine::add_permute_rows(const PermuteRowsSpec& spec) {
  permutes_.push_back(spec);
  return static_cast<i32>(permutes_.size()) - 1;
}

i64 CpuEngine::scratch_bytes() const { return scratch_words_ * pool_->threads() * 4; }

llvm::Error CpuEngine::begin(void*) {
  fresh_maps_ = fresh_features_ = true;
  return llvm::Error::success();
}

llvm::Error CpuEngine::fill_words(void* target, u32 word, i64 words) {
  std::fill_n(static_cast<u32*>(target), words, word);
  return llvm::Error::success();
}

llvm::Error CpuEngine::read_back(void* host, const void* source, i64 bytes) {
  if (bytes > 0) std::memcpy(host, source, bytes);
  return llvm::Error::success();
}

llvm::Error CpuEngine::send(void* target, const void* host, i64 bytes) {
  if (bytes > 0) std::memcpy(target, host, bytes);
  return llvm::Error::success();
}

llvm::Expected<void*> CpuEngine::allocate_pinned(i64 bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, static_cast<size_t>(std::max<i64>(bytes, 1))) != 0) {
    return make_error(StatusCode::ResourceExhausted, "{0} bytes of host memory are not to be had", bytes);
  }
  pinned_.push_back(memory);
  ++counters_.allocations;
  return memory;
}

template <class Work>
void CpuEngine::with_key(KeyType key, const Work& work) {
  if (key == KeyType::U64) {
    work(u64{});
  } else {
    work(u32{});
  }
}

llvm::Error CpuEngine::find_bounds(const i32* coordinates, i64 count, i32* bounds) {
  Timer timer(*this, &StageTimes::sort, true);
  find_bounds_cpu(*pool_, ndim_, coordinates, count, bounds);
  return llvm::Error::success();
}

llvm::Error CpuEngine::begin_maps(const MapLimits& limits, void* workspace) {
  limits_ = limits;
  map_scratch_ = place_map_scratch(limits, workspace);
  return llvm::Error::success();
}

llvm::Error CpuEngine::build_coords(const BuildCoordsRequest& request) {
  Timer timer(*this, &StageTimes::sort, true);
  if (request.count > limits_.capacity) {
    return make_error(StatusCode::Internal, "{0} coordinates exceed the capacity of {1}", request.count,
                      limits_.capacity);
  }
  with_key(limits_.key, [&](auto key) { build_coords_cpu<decltype(key)>(*pool_, map_scratch_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::downsample(const DownsampleRequest& request) {
  Timer timer(*this, &StageTimes::sort, true);
  with_key(limits_.key, [&](auto key) { downsample_cpu<decltype(key)>(*pool_, map_scratch_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::search(const SearchRequest& request) {
  Timer timer(*this, &StageTimes::map, true);
  with_key(limits_.key, [&](auto key) { search_cpu<decltype(key)>(*pool_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::count_pairs(const Coords& queries, const MapView& map) {
  Timer timer(*this, &StageTimes::map, true);
  count_pairs_cpu(*pool_, map_scratch_, *queries.count, map);
  return llvm::Error::success();
}

llvm::Error CpuEngine::unpack(const Coords& coords, const KeyLayout& layout, i32* coordinates) {
  Timer timer(*this, &StageTimes::sort, true);
  // The set may be older than the last begin_maps, so its own layout decides.
  with_key(key_type_of(layout),
           [&](auto key) { unpack_cpu<decltype(key)>(*pool_, coords, layout, coordinates); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::make_tables(const MapView& map, i32 direct_offset, const GmasTables& tables) {
  Timer timer(*this, &StageTimes::map, true);
  make_tables_cpu(*pool_, map, direct_offset, tables);
  return llvm::Error::success();
}

llvm::Error CpuEngine::compact_pairs(const MapView& map, i32* sources, i32* targets) {
  Timer timer(*this, &StageTimes::map, true);
  compact_pairs_cpu(*pool_, map, sources, targets);
  return llvm::Error::success();
}

llvm::Error CpuEngine::permute_rows(i32 permute, const void* input, i64 input_ld, const i32* index, i64 rows,
                                    void* output, i64 output_ld) {
  Timer timer(*this, &StageTimes::other, false);
  permute_rows_cpu(*pool_, permutes_[permute], input, input_ld, index, rows, output, output_ld);
  return llvm::Error::success();
}

llvm::Error CpuEngine::check(const ConvolveRequest& request) const {
  const MapView& map = *request.map;
  const i64 inputs = request.transposed ? map.queries : map.sources;
  const i64 outputs = request.transposed ? map.sources : map.queries;
  if (request.input_rows != inputs || request.output_rows != outputs) {
    return make_error(StatusCode::Internal, "the map leads {0} rows to {1}, and the call has {2} and {3}",
                      inputs, outputs, request.input_rows, request.output_rows);
  }
  if (request.transposed && request.groups->direct_offset >= 0) {
    return make_error(StatusCode::Internal, "a transposed convolution has no offset that reads in place");
  }
  if (request.scratch == nullptr) return make_error(StatusCode::Internal, "the call has no scratch");
  return llvm::Error::success();
}

/// Weights are addressed by offset here, whatever the order of the groups.
llvm::Error CpuEngine::prepare_convolution(const ConvolveRequest&) { return llvm::Error::success(); }

llvm::Error CpuEngine::convolve(const ConvolveRequest& request) {
  MINUET_TRY(check(request));
  const Layer& layer = layers_[request.convolution];
  const CpuConvolution call{*pool_,        kernels_, layer.problem,
                            layer.weights, request,  static_cast<float*>(request.scratch),
                            scratch_words_};
  for (std::size_t slice = 0; slice < request.slices->slices.size(); ++slice) {
    {
      Timer timer(*this, &StageTimes::gather, false);
      gather_cpu(call, slice);
    }
    {
      Timer timer(*this, &StageTimes::gemm, false);
      gemm_cpu(call, slice, gemm_tasks_);
    }
    Timer timer(*this, &StageTimes::scatter, false);
    scatter_cpu(call, slice);
  }
  return llvm::Error::success();
}

void CpuEngine::set_profiling(bool on) {
  profiling_ = on;
  times_ = {};
}

llvm::Expected<StageTimes> CpuEngine::stage_times() {
  if (!profiling_)
    return make_error(StatusCode::FailedPrecondition,
                      "profiling is off, so no stage was timed: turn it on (minuet_execution_set_profiling) "
                      "before the calls to time");
  return times_;
}

}  // namespace minuet
