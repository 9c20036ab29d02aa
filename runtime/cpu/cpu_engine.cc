#include "runtime/cpu/cpu_engine.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace minuet {

class CpuEngine::Timer {
 public:
  using Clock = std::chrono::steady_clock;

  Timer(CpuEngine& engine, double StageTimes::*stage) : engine_(engine), stage_(stage) {
    if (engine.profiling_ && engine.timed_ != Timed::Nothing) start_ = Clock::now();
  }
  ~Timer() {
    if (!start_) return;
    const double elapsed = std::chrono::duration<double, std::milli>(Clock::now() - *start_).count();
    PassTimes& times = engine_.timed_ == Timed::Run ? engine_.run_times_ : engine_.prepare_times_;
    times.all.*stage_ += elapsed;
    if (engine_.op_ < 0) return;
    times.ops.resize(engine_.ops_.size());
    times.ops[engine_.op_].*stage_ += elapsed;
  }

 private:
  CpuEngine& engine_;
  double StageTimes::*stage_;
  std::optional<Clock::time_point> start_;
};

CpuEngine::CpuEngine(std::shared_ptr<ThreadPool> pool, const VectorKernels& kernels, i32 ndim)
    : pool_(std::move(pool)),
      kernels_(kernels),
      ndim_(ndim),
      parameters_(*pool_),
      points_(*pool_),
      selections_(*pool_),
      gradients_(*pool_, kernels_),
      batch_norms_(*pool_, kernels_) {}

CpuEngine::~CpuEngine() {
  for (void* memory : pinned_) std::free(memory);
}

llvm::Expected<i32> CpuEngine::add_op(const OpChoice& choice) {
  MINUET_ASSIGN(std::unique_ptr<CpuOp> op, make_cpu_op(choice));
  scratch_words_ = std::max(scratch_words_, op->scratch_words());
  ops_.push_back(std::move(op));
  return static_cast<i32>(ops_.size()) - 1;
}

llvm::Expected<i32> CpuEngine::add_permute_rows(const PermuteRowsSpec& spec) {
  permutes_.push_back(spec);
  return static_cast<i32>(permutes_.size()) - 1;
}

i64 CpuEngine::scratch_bytes() const { return scratch_words_ * pool_->threads() * 4; }

llvm::Error CpuEngine::fill_words(void* target, u32 word, i64 words) {
  std::fill_n(static_cast<u32*>(target), words, word);
  return llvm::Error::success();
}

llvm::Error CpuEngine::copy(void* target, const void* source, i64 bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
  return llvm::Error::success();
}

llvm::Error CpuEngine::read_back(void* host, const void* source, i64 bytes) {
  return copy(host, source, bytes);
}

llvm::Expected<std::shared_ptr<DeferredReadback>> CpuEngine::start_readback(const i32* source, i64 words) {
  class Copied final : public DeferredReadback {
   public:
    explicit Copied(llvm::ArrayRef<i32> words) : words_(words.vec()) {}
    llvm::Expected<llvm::ArrayRef<i32>> wait() override { return llvm::ArrayRef<i32>(words_); }

   private:
    const std::vector<i32> words_;
  };
  return std::make_shared<Copied>(llvm::ArrayRef<i32>(source, static_cast<std::size_t>(words)));
}

llvm::Error CpuEngine::send(void* target, const void* host, i64 bytes) {
  if (bytes > 0) std::memcpy(target, host, bytes);
  return llvm::Error::success();
}

