// The whole road of one layer in the shim: coordinates -> sets -> kernel map -> tables -> gather, GEMM,
// scatter, against a convolution written down from its definition in fp64. Host twins stand in for the
// radix sort and the scan.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
#include "tests/kernels_templates/twins.h"
// features.h first: it brings the shim's names.
#include "kernels_templates/gmas/gather.h"
#include "kernels_templates/gmas/scatter.h"
#include "kernels_templates/map/begin_cloud.h"
#include "kernels_templates/map/compact_pairs.h"
#include "kernels_templates/map/count_pairs.h"
#include "kernels_templates/map/downsample.h"
#include "kernels_templates/map/find_bounds.h"
#include "kernels_templates/map/find_query_borders.h"
#include "kernels_templates/map/make_layout.h"
#include "kernels_templates/map/make_tables.h"
#include "kernels_templates/map/pack.h"
#include "kernels_templates/map/search_kernel_map.h"
#include "kernels_templates/map/unique.h"
#include "kernels_templates/map/unpack.h"

namespace minuet {
namespace {

constexpr i32 kNdim = 3;
constexpr i32 kThreads = 64;

constexpr ScanSpec scan_spec(ScanInput input) {
  return {.input = input, .threads = kThreads, .items_per_thread = 3};
}

template <class Key>
struct Set {
  std::vector<Key> keys;
  i32 count = 0;
  std::vector<i32> source_row;  // the caller's row of each
};

template <KeyType K>
class Pipeline {
 public:
  using Key = typename KeyOf<K>::Type;

  Pipeline(const std::vector<Point>& points, const KernelGeometry& geometry, i32 stride, int variant)
      : geometry_(geometry), grid_(shim::small_grid(variant, kThreads)) {
    pack_points(flatten(points, kNdim), static_cast<i64>(points.size()), stride);
    fine = make_set<true>(sorted_keys_, sorted_rows_);
    std::vector<Key> floored = poisoned<Key>(fine.keys.size());
    DownsampleParams params{
        fine.keys.data(), &fine.count, &layout_, {stride, stride, stride, 1}, floored.data()};
    shim::launch(&downsample<DownsampleSpec{.key = K, .threads = kThreads}>, params, grid_);
    SortBuffers<Key> buffers;
    buffers.keys[0] = floored;
    sort_by_twins<RadixPassSpec{.key = K, .values = false, .threads = kThreads, .items_per_thread = 3}>(
        buffers, fine.count, 0, layout_.keys.total_bits, grid_.order);
    coarse = make_set<false>(buffers.keys[buffers.half], {});
  }

  std::vector<Point> points_of(const Set<Key>& set) const {
    std::vector<i32> coordinates = poisoned<i32>(set.keys.size() * (kNdim + 1));
    shim::launch(&unpack<UnpackSpec{.key = K, .threads = kThreads}>,
                 UnpackParams{set.keys.data(), &set.count, &layout_, coordinates.data()}, grid_);
    std::vector<Point> points(set.keys.size(), Point{});
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::copy_n(coordinates.begin() + static_cast<std::ptrdiff_t>(i * (kNdim + 1)), kNdim + 1,
                  points[i].begin());
    }
    return points;
  }

  template <i32 B, i32 C>
  std::vector<i32> kernel_map(const Set<Key>& sources, const Set<Key>& queries) const {
    const std::size_t blocks = static_cast<std::size_t>(source_blocks(sources.count, B) * geometry_.volume);
    std::vector<i32> borders = poisoned<i32>(blocks), pieces = poisoned<i32>(blocks);
    std::vector<i32> map = poisoned<i32>(queries.keys.size() * static_cast<std::size_t>(geometry_.volume));
    constexpr FindQueryBordersSpec kBorders{
        .key = K, .source_block = B, .query_block = C, .threads = kThreads};
    constexpr SearchKernelMapSpec kSearch{.key = K, .source_block = B, .query_block = C, .threads = kThreads};
    shim::launch(&find_query_borders<kBorders>,
                 FindQueryBordersParams{sources.keys.data(), &sources.count, queries.keys.data(),
                                        &queries.count, &layout_, geometry_, borders.data(), pieces.data()},
                 grid_);
    const std::vector<i32> starts = scan_by_twin<scan_spec(ScanInput::Values)>(
        pieces.data(), static_cast<i32>(blocks), static_cast<i64>(blocks), grid_.order);
    shim::launch(
        &search_kernel_map<kSearch>,
        SearchKernelMapParams{sources.keys.data(), &sources.count, queries.keys.data(), &queries.count,
                              &layout_, geometry_, borders.data(), starts.data(), map.data()},
        grid_);
    return map;
  }

