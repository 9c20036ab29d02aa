// Levels of the candidates that a rule keeps, by plain loops; and random problems with all that scores, masks
// and coordinates may have: ties, NaN, infinities, zeros of both signs, negative coordinates, batch items
// without rows, and items in any order.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/random.h"

namespace minuet::oracle {

enum class Rule { All, Mask, Above, Best, NonZero };

struct SelectCase {
  int ndim = 3;
  bool of_cells = false;
  Rule rule = Rule::Mask;
  double threshold = 0;
  int64_t best = 0, batch_size = 0;
  // rows
  std::vector<int32_t> coordinates;  // [rows, 1 + ndim]
  std::array<int, 4> children{1, 1, 1, 1}, child_step{1, 1, 1, 1};
  // cells
  std::array<int, 4> shape{1, 1, 1, 1}, tensor_stride{1, 1, 1, 1}, order{0, 1, 2, 3};
  bool channels_last = false;
  int channels = 1;

  std::vector<unsigned char> mask;  // one for each candidate
  std::vector<float> scores;        // the same
  std::vector<float> dense;         // as it is stored

  int64_t rows() const { return static_cast<int64_t>(coordinates.size()) / (1 + ndim); }
  int64_t product(const std::array<int, 4>& factors) const {
    int64_t result = 1;
    for (int a = 0; a < ndim; ++a) result *= factors[static_cast<std::size_t>(a)];
    return result;
  }
  int64_t children_of_row() const { return product(children); }
  int64_t cells() const { return product(shape); }
  int64_t candidates() const { return of_cells ? batch_size * cells() : rows() * children_of_row(); }
};

struct Selected {
  std::vector<int32_t> coordinates, sources, parents, places;
  std::vector<float> features;  // of the cells of a dense tensor
  uint32_t status = 0;
  int64_t count() const { return static_cast<int64_t>(sources.size()); }
};

/// The coordinate of a candidate, batch first.
inline std::vector<int64_t> coordinate_of(const SelectCase& given, int64_t candidate) {
  const std::array<int, 4>& factors = given.of_cells ? given.shape : given.children;
  const int64_t each = given.product(factors), row = candidate / each;
  std::vector<int64_t> result(static_cast<std::size_t>(1 + given.ndim));
  int64_t rest = candidate % each;
  for (int a = given.ndim - 1; a >= 0; --a) {
    const auto axis = static_cast<std::size_t>(a);
    const int64_t at = rest % factors[axis];
    rest /= factors[axis];
    result[1 + axis] = given.of_cells
                           ? at * given.tensor_stride[axis]
                           : given.coordinates[static_cast<std::size_t>(row * (1 + given.ndim) + 1 + a)] +
                                 at * given.child_step[axis];
  }
  result[0] = given.of_cells ? row : given.coordinates[static_cast<std::size_t>(row * (1 + given.ndim))];
  return result;
}

/// A number of the dense tensor, at the candidate's cell.
inline float dense_at(const SelectCase& given, int64_t candidate, int channel) {
  const std::vector<int64_t> coordinate = coordinate_of(given, candidate);
  int64_t cell = 0;
  for (int i = 0; i < given.ndim; ++i) {
    const auto axis = static_cast<std::size_t>(given.order[static_cast<std::size_t>(i)]);
    cell = cell * given.shape[axis] + coordinate[1 + axis] / given.tensor_stride[axis];
  }
  const int64_t cells = given.cells(), item = coordinate[0];
  const int64_t at = given.channels_last ? (item * cells + cell) * given.channels + channel
                                         : (item * given.channels + channel) * cells + cell;
  return given.dense[static_cast<std::size_t>(at)];
}

/// Which candidates the rule keeps.
inline std::vector<bool> kept_candidates(const SelectCase& given) {
  const int64_t candidates = given.candidates();
  std::vector<bool> kept(static_cast<std::size_t>(candidates));
  std::map<int64_t, std::vector<int64_t>> items;
  for (int64_t i = 0; i < candidates; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (given.rule == Rule::All) kept[at] = true;
    if (given.rule == Rule::Mask) kept[at] = given.mask[at] != 0;
    if (given.rule == Rule::Above) kept[at] = static_cast<double>(given.scores[at]) > given.threshold;
    if (given.rule == Rule::Best && !std::isnan(given.scores[at]))
      items[coordinate_of(given, i)[0]].push_back(i);
    for (int c = 0; given.rule == Rule::NonZero && c < given.channels; ++c)
      if (dense_at(given, i, c) != 0) kept[at] = true;
  }
  for (auto& [item, members] : items) {
    std::stable_sort(members.begin(), members.end(), [&](int64_t a, int64_t b) {
      return given.scores[static_cast<std::size_t>(a)] > given.scores[static_cast<std::size_t>(b)];
    });
    const auto count = std::min(static_cast<int64_t>(members.size()), given.best);
    for (int64_t k = 0; k < count; ++k)
      kept[static_cast<std::size_t>(members[static_cast<std::size_t>(k)])] = true;
  }
  return kept;
}

/// How many rows the level of the kept candidates has.
inline int64_t kept_count(const SelectCase& given) {
  const std::vector<bool> kept = kept_candidates(given);
  return std::count(kept.begin(), kept.end(), true);
}
/// The level of the kept candidates, if the new level has room for `capacity` rows.
inline Selected selected_of(const SelectCase& given, int64_t capacity = std::numeric_limits<int64_t>::max()) {
  Selected result;
  const int64_t each = given.of_cells ? 1 : given.children_of_row();
  for (int64_t row = 0; given.rule == Rule::Best && !given.of_cells && row < given.rows(); ++row) {
    const int32_t item = given.coordinates[static_cast<std::size_t>(row * (1 + given.ndim))];
    if (item < 0) result.status |= 2;
    if (given.batch_size > 0 && item >= given.batch_size) result.status |= 1;
  }
  const std::vector<bool> kept = kept_candidates(given);
  for (int64_t i = 0; i < given.candidates(); ++i) {
    const bool is_kept = kept[static_cast<std::size_t>(i)];
    result.places.push_back(is_kept ? static_cast<int32_t>(result.count()) : -1);
    if (!is_kept) continue;
    for (const int64_t at : coordinate_of(given, i)) {
      if (at > std::numeric_limits<int32_t>::max() && result.count() < capacity) result.status |= 32;
      result.coordinates.push_back(static_cast<int32_t>(at));
    }
    result.sources.push_back(static_cast<int32_t>(i));
    result.parents.push_back(static_cast<int32_t>(i / each));
    for (int c = 0; given.rule == Rule::NonZero && c < given.channels; ++c)
      result.features.push_back(dense_at(given, i, c));
  }
  if (result.count() > capacity) result.status |= 8;
  if (result.status != 0) {
    const std::vector<int32_t> none(result.places.size(), -1);
    const uint32_t status = result.status;
    result = {};
    result.status = status, result.places = none;
  }
  return result;
}

/// A number that every dtype holds. A few of them are often the same.
inline float random_score(Random& random) {
  constexpr float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(),
                                -std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                0.0f,
                                -0.0f,
                                0x1p-14f,
                                -0x1p-14f};
  if (random.below(4) == 0) return kSpecial[random.below(8)];
  return static_cast<float>(random.between(-24, 24)) / 8;
}

