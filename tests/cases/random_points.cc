#include "tests/cases/random_points.h"

#include <algorithm>

namespace minuet {
namespace {

/// Adds a case in which `field` has the value, if it has another one.
template <class Case, class T>
void add(std::vector<Case>& cases, const Case& test, T Case::*field, T value) {
  if (test.*field == value) return;
  cases.push_back(test);
  cases.back().*field = value;
}

/// Adds cases with less in the field: none, a half, one less.
template <class Case, class T>
void add_less(std::vector<Case>& cases, const Case& test, T Case::*field, T least = 0) {
  for (const T value : {least, static_cast<T>(test.*field / 2), static_cast<T>(test.*field - 1)}) {
    if (value >= least && value < test.*field) add(cases, test, field, value);
  }
}

template <class T>
std::string field(const char* name, T value) {
  return std::string(".") + name + " = " + std::to_string(value) + ", ";
}
std::string field(const char* name, bool value) {
  return std::string(".") + name + " = " + (value ? "true" : "false") + ", ";
}

}  // namespace

oracle::PointCloud PointsCase::cloud() const {
  Random random(seed);
  const int columns = blends ? ndim : std::max(ndim, first_column + channels) + more_columns;
  // Most voxels of a dense cloud have many points.
  return oracle::random_points_of(random, points, ndim, columns, is_dense ? 0.6 : 4, batches, is_wild);
}

oracle::VoxelRules PointsCase::rules() const {
  Random random(seed + 1);
  oracle::VoxelRules rules;
  rules.has_range = has_range && !blends;
  rules.feature = static_cast<oracle::PointFeature>(feature);
  rules.first_column = blends ? 0 : first_column, rules.channels = blends ? 1 : channels;
  for (size_t a = 0; a < 4; ++a) {
    rules.size[a] = static_cast<float>(random.uniform(0.2, 1.5));
    rules.low[a] = random.below(2) == 0 ? 0 : static_cast<float>(random.uniform(-3, 1));
    rules.high[a] = rules.low[a] + rules.size[a] * static_cast<float>(random.between(1, 9));
  }
  if (blends) return rules;
  rules.batch_size = batch_size, rules.most_points = most_points, rules.most_voxels = most_voxels;
  return rules;
}

PointsCase draw_points_case(uint64_t seed) {
  Random random(seed);
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  PointsCase test;
  test.seed = random.next();
  test.blends = chance(3), test.at_centres = chance(2);
  test.is_nearest = test.blends && chance(3);
  test.tensor_stride = static_cast<int>(random.between(1, 3));
  test.ndim = static_cast<int>(random.between(1, 4));
  test.more_columns = static_cast<int>(random.below(3));
  test.channels = static_cast<int>(random.between(1, 9));
  test.first_column = static_cast<int>(random.below(4));
  test.feature = static_cast<int>(random.below(4));
  test.has_range = chance(2), test.is_wild = chance(2), test.is_dense = chance(3);
  test.points = static_cast<int64_t>(chance(8) ? random.below(4) : random.below(400));
  if (chance(3)) test.most_points = random.between(1, 4);
  if (chance(3)) test.most_voxels = random.between(1, 40);
  if (!chance(3)) test.batches = static_cast<int>(random.between(1, 5));
  // Some batch indices may be past the batch size.
  if (chance(3)) test.batch_size = chance(4) ? 1 : std::max(test.batches, 1);
  if (chance(2)) test.spare_rows = static_cast<int64_t>(random.below(30));
  if (chance(2)) test.points_past_count = static_cast<int64_t>(random.between(1, 50));
  return test;
}

std::vector<PointsCase> simpler_cases(const PointsCase& test) {
  std::vector<PointsCase> cases;
  add_less(cases, test, &PointsCase::points);
  for (bool PointsCase::*flag : {&PointsCase::is_wild, &PointsCase::has_range, &PointsCase::is_dense,
                                 &PointsCase::is_nearest, &PointsCase::blends}) {
    add(cases, test, flag, false);
  }
  add_less(cases, test, &PointsCase::batches);
  add(cases, test, &PointsCase::batch_size, int64_t{0});
  add(cases, test, &PointsCase::most_points, int64_t{0});
  add(cases, test, &PointsCase::most_voxels, int64_t{0});
  add(cases, test, &PointsCase::spare_rows, int64_t{0});
  add(cases, test, &PointsCase::points_past_count, int64_t{0});
  add(cases, test, &PointsCase::feature, 0);
  add(cases, test, &PointsCase::first_column, 0);
  add(cases, test, &PointsCase::more_columns, 0);
  add_less(cases, test, &PointsCase::channels, 1);
  add_less(cases, test, &PointsCase::ndim, 1);
  add(cases, test, &PointsCase::tensor_stride, 1);
  return cases;
}

std::string as_initializer(const PointsCase& test) {
  return "PointsCase{" + field("blends", test.blends) + field("at_centres", test.at_centres) +
         field("is_nearest", test.is_nearest) + field("tensor_stride", test.tensor_stride) +
         field("ndim", test.ndim) + field("more_columns", test.more_columns) +
         field("first_column", test.first_column) + field("channels", test.channels) +
         field("feature", test.feature) + field("has_range", test.has_range) +
         field("is_wild", test.is_wild) + field("is_dense", test.is_dense) + field("points", test.points) +
         field("most_points", test.most_points) + field("most_voxels", test.most_voxels) +
         field("batches", test.batches) + field("batch_size", test.batch_size) +
         field("spare_rows", test.spare_rows) + field("points_past_count", test.points_past_count) +
         field("seed", test.seed) + "}";
}

oracle::SelectCase SelectionCase::problem() const {
  Random random(seed);
  const auto kind = static_cast<oracle::Rule>(rule);
  if (!of_cells) {
    oracle::SelectCase given = oracle::random_rows(random, kind, ndim, rows, batches, parts, share);
    given.batch_size = batches, given.best = best;
    return given;
  }
  oracle::SelectCase given =
      oracle::random_cells(random, kind, ndim, parts, batches, channels, channels_last, share);
  given.best = best;
  for (int a = 0; is_turned && a < ndim; ++a) given.order[static_cast<size_t>(a)] = ndim - 1 - a;
  return given;
}

SelectionCase draw_selection(uint64_t seed) {
  Random random(seed);
  const auto chance = [&](uint64_t of) { return random.below(of) == 0; };
  SelectionCase test;
  test.seed = random.next();
  test.of_cells = chance(2);
  test.rule = static_cast<int>(random.below(test.of_cells ? 5 : 4));
  test.ndim = static_cast<int>(random.between(1, 4));
  test.batches = static_cast<int>(random.between(1, 4));
  if (test.of_cells) {
    constexpr int kMostCells[] = {200, 14, 6, 4};
    for (int a = 0; a < test.ndim; ++a)
      test.parts[static_cast<size_t>(a)] = static_cast<int>(random.between(1, kMostCells[test.ndim - 1]));
    test.channels = static_cast<int>(random.between(1, 9));
    test.channels_last = chance(2), test.is_turned = chance(2);
    test.shift = static_cast<int64_t>(random.below(2));
  } else {
    for (int a = 0; a < test.ndim && chance(2); ++a)
      test.parts[static_cast<size_t>(a)] = static_cast<int>(random.between(1, 3));
    test.rows = static_cast<int64_t>(chance(8) ? random.below(3) : random.below(250));
    if (chance(2)) test.rows_past_count = static_cast<int64_t>(random.between(1, 40));
  }
  test.share = random.below(257);
  test.best = random.between(1, chance(2) ? 8 : 300);
  // Sometimes there is not enough room, and then nothing is kept.
  test.spare_rows = chance(6) ? -1 : static_cast<int64_t>(random.below(20));
  return test;
}

std::vector<SelectionCase> simpler_cases(const SelectionCase& test) {
  std::vector<SelectionCase> cases;
  add_less(cases, test, &SelectionCase::rows);
  add_less(cases, test, &SelectionCase::batches, 1);
  for (size_t a = 0; a < 4; ++a) {
    for (const int value : {1, test.parts[a] / 2, test.parts[a] - 1}) {
      if (value < 1 || value == test.parts[a]) continue;
      cases.push_back(test);
      cases.back().parts[a] = value;
    }
  }
  add(cases, test, &SelectionCase::rows_past_count, int64_t{0});
  add(cases, test, &SelectionCase::shift, int64_t{0});
  add(cases, test, &SelectionCase::spare_rows, int64_t{0});
  add(cases, test, &SelectionCase::channels_last, false);
  add(cases, test, &SelectionCase::is_turned, false);
  add_less(cases, test, &SelectionCase::channels, 1);
  add_less(cases, test, &SelectionCase::best, int64_t{1});
  add(cases, test, &SelectionCase::share, uint64_t{0});
  add_less(cases, test, &SelectionCase::ndim, 1);
  return cases;
}

std::string as_initializer(const SelectionCase& test) {
  std::string parts;
  for (const int each : test.parts) parts += (parts.empty() ? "" : ", ") + std::to_string(each);
  return "SelectionCase{" + field("of_cells", test.of_cells) + field("rule", test.rule) +
         field("ndim", test.ndim) + field("rows", test.rows) + ".parts = {" + parts + "}, " +
         field("batches", test.batches) + field("channels", test.channels) +
         field("channels_last", test.channels_last) + field("is_turned", test.is_turned) +
         field("share", test.share) + field("best", test.best) + field("spare_rows", test.spare_rows) +
         field("rows_past_count", test.rows_past_count) + field("shift", test.shift) +
         field("seed", test.seed) + "}";
}

}  // namespace minuet
