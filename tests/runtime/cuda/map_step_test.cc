// Every operation of the Map step against the standard library.
#include <algorithm>
#include <map>
#include <numeric>

#include "tests/runtime/cuda/gpu.h"
#include "tests/support/layer_run.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

constexpr i32 kNdim = 3;
constexpr i32 kFields = 1 + kNdim;

i32 key_bits_of(KeyType key) { return 8 * key_bytes(key); }

struct Box {
  i32 least[kMaxFields] = {};
  i32 greatest[kMaxFields] = {};
};

/// A box whose keys have `bits` bits, the axes sharing them; negative where there is room.
Box box_of_bits(i32 bits) {
  Box box;
  for (i32 f = 1; f < kFields; ++f) {
    const i32 share = bits / kNdim + (f <= bits % kNdim ? 1 : 0);
    box.least[f] = static_cast<i32>(-(i64{1} << share) / 2);
    box.greatest[f] = static_cast<i32>(box.least[f] + (i64{1} << share) - 1);
  }
  return box;
}

std::vector<i32> random_coordinates(const Box& box, i64 count, u64 seed) {
  Random random(seed);
  std::vector<i32> coordinates(static_cast<std::size_t>(count * kFields));
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    const std::size_t f = i % kFields;
    coordinates[i] = static_cast<i32>(random.between(box.least[f], box.greatest[f]));
  }
  return coordinates;
}

CloudLayout layout_of(const Box& box, i64 guard = 0, i64 period = 1) {
  const i64 guards[kMaxDim] = {guard, guard, guard, guard};
  const i64 periods[kMaxDim] = {period, period, period, period};
  return make_bounded_layout(kNdim, box.least, box.greatest, guards, periods);
}

std::vector<u64> pack_all(const CloudLayout& layout, const std::vector<i32>& coordinates) {
  std::vector<u64> keys;
  for (std::size_t i = 0; i < coordinates.size(); i += kFields)
    keys.push_back(pack_key<u64>(layout.keys, &coordinates[i]));
  return keys;
}

/// A set on the device.
struct DeviceSet {
  DeviceSet(Device& device, i64 capacity, KeyType key)
      : key(key),
        keys(device, std::max<i64>(capacity, 1) * key_bytes(key)),
        count(device, 4),
        capacity(capacity) {}
  Coords coords() const { return {keys.as<void>(), count.as<i32>(), capacity, key}; }
  std::vector<u64> read() const {
    std::vector<u64> result;
    if (key == KeyType::U64) {
      result = keys.read<u64>();
    } else {
      const std::vector<u32> narrow = keys.read<u32>();
      result.assign(narrow.begin(), narrow.end());
    }
    result.resize(static_cast<std::size_t>(count.read_first<i32>()));
    return result;
  }

  KeyType key;
  TestBuffer keys, count;
  i64 capacity;
};

class MapStepTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    open_engine({});
  }

  void open_engine(const SearchChoice& search) {
    gpu().load_map(kNdim, search);
    const EngineChoice choice{kNdim, choose_map(KeyType::U32, kNdim, search),
                              choose_map(KeyType::U64, kNdim, search)};
    engine_ = take(device().create_engine(choice, nullptr));
    take(engine_->begin(nullptr));
  }

  void begin_maps(const MapLimits& limits) {
    workspace_ = std::make_unique<TestBuffer>(device(), engine_->maps().workspace_bytes(limits));
    take(engine_->maps().begin(limits, workspace_->as()));
  }

  /// On the device, until the next one.
  const CloudLayout* send(const CloudLayout& layout) {
    layout_ = std::make_unique<TestBuffer>(device(), std::vector<CloudLayout>{layout});
    return layout_->as<CloudLayout>();
  }

  /// Builds `set` from coordinates.
  void build(const CloudLayout* layout, const std::vector<i32>& coordinates, DeviceSet& set) {
    const i64 count = static_cast<i64>(coordinates.size()) / kFields;
    input_ = std::make_unique<TestBuffer>(device(), coordinates);
    source_row_ = std::make_unique<TestBuffer>(device(), count * 4);
    row_of_ = std::make_unique<TestBuffer>(device(), count * 4);
    status_ = std::make_unique<TestBuffer>(device(), 4);
    take(engine_->fill_words(status_->as(), 0, 1));
    BuildCoordsRequest request;
    request.coordinates = input_->as<i32>();
    count_ = std::make_unique<TestBuffer>(device(), std::vector<i32>{static_cast<i32>(count)});
    request.count = count_->as<i32>();
    request.most = count;
    request.layout = layout;
    request.coords = set.coords();
    request.source_row = source_row_->as<i32>();
    request.row_of = row_of_->as<i32>();
    request.status = status_->as<u32>();
    take(engine_->maps().build_coords(request));
  }

  void check_build(i32 bits, KeyType key, i64 count, u64 seed) {
    SCOPED_TRACE(testing::Message() << bits << " bits in " << 8 * key_bytes(key) << "-bit keys, " << count
                                    << " coordinates, seed " << seed);
    const Box box = box_of_bits(bits);
    const CloudLayout layout = layout_of(box);
    ASSERT_EQ(layout.keys.total_bits, bits);
    const std::vector<i32> coordinates = random_coordinates(box, count, seed);
    begin_maps({key_bits_of(key), count, 1, 0, 1});
    DeviceSet set(device(), count, key);
    build(send(layout), coordinates, set);
    take(engine_->wait());

    const std::vector<u64> keys = pack_all(layout, coordinates);
    std::vector<i32> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return keys[a] < keys[b]; });
    std::vector<u64> unique;
    std::vector<i32> source_row, row_of(keys.size());
    for (i32 row : order) {
      if (unique.empty() || unique.back() != keys[row])
        unique.push_back(keys[row]), source_row.push_back(row);
      row_of[row] = static_cast<i32>(unique.size()) - 1;
    }
    EXPECT_EQ(status_->read_first<u32>(), 0u);
    EXPECT_TRUE(set.read() == unique);
    std::vector<i32> rows = source_row_->read<i32>();
    rows.resize(unique.size());
    EXPECT_TRUE(rows == source_row);
    EXPECT_TRUE(row_of_->read<i32>() == row_of);
  }

  /// Map, counts, positions and pairs of two sets against a std::map.
  void check_search(KeyType key, const AxisArray& kernel, i32 step, bool strided, i64 points, u64 seed);
  void check_pairs(const MapView& map, const std::vector<i32>& table, i64 pairs);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TestBuffer> workspace_, input_, source_row_, row_of_, status_, layout_, count_;
};