  Set<Key> fine, coarse;

 private:
  void pack_points(const std::vector<i32>& coordinates, i64 count, i32 stride) {
    u32 status = poison<u32>();
    i32 points = poison<i32>();
    std::vector<i32> bounds = poisoned<i32>(2 * kMaxFields);
    MakeLayoutParams making{};
    making.cloud = {nullptr, count, &status, &points, bounds.data()};
    shim::launch(&begin_cloud<BeginCloudSpec{kThreads}>, making.cloud, {.blocks = 1, .threads = kThreads});
    shim::launch(&find_bounds<FindBoundsSpec{.threads = kThreads}>,
                 FindBoundsParams{coordinates.data(), &points, bounds.data()}, grid_);
    for (i32 a = 0; a < kNdim; ++a) {
      making.guard[a] = axis_reach(geometry_, a);
      making.period[a] = stride;
    }
    making.key_bits = key_bytes(K) * 8;
    making.layout = &layout_;
    shim::launch(&make_layout<MakeLayoutSpec{}>, making, {.blocks = 1, .threads = MakeLayoutSpec{}.threads});
    std::vector<Key> keys = poisoned<Key>(static_cast<std::size_t>(count));
    std::vector<u32> rows = poisoned<u32>(static_cast<std::size_t>(count));
    const PackParams params{coordinates.data(), &points, &layout_, keys.data(), rows.data(), &status};
    shim::launch(&pack<PackSpec{.key = K, .threads = kThreads}>, params, grid_);
    ASSERT_EQ(status, 0u);
    SortBuffers<Key> buffers;
    buffers.keys[0] = keys;
    buffers.rows[0] = rows;
    sort_by_twins<RadixPassSpec{.key = K, .threads = kThreads, .items_per_thread = 2}>(
        buffers, static_cast<i32>(count), 0, layout_.keys.total_bits, grid_.order);
    sorted_keys_ = buffers.keys[buffers.half];
    sorted_rows_ = buffers.rows[buffers.half];
  }

  template <bool Rows>
  Set<Key> make_set(const std::vector<Key>& keys, const std::vector<u32>& rows) const {
    const i32 count = static_cast<i32>(keys.size());
    constexpr ScanInput kHeads = K == KeyType::U32 ? ScanInput::Heads32 : ScanInput::Heads64;
    const std::vector<i32> positions =
        scan_by_twin<scan_spec(kHeads)>(keys.data(), count, count, grid_.order);
    Set<Key> set;
    set.keys = poisoned<Key>(keys.size());
    set.source_row = poisoned<i32>(keys.size());
    shim::launch(
        &unique<UniqueSpec{.key = K, .rows = Rows, .threads = kThreads}>,
        UniqueParams{keys.data(), Rows ? rows.data() : nullptr, &count, positions.data(), set.keys.data(),
                     &set.count, count, 0, nullptr, Rows ? set.source_row.data() : nullptr, nullptr},
        grid_);
    set.keys.resize(static_cast<std::size_t>(set.count));
    set.source_row.resize(static_cast<std::size_t>(set.count));
    return set;
  }

