// The kernels of selections in the shim, against plain loops.
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels_templates/points/clear_words.h"
#include "kernels_templates/select/finish_selection.h"
#include "kernels_templates/select/list_selected.h"
#include "kernels_templates/select/make_score_keys.h"
#include "kernels_templates/select/mark_best.h"
#include "tests/support/select_oracle.h"

namespace minuet {
namespace {

using oracle::Rule;
using oracle::SelectCase;

template <DType T>
std::vector<typename Matrix<T>::Element> stored(const std::vector<float>& values) {
  std::vector<typename Matrix<T>::Element> result;
  for (const float value : values) {
    if constexpr (dtype_bytes(T) == 2) {
      result.push_back(to_16_bits<T>(value));
    } else {
      result.push_back(bits_of(value));
    }
  }
  return result;
}

/// Runs the kernels with poisoned memory, for `more` rows beyond those of the case.
template <DType T, i32 Ndim, SelectSource Source, SelectRule R>
class SelectRun {
 public:
  SelectRun(const SelectCase& given, i64 capacity, i64 more, int variant)
      : given_(given), capacity_(capacity), most_rows_(given.rows() + more), variant_(variant) {
    const auto rows = static_cast<std::size_t>(capacity);
    selected = poisoned<i32>(rows * (1 + Ndim));
    sources = parents = poisoned<i32>(rows);
    run();
  }

  std::vector<i32> selected, sources, parents, places;
  i32 count = -1;
  u32 status = ~0u;

 private:
  static constexpr SelectRule kListed = R == SelectRule::Best ? SelectRule::Mask : R;
  static constexpr ListSelectedSpec kList{
      .io = T, .ndim = Ndim, .source = Source, .rule = kListed, .threads = 64};
  static constexpr FinishSelectionSpec kFinish{.ndim = Ndim, .threads = 64};
  static constexpr MakeScoreKeysSpec kKeys{.io = T, .ndim = Ndim, .source = Source, .threads = 64};
  static constexpr MarkBestSpec kMark{.threads = 64};

  void set_candidates(Candidates& candidates) {
    if constexpr (Source == SelectSource::Cells) {
      CellGrid& grid = candidates.grid;
      i32 step = 1;
      for (i32 i = Ndim; i-- > 0;) {
        const i32 axis = given_.order[static_cast<std::size_t>(i)];
        grid.shape[axis] = given_.shape[static_cast<std::size_t>(axis)];
        grid.tensor_stride[axis] = given_.tensor_stride[static_cast<std::size_t>(axis)];
        grid.step[axis] = step;
        step *= grid.shape[axis];
      }
      grid.cells = step, grid.batch = static_cast<i32>(given_.batch_size);
      candidates.most = given_.candidates();
    } else {
      coordinates_ = given_.coordinates;
      coordinates_.resize(static_cast<std::size_t>(most_rows_ * (1 + Ndim)), poison<i32>());
      row_count_ = static_cast<i32>(given_.rows());
      candidates.coordinates = coordinates_.data(), candidates.row_count = &row_count_;
      candidates.most_rows = most_rows_;
      candidates.children = static_cast<i32>(given_.children_of_row());
      std::copy(given_.children.begin(), given_.children.end(), candidates.children_on_axis);
      std::copy(given_.child_step.begin(), given_.child_step.end(), candidates.child_step);
      candidates.most = most_rows_ * candidates.children;
    }
  }

  /// Lays the scores out with a gap behind those of each row.
  void set_scores(i64 each, SelectParams& params) {
    const auto scores = stored<T>(given_.scores);
    params.scores_ld = each + 3;
    scores_ = poisoned<typename Matrix<T>::Element>(
        static_cast<std::size_t>(params.candidates.most / each * params.scores_ld));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const auto row = static_cast<i64>(i) / each, child = static_cast<i64>(i) % each;
      scores_[static_cast<std::size_t>(row * params.scores_ld + child)] = scores[i];
    }
    params.scores = scores_.data();
  }