TEST_F(MapStepTest, SortsAndMakesUnique) {
  u64 seed = 1;
  const bool small = on_software_device();
  for (i64 count : {0, 1, 2, 31, 1000, small ? 2500 : 100000}) {
    for (i32 bits : {0, 1, 7, 8, 9, 20, 31, 32}) {
      check_build(bits, KeyType::U32, count, seed++);
      check_build(bits, KeyType::U64, count, seed++);
    }
    for (i32 bits : {33, 40, 48, 63, 64}) check_build(bits, KeyType::U64, count, seed++);
  }
  const i64 many = small ? 9000 : 1000000;
  check_build(30, KeyType::U32, many, seed++);
  check_build(17, KeyType::U32, many, seed++);
  check_build(57, KeyType::U64, many, seed++);
}

TEST_F(MapStepTest, ReportsWhatLiesOutsideTheBounds) {
  const Box box = box_of_bits(12);
  std::vector<i32> coordinates = random_coordinates(box, 100, 5);
  coordinates[4 * 57 + 2] = box.greatest[2] + 1;
  begin_maps({32, 100, 2, 0, 1});
  DeviceSet set(device(), 100, KeyType::U32);
  build(send(layout_of(box)), coordinates, set);
  take(engine_->wait());
  EXPECT_EQ(status_->read_first<u32>(), kStatusOutOfBounds);

  coordinates[4 * 57 + 2] = box.greatest[2];
  coordinates[4 * 99] = -1;
  build(send(layout_of(box)), coordinates, set);
  take(engine_->wait());
  EXPECT_NE(status_->read_first<u32>() & kStatusNegativeBatch, 0u);
}

TEST_F(MapStepTest, FindsLayoutsAndUnpacks) {
  for (i64 count : {1, 2, 33, on_software_device() ? 2000 : 100000}) {
    const std::vector<i32> coordinates =
        random_coordinates(box_of_bits(40), count, 11 + static_cast<u64>(count));
    TestBuffer input(device(), coordinates), bounds(device(), 2 * kMaxFields * 4), state(device(), 8);
    TestBuffer made(device(), static_cast<i64>(sizeof(CloudLayout)));
    LayoutRequest request;
    request.coordinates = input.as<i32>();
    request.most = count;
    request.cloud = {state.as<u32>(), state.as<i32>() + 1, bounds.as<i32>(), made.as<CloudLayout>()};
    take(engine_->maps().find_layout(request));
    take(engine_->wait());
    EXPECT_EQ(state.read<u32>(), (std::vector<u32>{0, static_cast<u32>(count)}));
    const std::vector<i32> found = bounds.read<i32>();
    Box box;
    for (i32 f = 0; f < kFields; ++f) {
      box.least[f] = INT32_MAX, box.greatest[f] = INT32_MIN;
      for (i64 i = 0; i < count; ++i) {
        box.least[f] = std::min(box.least[f], coordinates[i * kFields + f]);
        box.greatest[f] = std::max(box.greatest[f], coordinates[i * kFields + f]);
      }
      EXPECT_EQ(found[f], box.least[f]);
      EXPECT_EQ(found[kMaxFields + f], box.greatest[f]);
    }
    EXPECT_EQ(made.read_first<CloudLayout>().keys.total_bits, layout_of(box).keys.total_bits);
    const i32 bits = layout_of(box).keys.total_bits;
    begin_maps({bits, count, 1, 0, 1});
    DeviceSet set(device(), count, key_type_of(bits));
    build(made.as<CloudLayout>(), coordinates, set);
    TestBuffer unpacked(device(), count * kFields * 4);
    take(engine_->maps().unpack(set.coords(), made.as<CloudLayout>(), unpacked.as<i32>()));
    take(engine_->wait());
    std::vector<std::vector<i32>> rows;
    for (i64 i = 0; i < count; ++i) {
      rows.emplace_back(&coordinates[i * kFields], &coordinates[i * kFields] + kFields);
    }
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    const std::vector<i32> result = unpacked.read<i32>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_TRUE(std::equal(rows[i].begin(), rows[i].end(), &result[i * kFields])) << "row " << i;
    }
  }
}