/// Rows in no order, of the batch items 0, 2, 3 ... `batches`, of which item 1 has none.
inline void add_rows(Random& random, int64_t rows, int batches, SelectCase& result) {
  for (int64_t i = 0; i < rows; ++i) {
    const auto item = static_cast<int32_t>(random.below(static_cast<uint64_t>(batches)));
    result.coordinates.push_back(item == 1 ? 0 : item);
    for (int a = 0; a < result.ndim; ++a)
      result.coordinates.push_back(static_cast<int32_t>(random.between(-1000, 1000)));
  }
}
/// Gives each candidate its byte, score and numbers. `share` of 256 candidates are kept by a mask, or have
/// numbers that are not 0.
inline void fill_candidates(Random& random, uint64_t share, SelectCase& result) {
  for (int64_t i = 0; i < result.candidates(); ++i) {
    const bool is_kept = random.below(256) < share;
    result.mask.push_back(is_kept ? static_cast<unsigned char>(1 + random.below(255)) : 0);
    result.scores.push_back(random_score(random));
  }
  if (result.rule != Rule::NonZero) return;
  const auto numbers = static_cast<uint64_t>(result.candidates() * result.channels);
  for (uint64_t i = 0; i < numbers; ++i) {
    const bool is_zero = random.below(256 * static_cast<uint64_t>(result.channels)) >= share;
    const float score = random_score(random);
    result.dense.push_back(!is_zero ? score : random.below(2) == 0 ? 0.0f : -0.0f);
  }
}
/// Replaces the scores and the numbers of the dense tensor by zeros of both signs and by multiples of
/// `least`, which is the least subnormal that the dtype holds, or larger.
inline void make_tiny(Random& random, float least, SelectCase& result) {
  const auto tiny = [&] {
    const float sign = random.below(2) == 0 ? 1.0f : -1.0f;
    return sign * least * static_cast<float>(random.below(3));
  };
  for (float& score : result.scores) score = tiny();
  for (float& number : result.dense) number = tiny();
}
inline SelectCase random_rows(Random& random, Rule rule, int ndim, int64_t rows, int batches,
                              const std::array<int, 4>& children, uint64_t share = 128) {
  SelectCase result;
  result.ndim = ndim, result.rule = rule, result.children = children;
  result.child_step = {2, 1, 3, 4};
  result.threshold = 0.5, result.best = 7;
  add_rows(random, rows, batches, result);
  fill_candidates(random, share, result);
  return result;
}
inline SelectCase random_cells(Random& random, Rule rule, int ndim, const std::array<int, 4>& shape,
                               int batches, int channels, bool channels_last, uint64_t share = 128) {
  SelectCase result;
  result.ndim = ndim, result.rule = rule, result.of_cells = true;
  result.shape = shape, result.batch_size = batches;
  result.tensor_stride = {2, 1, 4, 3};
  result.channels = channels, result.channels_last = channels_last;
  result.threshold = 0.5, result.best = 5;
  fill_candidates(random, share, result);
  return result;
}

}  // namespace minuet::oracle