llvm::Expected<void*> CpuEngine::allocate_pinned(i64 bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, static_cast<size_t>(std::max<i64>(bytes, 1))) != 0) {
    return make_error(StatusCode::ResourceExhausted, "cannot allocate {0} bytes of host memory", bytes);
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

llvm::Error CpuEngine::find_layout(const LayoutRequest& request) {
  Timer timer(*this, &StageTimes::sort);
  find_layout_cpu(*pool_, ndim_, request);
  return llvm::Error::success();
}

llvm::Error CpuEngine::begin(const MapLimits& limits, void* workspace) {
  limits_ = limits;
  map_scratch_ = place_map_scratch(limits, workspace);
  return llvm::Error::success();
}

llvm::Error CpuEngine::build_coords(const BuildCoordsRequest& request) {
  Timer timer(*this, &StageTimes::sort);
  if (request.most > limits_.capacity) {
    return make_error(StatusCode::Internal, "{0} coordinates exceed the capacity of {1}", request.most,
                      limits_.capacity);
  }
  with_key(limits_.key(), [&](auto key) { build_coords_cpu<decltype(key)>(*pool_, map_scratch_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::downsample(const DownsampleRequest& request) {
  Timer timer(*this, &StageTimes::sort);
  with_key(limits_.key(), [&](auto key) { downsample_cpu<decltype(key)>(*pool_, map_scratch_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::search(const SearchRequest& request) {
  Timer timer(*this, &StageTimes::map);
  with_key(limits_.key(), [&](auto key) { search_cpu<decltype(key)>(*pool_, request); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::find_bounds(const i32* coordinates, i64 count, const CloudState& cloud) {
  Timer timer(*this, &StageTimes::sort);
  *cloud.status = 0;
  *cloud.points = static_cast<i32>(count);
  find_bounds_cpu(*pool_, ndim_, coordinates, count, cloud.bounds);
  return llvm::Error::success();
}

llvm::Error CpuEngine::index_sets(const IndexSetsRequest& request) {
  Timer timer(*this, &StageTimes::sort);
  index_sets_cpu(*pool_, ndim_, request);
  return request.voided ? void_failed(request.status, request.voided, request.voided_words)
                        : llvm::Error::success();
}

llvm::Error CpuEngine::search_index(llvm::ArrayRef<IndexedSearch> searches) {
  Timer timer(*this, &StageTimes::map);
  for (const IndexedSearch& search : searches) search_index_cpu(*pool_, ndim_, search);
  return llvm::Error::success();
}

llvm::Error CpuEngine::join_words(llvm::ArrayRef<JoinedWord> words) {
  for (const JoinedWord& word : words) *word.to |= *word.from;
  return llvm::Error::success();
}

llvm::Error CpuEngine::void_failed(const u32* status, i32* words, i64 counts) {
  if (*status != 0) std::fill_n(words, counts, 0);
  return llvm::Error::success();
}

llvm::Error CpuEngine::count_pairs(const Coords& queries, const MapView& map) {
  Timer timer(*this, &StageTimes::map);
  count_pairs_cpu(*pool_, map_scratch_, *queries.count, map);
  return llvm::Error::success();
}

llvm::Error CpuEngine::make_masks(const Coords& queries, i32 volume, const NeighbourView& view, i32* counts) {
  Timer timer(*this, &StageTimes::map);
  make_masks_cpu(*pool_, *queries.count, volume, view, counts);
  return llvm::Error::success();
}

i64 CpuEngine::view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const {
  return place_order_scratch(requests, nullptr).bytes;
}

llvm::Error CpuEngine::make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) {
  Timer timer(*this, &StageTimes::map);
  const MapScratch scratch = place_order_scratch(requests, workspace);
  for (const ViewRequest& request : requests) make_view_cpu(*pool_, scratch, request);
  return llvm::Error::success();
}

llvm::Error CpuEngine::unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) {
  Timer timer(*this, &StageTimes::sort);
  if (coords.side.index) {
    list_voxels_cpu(*pool_, ndim_, coords, coordinates);
    return llvm::Error::success();
  }
  with_key(coords.key,
           [&](auto key) { unpack_cpu<decltype(key)>(*pool_, coords, layout->keys, coordinates); });
  return llvm::Error::success();
}

llvm::Error CpuEngine::compact_pairs(llvm::ArrayRef<PairsRequest> requests) {
  Timer timer(*this, &StageTimes::map);
  for (const PairsRequest& request : requests) compact_pairs_cpu(*pool_, request);
  return llvm::Error::success();
}

llvm::Error CpuEngine::permute_rows(const PermuteRequest& request) {
  Timer timer(*this, &StageTimes::other);
  permute_rows_cpu(*pool_, permutes_[request.permute], request);
  return llvm::Error::success();
}

llvm::Error CpuEngine::check(const OpRequest& request) const {
  if (request.scratch == nullptr && scratch_words_ > 0) {
    return make_error(StatusCode::Internal, "an op that needs scratch memory was called without it");
  }
  if (request.map == nullptr) return llvm::Error::success();
  const MapView& map = *request.map;
  const i64 inputs = request.transposed ? map.queries : map.sources;
  const i64 outputs = request.transposed ? map.sources : map.queries;
  if (request.input_rows == inputs && request.output_rows == outputs) return llvm::Error::success();
  return make_error(StatusCode::Internal,
                    "the kernel map has {0} input rows and {1} output rows, but the op was called "
                    "with {2} and {3}",
                    inputs, outputs, request.input_rows, request.output_rows);
}

template <class Work>
llvm::Error CpuEngine::with_call(const OpRequest& request, const Work& work) {
  const auto timed = [&](double StageTimes::*stage, llvm::function_ref<void()> timed_work) {
    Timer timer(*this, stage);
    timed_work();
  };
  return work(CpuCall{*pool_, kernels_, static_cast<float*>(request.scratch), scratch_words_, timed});
}

llvm::Error CpuEngine::prepare_op(const OpRequest& request) {
  return with_call(request, [&](const CpuCall& call) { return ops_[request.op]->prepare(call, request); });
}

llvm::Error CpuEngine::run_op(const OpRequest& request) {
  MINUET_TRY(check(request));
  op_ = request.op;
  llvm::Error ran =
      with_call(request, [&](const CpuCall& call) { return ops_[request.op]->run(call, request); });
  op_ = -1;
  return ran;
}

void CpuEngine::set_profiling(bool on) {
  profiling_ = on;
  prepare_times_ = run_times_ = {};
}

void CpuEngine::time_as(Timed call) {
  timed_ = call;
  if (call == Timed::Prepare) prepare_times_ = {};
  if (call == Timed::Run) run_times_ = {};
}

llvm::Expected<PassTimes> CpuEngine::pass_times() {
  if (!profiling_) return make_error(StatusCode::FailedPrecondition, kProfilingOff);
  PassTimes times = run_times_;
  times.all += prepare_times_.all;
  return times;
}

}  // namespace minuet