void MapStepTest::check_search(KeyType key, const AxisArray& kernel, i32 step, bool strided, i64 points,
                               u64 seed) {
  SCOPED_TRACE(testing::Message() << points << " points, kernel " << kernel[0] << kernel[1] << kernel[2]
                                  << " step " << step << " strided " << strided << " seed " << seed);
  // About a third of the cells are taken.
  Box box;
  i32 edge = 1;
  while (i64{edge} * edge * edge < 3 * points) ++edge;
  box.greatest[0] = 1;
  for (i32 f = 1; f < kFields; ++f) box.least[f] = -edge / 2, box.greatest[f] = box.least[f] + edge;
  const CloudLayout host_layout = layout_of(box, 4 * step, 2);
  const KeyLayout& layout = host_layout.keys;
  MapView map;
  map.geometry =
      make_geometry(kNdim, {kernel[0], kernel[1], kernel[2], 1}, {1, 1, 1, 1}, {step, step, step, 1});
  const i64 volume = map.geometry.volume;

  begin_maps({key_bits_of(key), points, 2, 1, map.geometry.volume});
  DeviceSet fine(device(), points, key), coarse(device(), points, key);
  const CloudLayout* device_layout = send(host_layout);
  build(device_layout, random_coordinates(box, points, seed), fine);
  if (strided) {
    take(engine_->maps().downsample(
        {fine.coords(), device_layout, AxisArray{2, 2, 2, 1}, coarse.coords(), status_->as<u32>()}));
  }
  const Coords queries = strided ? coarse.coords() : fine.coords();
  TestBuffer table(device(), volume * points * 4), positions(device(), (volume * points + 1) * 4);
  TestBuffer counts(device(), volume * 4);
  map.rows = table.as<i32>(), map.positions = positions.as<i32>(), map.counts = counts.as<i32>();
  take(engine_->maps().search({fine.coords(), queries, device_layout, &map}));
  take(engine_->maps().count_pairs(queries, map));
  take(engine_->wait());

  const std::vector<u64> source_keys = fine.read();
  std::vector<u64> query_keys = source_keys;
  if (strided) {
    const i32 stride[kMaxDim] = {2, 2, 2, 1};
    for (u64& k : query_keys) k = floor_key<u64>(layout, k, stride);
    std::sort(query_keys.begin(), query_keys.end());
    query_keys.erase(std::unique(query_keys.begin(), query_keys.end()), query_keys.end());
    ASSERT_TRUE(coarse.read() == query_keys);
  }
  map.sources = static_cast<i64>(source_keys.size()), map.queries = static_cast<i64>(query_keys.size());
  std::map<u64, i32> rows;
  for (std::size_t i = 0; i < source_keys.size(); ++i) rows[source_keys[i]] = static_cast<i32>(i);
  std::vector<i32> expected, sums{0}, hits(volume);
  for (i32 k = 0; k < volume; ++k) {
    for (u64 query : query_keys) {
      const auto found = rows.find(query + offset_key<u64>(layout, map.geometry, k));
      expected.push_back(found == rows.end() ? -1 : found->second);
      sums.push_back(sums.back() + (found != rows.end()));
      hits[k] += found != rows.end();
    }
  }
  std::vector<i32> found = table.read<i32>(), found_sums = positions.read<i32>();
  found.resize(expected.size()), found_sums.resize(sums.size());
  ASSERT_TRUE(found == expected);
  ASSERT_TRUE(found_sums == sums);
  ASSERT_TRUE(counts.read<i32>() == hits);
  check_pairs(map, expected, sums.back());
}

