// Views of many maps made together, more than one launch's table holds.
#include "runtime/cuda/view_workspace.h"
#include "tests/runtime/cuda/gpu.h"
#include "tests/support/random.h"
#include "tests/support/view_check.h"

namespace minuet {
namespace {

constexpr i32 kKernelSizes[][3] = {{2, 2, 2}, {3, 3, 3}, {1, 1, 3}, {5, 3, 3}};

/// A map at random, and what is asked of it. Capacities lie above the counts.
class SomeMap {
 public:
  SomeMap(Device& device, u64 seed) : device_(device) {
    Random random(seed);
    geometry_.volume = 1;
    for (i32 a = 0; a < 3; ++a) {
      geometry_.kernel_size[a] = kKernelSizes[seed % std::size(kKernelSizes)][a];
      geometry_.volume *= geometry_.kernel_size[a];
    }
    queries_ = seed == 5 ? 0 : 1 + static_cast<i64>(random.below(150));
    sources_ = queries_ + static_cast<i64>(random.below(40));
    for (i32 k = 0; k < geometry_.volume; ++k) {
      const i64 shift = sources_ > 0 ? static_cast<i64>(random.below(static_cast<u64>(sources_))) : 0;
      for (i64 q = 0; q < queries_; ++q) {
        rows_.push_back(random.below(3) != 0 ? static_cast<i32>((q + shift) % sources_) : -1);
      }
    }
    offsets_ = order_offsets(geometry_);
    map_.geometry = geometry_;
    map_.rows = make(rows_)->as<i32>();
    const auto side = [&](i64 count, i64 slack) {
      return Coords{nullptr, make(std::vector<i32>{static_cast<i32>(count)})->as<i32>(), count + slack};
    };
    request_ = {&map_, side(sources_, static_cast<i64>(random.below(9))),
                side(queries_, static_cast<i64>(random.below(9))), seed % 3 == 1};
    NeighbourView& view = request_.transposed ? map_.transposed : map_;
    const i64 outputs = request_.output_coords().capacity, words = mask_words(geometry_.volume);
    if (request_.transposed) view.rows = make(geometry_.volume * outputs)->as<i32>();
    if (!is_ordered(seed)) return;
    request_.offsets = &offsets_;
    view.masks = make(words * outputs)->as<u32>();
    view.order = make(outputs)->as<i32>();
    view.ordered_rows = make(geometry_.volume * ordered_row_stride(outputs))->as<i32>();
    view.ordered_masks = make(words * ordered_row_stride(outputs))->as<u32>();
    view.block_masks = make(words * blocks_of_height(outputs, kLeastBlockHeight))->as<u32>();
    view.block_orders = make(block_order_begin(outputs, kBlockHeightCount))->as<i32>();
  }
  SomeMap(const SomeMap&) = delete;

  const ViewRequest& request() const { return request_; }
  void check(const MaskRanks& ranks) const {
    const std::vector<i32> rows = request_.transposed ? transpose(rows_, geometry_.volume, sources_) : rows_;
    const NeighbourView& view = request_.view();
    EXPECT_EQ(read_words(device_, view.rows, static_cast<i64>(rows.size())), rows);
    if (request_.offsets) {
      check_view(device_, rows, geometry_, ordered_row_stride(request_.output_coords().capacity),
                 request_.view(), ranks);
    }
  }

 private:
  /// Some transposed views go without.
  static bool is_ordered(u64 seed) { return seed % 9 != 4; }
  TestBuffer* make(i64 words) {
    buffers_.push_back(std::make_unique<TestBuffer>(device_, words * 4));
    return buffers_.back().get();
  }
  TestBuffer* make(const std::vector<i32>& values) {
    buffers_.push_back(std::make_unique<TestBuffer>(device_, values));
    return buffers_.back().get();
  }

  Device& device_;
  KernelGeometry geometry_;
  i64 queries_ = 0, sources_ = 0;
  std::vector<i32> rows_;
  OffsetOrder offsets_;
  MapView map_;
  ViewRequest request_;
  std::vector<std::unique_ptr<TestBuffer>> buffers_;
};

/// Of each; a batch is one sort.
std::vector<MaskRanks> ranks_of(llvm::ArrayRef<ViewRequest> requests) {
  std::vector<MaskRanks> ranks;
  while (!requests.empty()) {
    const llvm::ArrayRef<ViewRequest> batch = requests.take_front(view_batch(requests));
    requests = requests.drop_front(batch.size());
    std::vector<i32> ranked;
    for (const ViewRequest& request : batch) {
      if (request.offsets) ranked.push_back(request.offsets->ranked);
    }
    const std::vector<MaskRanks> shared = share_ranks(ranked, ordered_capacity(batch));
    auto next = shared.begin();
    for (const ViewRequest& request : batch) ranks.push_back(request.offsets ? *next++ : MaskRanks{});
  }
  return ranks;
}

class MapViewsTest : public GpuTest {};

TEST_F(MapViewsTest, OfManyMaps) {
  gpu().load_map(3);
  EngineChoice choice;
  choice.map32 = choose_map(KeyType::U32, 3);
  choice.map64 = choose_map(KeyType::U64, 3);
  const std::unique_ptr<Engine> engine = take(device().create_engine(choice, nullptr));
  for (const u64 maps : {0, 1, 2, kMostViews, kMostViews + 6}) {
    SCOPED_TRACE(maps);
    std::vector<std::unique_ptr<SomeMap>> some;
    std::vector<ViewRequest> requests;
    for (u64 i = 0; i < maps; ++i) {
      some.push_back(std::make_unique<SomeMap>(device(), i));
      requests.push_back(some.back()->request());
    }
    const TestBuffer workspace(device(), engine->maps().view_workspace_bytes(requests));
    engine->reset_counters();
    take(engine->begin(nullptr));
    take(engine->maps().make_views(requests, workspace.as()));
    take(engine->wait());
    take(engine->end());
    const std::vector<MaskRanks> ranks = ranks_of(requests);
    for (u64 i = 0; i < maps; ++i) {
      SCOPED_TRACE(i);
      some[i]->check(ranks[i]);
    }
    const i64 tables = (static_cast<i64>(maps) + kMostViews - 1) / kMostViews;
    EXPECT_LE(engine->counters().kernels, 10 * tables)
        << "preset, transpose, rank, a sort of 5, order, and one of blocks";
    EXPECT_EQ(engine->counters().fills, 0);
  }
}

}  // namespace
}  // namespace minuet