  void run() {
    SelectParams params = {};
    set_candidates(params.candidates);
    const i64 most = params.candidates.most;
    const auto all = static_cast<std::size_t>(most);
    places = poisoned<i32>(all);
    mask_ = given_.mask;
    mask_.resize(all, kPoison);
    params.mask = mask_.data();
    set_scores(Source == SelectSource::Cells ? 1 : params.candidates.children, params);
    dense_ = stored<T>(given_.dense);
    params.dense = dense_.data(), params.channels = given_.channels;
    params.threshold = static_cast<float>(given_.threshold);
    params.channel_step = given_.channels_last ? 1 : given_.cells();
    params.cell_step = given_.channels_last ? given_.channels : 1;
    params.item_step = given_.cells() * given_.channels;
    const i64 tiles = std::max<i64>((most + kList.threads - 1) / kList.threads, 1);
    std::vector<u32> states = poisoned<u32>(static_cast<std::size_t>(tiles));
    i32 total = -1;
    params.tiles = states.data(), params.total = &total, params.capacity = capacity_;
    params.selected = selected.data(), params.sources = sources.data(), params.parents = parents.data();
    params.places = places.data(), params.count = &count, params.status = &status;
    const ClearWordsParams clear{{{states.data(), tiles, 0}, {&status, 1, 0}}, 2};
    constexpr ClearWordsSpec kClear{.threads = 64};
    shim::launch(&clear_words<kClear>, clear, shim::small_grid(variant_, kClear.threads));
    std::vector<unsigned char> marks = poisoned<unsigned char>(all);
    params.marks = marks.data();
    if constexpr (R == SelectRule::Best) {
      mark(params);
      params.mask = marks.data();
    }
    shim::launch(&list_selected<kList>, params,
                 {.blocks = static_cast<i32>(tiles), .threads = kList.threads});
    shim::launch(&finish_selection<kFinish>, params, shim::small_grid(variant_, kFinish.threads));
  }

  void mark(SelectParams params) {
    params.best = given_.best, params.batch_size = given_.batch_size;
    params.score_bits = 8 * dtype_bytes(T);
    // Keys of 4 bytes have room for the batch items only beside scores of 2 bytes.
    params.key_bytes = dtype_bytes(T) == 2 && variant_ % 2 == 0 ? 4 : 8;
    const auto all = static_cast<std::size_t>(params.candidates.most);
    std::vector<u64> keys = poisoned<u64>(all), sorted;
    std::vector<u32> narrow = poisoned<u32>(all), values = narrow, sorted_narrow;
    i32 sort_count = -1;
    params.sort_count = &sort_count, params.values = values.data();
    params.keys = params.key_bytes == 4 ? static_cast<void*>(narrow.data()) : keys.data();
    shim::launch(&make_score_keys<kKeys>, params, shim::small_grid(variant_, kKeys.threads));
    ASSERT_EQ(sort_count, given_.candidates());
    if (params.key_bytes == 4) std::copy(narrow.begin(), narrow.end(), keys.begin());
    std::vector<u32> order(static_cast<std::size_t>(sort_count));
    std::iota(order.begin(), order.end(), 0u);
    for (const u32 i : order) ASSERT_EQ(values[i], i);
    std::stable_sort(order.begin(), order.end(), [&](u32 a, u32 b) { return keys[a] < keys[b]; });
    for (const u32 i : order) sorted.push_back(keys[i]), sorted_narrow.push_back(narrow[i]);
    params.sorted_values = order.data();
    params.sorted_keys = params.key_bytes == 4 ? static_cast<void*>(sorted_narrow.data()) : sorted.data();
    shim::launch(&mark_best<kMark>, params, shim::small_grid(variant_, kMark.threads));
  }