void MapStepTest::check_pairs(const MapView& map, const std::vector<i32>& table, i64 pairs) {
  TestBuffer sources(device(), pairs * 4), targets(device(), pairs * 4);
  PairsRequest list;
  list.map = &map;
  list.most_queries = map.queries;
  list.sources = sources.as<i32>(), list.targets = targets.as<i32>();
  list.capacity = pairs;
  take(engine_->maps().compact_pairs(list));
  take(engine_->wait());
  std::vector<i32> from, to;
  for (std::size_t entry = 0; entry < table.size(); ++entry) {
    if (table[entry] < 0) continue;
    from.push_back(table[entry]), to.push_back(static_cast<i32>(static_cast<i64>(entry) % map.queries));
  }
  EXPECT_TRUE(sources.read<i32>() == from);
  EXPECT_TRUE(targets.read<i32>() == to);
}

/// More lists than a launch makes, of rows that are their own sources.
TEST_F(MapStepTest, ListsThePairsOfManyMaps) {
  constexpr i64 kLists = kMostPairsJobs + 3, kMost = 700;
  TestBuffer pairs(device(), kLists * 3 * kMost * 4), counts(device(), kLists * 4);
  std::vector<PairsRequest> requests;
  for (i64 i = 0; i < kLists; ++i) {
    requests.push_back(
        PairsRequest::side_by_side(pairs.as<i32>() + i * 3 * kMost, kMost, counts.as<i32>() + i));
    requests.back().most_queries = i * 37 % (kMost + 1);  // The first list is empty.
  }
  take(engine_->maps().compact_pairs(requests));
  take(engine_->wait());
  const std::vector<i32> found = pairs.read<i32>(), numbers = counts.read<i32>();
  for (i64 i = 0; i < kLists; ++i) {
    ASSERT_EQ(numbers[i], requests[i].most_queries) << i;
    for (i32 row = 0; row < numbers[i]; ++row) {
      const i32* const pair = &found[i * 3 * kMost + 3 * row];
      ASSERT_EQ(std::tuple(pair[0], pair[1], pair[2]), std::tuple(0, row, row)) << i;
    }
  }
}

TEST_F(MapStepTest, SearchesLikeAMap) {
  u64 seed = 100;
  for (i64 points :
       on_software_device() ? std::vector<i64>{1, 31, 300} : std::vector<i64>{1, 2, 31, 257, 1000, 50000}) {
    for (KeyType key : {KeyType::U32, KeyType::U64}) {
      for (const SearchChoice& search : {SearchChoice{}, {32, 64, 64}, {1024, 256, 256}}) {
        SCOPED_TRACE(testing::Message() << "B " << search.source_block);
        open_engine(search);
        check_search(key, {3, 3, 3, 1}, 1, false, points, seed++);
        check_search(key, {2, 2, 2, 1}, 1, true, points, seed++);
        if (points > 1000) continue;
        check_search(key, {3, 1, 5, 1}, 2, false, points, seed++);
        check_search(key, {4, 3, 2, 1}, 1, true, points, seed++);
      }
    }
  }
}

TEST_F(MapStepTest, EmptySetsHaveEmptyMaps) {
  const Box box = box_of_bits(9);
  begin_maps({32, 1, 2, 1, 27});
  const CloudLayout* layout = send(layout_of(box, 1, 2));
  DeviceSet fine(device(), 0, KeyType::U32), coarse(device(), 0, KeyType::U32);
  build(layout, {}, fine);
  take(engine_->maps().downsample(
      {fine.coords(), layout, AxisArray{2, 2, 2, 1}, coarse.coords(), status_->as<u32>()}));
  MapView map;
  map.geometry = make_geometry(kNdim, {3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, 1, 1});
  TestBuffer table(device(), 0), positions(device(), 4), counts(device(), 27 * 4);
  map.rows = table.as<i32>(), map.positions = positions.as<i32>(), map.counts = counts.as<i32>();
  take(engine_->maps().search({fine.coords(), coarse.coords(), layout, &map}));
  take(engine_->maps().count_pairs(coarse.coords(), map));
  take(engine_->wait());
  EXPECT_EQ(fine.count.read_first<i32>(), 0);
  EXPECT_EQ(coarse.count.read_first<i32>(), 0);
  EXPECT_EQ(counts.read<i32>(), std::vector<i32>(27, 0));
}

TEST_F(MapStepTest, MoreThanWasAnnouncedIsRefused) {
  const Box box = box_of_bits(9);
  begin_maps({32, 10, 1, 0, 1});
  DeviceSet set(device(), 10, KeyType::U32);
  const CloudLayout* layout = send(layout_of(box));
  build(layout, random_coordinates(box, 10, 3), set);
  const DownsampleRequest second{set.coords(), layout, AxisArray{1, 1, 1, 1}, set.coords(),
                                 status_->as<u32>()};
  EXPECT_EQ(take_status(engine_->maps().downsample(second)).code(), StatusCode::Internal);
}

}  // namespace
}  // namespace minuet