  KernelGeometry geometry_;
  shim::Grid grid_;
  CloudLayout layout_;
  std::vector<Key> sorted_keys_;
  std::vector<u32> sorted_rows_;
};

/// Gather, GEMM by offset, scatter; heights padded to a multiple of `step`. Returns [queries, out].
template <i32 In, i32 Out>
Matrix<DType::F32> convolve(const std::vector<i32>& map, i32 volume, i64 sources, i64 queries,
                            const Matrix<DType::F32>& features, const std::vector<float>& weights, i32 step) {
  const shim::Grid grid{.blocks = 2, .threads = kThreads, .order = shim::Order::Shuffled};
  const i32 query_count = static_cast<i32>(queries);
  const std::vector<i32> positions =
      scan_by_twin<scan_spec(ScanInput::Hits)>(map.data(), query_count, volume * queries, grid.order, volume);
  std::vector<i32> counts = poisoned<i32>(static_cast<std::size_t>(volume));
  shim::launch(&count_pairs<CountPairsSpec{kThreads}>,
               CountPairsParams{positions.data(), &query_count, volume, counts.data()},
               {.blocks = 1, .threads = kThreads});
  std::vector<i32> row_base, padding_ends, padding_start;
  i32 rows = 0, padding = 0;
  for (const i32 count : counts) {
    const i32 height = (count + step - 1) / step * step;
    row_base.push_back(rows);
    padding_start.push_back(rows + count);
    padding_ends.push_back(padding += height - count);
    rows += height;
  }
  std::vector<i32> source_table(static_cast<std::size_t>(volume * sources), -1);
  std::vector<i32> query_table = poisoned<i32>(map.size());
  shim::launch(&make_tables<MakeTablesSpec{kThreads}>,
               MakeTablesParams{map.data(), positions.data(), row_base.data(), queries, sources, volume, -1,
                                source_table.data(), query_table.data()},
               grid);

  Matrix<DType::F32> input(rows, In, In), product(rows, Out, Out), output(queries, Out, Out);
  for (i64 row = 0; row < rows; ++row) {  // what is not written poisons every sum
    for (i64 c = 0; c < In; ++c) input.set(row, c, std::numeric_limits<float>::quiet_NaN());
  }
  GatherParams gathering{features.elements(),
                         In,
                         sources,
                         source_table.data(),
                         volume,
                         0,
                         rows,
                         padding,
                         padding_ends.data(),
                         padding_start.data(),
                         input.elements()};
  shim::launch(&gather<GatherSpec{.io = DType::F32, .channels = In, .tile = 4, .threads = kThreads}>,
               gathering, grid);
  for (i32 k = 0; k < volume; ++k) {
    const i32 end = k + 1 < volume ? row_base[static_cast<std::size_t>(k) + 1] : rows;
    for (i64 row = row_base[static_cast<std::size_t>(k)]; row < end; ++row) {
      for (i64 o = 0; o < Out; ++o) {
        float sum = 0;
        for (i64 c = 0; c < In; ++c) {
          sum += float_of(input.bits(row, c)) * weights[static_cast<std::size_t>((k * In + c) * Out + o)];
        }
        EXPECT_FALSE(std::isnan(sum)) << "row " << row << " was not written";
        product.set(row, o, sum);
      }
    }
  }
  constexpr ScatterSpec kScatter{.io = DType::F32,
                                 .channels = Out,
                                 .tile = 4,
                                 .scale_shift = false,
                                 .activation = Activation::None,
                                 .threads = kThreads};
  ScatterParams scattering{};
  scattering.buffer = product.floats();
  scattering.table = query_table.data();
  scattering.rows = queries;
  scattering.volume = volume;
  scattering.last_row = rows;
  scattering.output = output.elements();
  scattering.output_ld = Out;
  u32 overflow = 0;
  scattering.overflow = &overflow;
  scattering.overflow_mark = 1;
  shim::launch(&scatter<kScatter>, scattering, grid);
  EXPECT_EQ(overflow, 0u);
  return output;
}

/// out[q] = sum over k of in[q + delta_k] W_k, by its definition.
template <i32 In, i32 Out>
void expect_convolution(const std::vector<Point>& sources, const std::vector<Point>& queries,
                        const KernelGeometry& geometry, const std::vector<i32>& map) {
  Random random(600);
  Matrix<DType::F32> features(static_cast<i64>(sources.size()), In, In);
  features.fill(random, static_cast<i64>(sources.size()));
  std::vector<float> weights;
  for (i32 i = 0; i < geometry.volume * In * Out; ++i)
    weights.push_back(static_cast<float>(random.uniform(-1, 1)));
  const Matrix<DType::F32> output = convolve<In, Out>(map, geometry.volume, static_cast<i64>(sources.size()),
                                                      static_cast<i64>(queries.size()), features, weights, 4);
  std::map<Point, i64> rows;
  for (const Point& source : sources) rows.emplace(source, static_cast<i64>(rows.size()));
  for (std::size_t q = 0; q < queries.size(); ++q) {
    for (i64 o = 0; o < Out; ++o) {
      double expected = 0;
      for (i32 k = 0; k < geometry.volume; ++k) {
        const auto found = rows.find(sum(queries[q], offset_of(geometry, k)));
        if (found == rows.end()) continue;
        for (i64 c = 0; c < In; ++c) {
          expected += features.at(found->second, c) *
                      static_cast<double>(weights[static_cast<std::size_t>((k * In + c) * Out + o)]);
        }
      }
      ASSERT_NEAR(output.at(static_cast<i64>(q), o), expected, 2e-5) << "query " << q << " channel " << o;
    }
  }
}

std::vector<Point> floored(const std::vector<Point>& points, i32 stride) {
  std::map<Point, bool> seen;
  for (Point point : points) {
    for (i32 a = 1; a <= kNdim; ++a) {
      while (point[a] % stride != 0) --point[a];
    }
    seen.emplace(point, true);
  }
  std::vector<Point> result;
  for (const auto& entry : seen) result.push_back(entry.first);
  return result;
}

template <KeyType K, i32 B, i32 C>
void expect_pipeline(i64 count, i32 half_extent, int variant) {
  SCOPED_TRACE("count " + std::to_string(count) + " B " + std::to_string(B) + " C " + std::to_string(C));
  Random random(610 + static_cast<u64>(count));
  const std::vector<Point> points =
      random_points(random, count, kNdim, 3, half_extent, false);  // with duplicates
  const KernelGeometry geometry = geometry_of(kNdim, {3, 3, 3, 1}, 1);
  const Pipeline<K> pipeline(points, geometry, 2, variant);

  std::vector<Point> distinct = points;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  ASSERT_EQ(pipeline.points_of(pipeline.fine), distinct);
  for (std::size_t u = 0; u < distinct.size(); ++u) {
    const auto first = std::find(points.begin(), points.end(), distinct[u]);
    ASSERT_EQ(pipeline.fine.source_row[u], first - points.begin());
  }
  const std::vector<Point> coarse = floored(points, 2);
  ASSERT_EQ(pipeline.points_of(pipeline.coarse), coarse);

  const std::vector<i32> same = pipeline.template kernel_map<B, C>(pipeline.fine, pipeline.fine);
  ASSERT_EQ(same, plain_kernel_map(distinct, distinct, geometry));
  const std::vector<i32> down = pipeline.template kernel_map<B, C>(pipeline.fine, pipeline.coarse);
  ASSERT_EQ(down, plain_kernel_map(distinct, coarse, geometry));
  expect_convolution<4, 8>(distinct, distinct, geometry, same);
  expect_convolution<8, 4>(distinct, coarse, geometry, down);
}

TEST(MapPipeline, SmallBlocks) {
  int variant = 0;
  for (const i64 count : {0, 1, 2, 31, 150}) {
    expect_pipeline<KeyType::U32, 4, 8>(count, 3, variant++);
    expect_pipeline<KeyType::U64, 8, 4>(count, 3, variant++);
  }
}
TEST(MapPipeline, DefaultBlocks) {
  int variant = 0;
  for (const i64 count : {0, 1, 31, 1000}) {
    expect_pipeline<KeyType::U32, 256, 512>(count, 6, variant++);
    expect_pipeline<KeyType::U64, 256, 512>(count, 6, variant++);
  }
}

}  // namespace
}  // namespace minuet