  const SelectCase& given_;
  const i64 capacity_, most_rows_;
  const int variant_;
  std::vector<i32> coordinates_;
  std::vector<unsigned char> mask_;
  std::vector<typename Matrix<T>::Element> scores_, dense_;
  i32 row_count_ = 0;
};

std::vector<i32> padded(std::vector<i32> values, std::size_t size, i32 value) {
  values.resize(size, value);
  return values;
}

template <DType T, i32 Ndim, SelectSource Source, SelectRule R>
void expect_selected(SelectCase given, i64 spare, int variant) {
  given.rule = static_cast<Rule>(R);
  const i64 needed = oracle::kept_count(given), capacity = std::max<i64>(needed + spare, 0);
  const oracle::Selected expected = oracle::selected_of(given, capacity);
  const SelectRun<T, Ndim, Source, R> run(given, capacity, Source == SelectSource::Rows ? variant * 17 : 0,
                                          variant);
  ASSERT_EQ(run.status, expected.status);
  ASSERT_EQ(run.count, expected.count());
  const auto rows = static_cast<std::size_t>(capacity);
  ASSERT_EQ(run.selected, padded(expected.coordinates, rows * (1 + Ndim), 0));
  ASSERT_EQ(run.sources, padded(expected.sources, rows, -1));
  ASSERT_EQ(run.parents, padded(expected.parents, rows, -1));
  ASSERT_EQ(run.places, padded(expected.places, run.places.size(), -1));
}

template <DType T, i32 Ndim>
void expect_rows(const SelectCase& given, i64 spare, int variant) {
  constexpr SelectSource kRows = SelectSource::Rows;
  expect_selected<T, Ndim, kRows, SelectRule::All>(given, spare, variant);
  expect_selected<T, Ndim, kRows, SelectRule::Mask>(given, spare, variant);
  expect_selected<T, Ndim, kRows, SelectRule::Above>(given, spare, variant);
  expect_selected<T, Ndim, kRows, SelectRule::Best>(given, spare, variant);
}
template <DType T, i32 Ndim>
void expect_cells(const SelectCase& given, i64 spare, int variant) {
  constexpr SelectSource kCells = SelectSource::Cells;
  expect_selected<T, Ndim, kCells, SelectRule::All>(given, spare, variant);
  expect_selected<T, Ndim, kCells, SelectRule::Mask>(given, spare, variant);
  expect_selected<T, Ndim, kCells, SelectRule::Above>(given, spare, variant);
  expect_selected<T, Ndim, kCells, SelectRule::Best>(given, spare, variant);
  expect_selected<T, Ndim, kCells, SelectRule::NonZero>(given, spare, variant);
}

constexpr std::array<int, 4> kOneChild{1, 1, 1, 1};

TEST(Select, RowsAndChildren) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(70 + static_cast<u64>(variant));
    expect_rows<DType::F32, 3>(oracle::random_rows(random, Rule::Best, 3, 300, 4, kOneChild), 5, variant);
    expect_rows<DType::F16, 3>(oracle::random_rows(random, Rule::Best, 3, 70, 3, {2, 2, 2, 1}), 0, variant);
    expect_rows<DType::BF16, 2>(oracle::random_rows(random, Rule::Best, 2, 90, 3, {3, 2, 1, 1}), 9, variant);
    expect_rows<DType::F32, 1>(oracle::random_rows(random, Rule::Best, 1, 200, 5, {2, 1, 1, 1}), 1, variant);
    expect_rows<DType::F16, 4>(oracle::random_rows(random, Rule::Best, 4, 40, 2, {2, 1, 3, 2}), 0, variant);
  }
}

TEST(Select, Cells) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(80 + static_cast<u64>(variant));
    SelectCase bird = oracle::random_cells(random, Rule::NonZero, 3, {5, 4, 3, 1}, 3, 2, false);
    expect_cells<DType::F32, 3>(bird, 4, variant);
    bird.order = {2, 0, 1, 3};
    expect_cells<DType::F32, 3>(bird, 4, variant);
    expect_cells<DType::F16, 3>(oracle::random_cells(random, Rule::NonZero, 3, {6, 2, 7, 1}, 2, 5, true, 40),
                                0, variant);
    expect_cells<DType::BF16, 2>(oracle::random_cells(random, Rule::NonZero, 2, {9, 11, 1, 1}, 1, 1, true), 3,
                                 variant);
    expect_cells<DType::F32, 1>(oracle::random_cells(random, Rule::NonZero, 1, {150, 1, 1, 1}, 2, 3, false),
                                0, variant);
    expect_cells<DType::F16, 4>(oracle::random_cells(random, Rule::NonZero, 4, {3, 2, 4, 3}, 2, 2, true), 1,
                                variant);
  }
}

template <DType T>
void expect_tiny(float least, int variant) {
  Random random(85 + static_cast<u64>(variant));
  SelectCase rows = oracle::random_rows(random, Rule::Best, 3, 150, 3, kOneChild);
  SelectCase cells = oracle::random_cells(random, Rule::NonZero, 2, {9, 7, 1, 1}, 2, 2, false);
  oracle::make_tiny(random, least, rows);
  oracle::make_tiny(random, least, cells);
  for (const float threshold : {0.0f, -0.0f, least, -least}) {
    rows.threshold = cells.threshold = static_cast<double>(threshold);
    expect_rows<T, 3>(rows, 2, variant);
    expect_cells<T, 2>(cells, 2, variant);
  }
}

TEST(Select, Subnormals) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_tiny<DType::F32>(1e-40f, variant);
    expect_tiny<DType::BF16>(0x1p-133f, variant);
    expect_tiny<DType::F16>(0x1p-24f, variant);
  }
}

TEST(Select, NoneAllAndNoRows) {
  for (const int share : {0, 256}) {
    Random random(90);
    for (const i64 rows : {0, 1, 64, 65}) {
      const SelectCase given =
          oracle::random_rows(random, Rule::Mask, 3, rows, 2, kOneChild, static_cast<u64>(share));
      expect_rows<DType::F32, 3>(given, 0, 0);
      expect_rows<DType::F32, 3>(given, 3, 1);
    }
    expect_cells<DType::F32, 2>(
        oracle::random_cells(random, Rule::NonZero, 2, {4, 4, 1, 1}, 2, 1, false, static_cast<u64>(share)), 0,
        1);
  }
}

TEST(Select, ThatDoesNotFitLeavesNothing) {
  Random random(91);
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_rows<DType::F32, 3>(oracle::random_rows(random, Rule::Mask, 3, 150, 2, {2, 1, 1, 1}), -1, variant);
    expect_cells<DType::F32, 2>(oracle::random_cells(random, Rule::NonZero, 2, {9, 9, 1, 1}, 1, 1, false), -1,
                                variant);
  }
}

TEST(Select, BadBatchIndicesAndCoordinates) {
  Random random(92);
  constexpr SelectSource kRows = SelectSource::Rows;
  SelectCase given = oracle::random_rows(random, Rule::Best, 3, 100, 3, {2, 1, 1, 1});
  given.batch_size = 2;
  expect_selected<DType::F32, 3, kRows, SelectRule::Best>(given, 3, 0);
  given.batch_size = 3;
  expect_selected<DType::F32, 3, kRows, SelectRule::Best>(given, 3, 1);
  given.coordinates[40] = -1;
  expect_selected<DType::F32, 3, kRows, SelectRule::Best>(given, 3, 1);
  given.coordinates[41] = std::numeric_limits<i32>::max();
  expect_selected<DType::F32, 3, kRows, SelectRule::All>(given, 3, 2);
}

/// Keys of scores are in the order of the scores, whatever these are.
template <DType T>
void expect_keys_in_order() {
  u32 last = 0;
  const std::vector<float> scores{
      std::numeric_limits<float>::infinity(), 7, 0.5f, 0x1p-14f, 0.0f, -0.0f, -0x1p-14f, -0.5f, -7,
      -std::numeric_limits<float>::infinity()};
  for (const auto bits : stored<T>(scores)) {
    const u32 key = score_key<T>(bits);
    EXPECT_GE(key, last);
    EXPECT_FALSE(is_key_of_nan(key, 8 * dtype_bytes(T)));
    last = key;
  }
  EXPECT_EQ(score_key<T>(stored<T>({0.0f})[0]), score_key<T>(stored<T>({-0.0f})[0]));
  EXPECT_LT(score_key<T>(stored<T>({0.25f})[0]), score_key<T>(stored<T>({0.0f})[0]));
  for (const u32 sign : {0u, dtype_bytes(T) == 4 ? 0x80000000u : 0x8000u}) {
    const u32 nan = stored<T>({std::numeric_limits<float>::quiet_NaN()})[0];
    EXPECT_TRUE(is_key_of_nan(score_key<T>(nan | sign), 8 * dtype_bytes(T)));
  }
}

TEST(Select, OnlyGreaterScoresAreAboveAThreshold) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> ascending{-kInfinity, -7, -1e-40f, 0, 1e-45f, 1e-40f, 0.5f, 7, kInfinity};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const u32 threshold = bits_of(ascending[i]);
    for (std::size_t k = 0; k < ascending.size(); ++k)
      EXPECT_EQ(is_above(bits_of(ascending[k]), threshold), k > i) << ascending[k] << " " << ascending[i];
    for (const u32 nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u}) EXPECT_FALSE(is_above(nan, threshold));
  }
  EXPECT_FALSE(is_above(bits_of(0.0f), bits_of(-0.0f)));
}

TEST(Select, KeysAreInTheOrderOfScores) {
  expect_keys_in_order<DType::F32>();
  expect_keys_in_order<DType::F16>();
  expect_keys_in_order<DType::BF16>();
}

}  // namespace
}  // namespace minuet
