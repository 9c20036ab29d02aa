#include "tools/minuet/pages/view_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "llvm/ADT/StringExtras.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/npy.h"
#include "tools/minuet/pages/page.h"

namespace minuet::tool {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// Limits the number of columns of features that the page has without --feature-columns.
constexpr int kFeatureColumns = 8;

/// Returns the number of the input's items, which are points, or voxels if the input was voxels.
int64_t items_of(const Input& input) { return input.cloud.count(); }

/// Returns the voxel of an item (a point or voxel of the input), or -1 if the item is a dropped point.
int64_t voxel_of(const Input& input, int64_t item) {
  return input.cloud.is_voxels ? item : input.voxels.row_of_point[static_cast<size_t>(item)];
}

/// Returns the row of each item (point or voxel of the input) in a file with one row per item or per voxel.
llvm::Expected<std::vector<int64_t>> rows_of_items(const std::string& path, int64_t rows,
                                                   const Input& input) {
  const int64_t items = items_of(input), voxels = input.voxels.count();
  std::vector<int64_t> row_of(static_cast<size_t>(items));
  if (rows == items) {
    std::iota(row_of.begin(), row_of.end(), int64_t{0});
    return row_of;
  }
  if (rows != voxels) {
    const std::string points = input.cloud.is_voxels ? "" : llvm::formatv("{0} points in ", items).str();
    return bad_input(
        "'{0}' has {1} rows, but the cloud has {2}{3} voxels: give a file with a row for each {4}", path,
        rows, points, voxels,
        points.empty() ? "voxel" : "point or voxel, and the --voxel-size that it was made with");
  }
  for (int64_t item = 0; item < items; ++item) row_of[static_cast<size_t>(item)] = voxel_of(input, item);
  return row_of;
}

llvm::Expected<std::vector<int32_t>> read_labels(const std::string& path, const Input& input) {
  MINUET_ASSIGN(const auto file, read_file(path));
  MINUET_ASSIGN(const NpyArray array, in_file(path, parse_npy(file->getBuffer())));
  const std::vector<int64_t>& shape = array.shape;
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1)) {
    return bad_input("'{0}': labels must be an array [N], but the shape of this one is [{1:$[, ]}]", path,
                     llvm::make_range(shape.begin(), shape.end()));
  }
  if (!is_integer(array.type)) {
    return bad_input("'{0}': labels must be integers, but this array holds {1}", path,
                     scalar_name(array.type));
  }
  MINUET_ASSIGN(const std::vector<int64_t> row_of, rows_of_items(path, shape[0], input));
  const auto bytes = static_cast<int64_t>(scalar_bytes(array.type));
  std::vector<int32_t> labels;
  labels.reserve(row_of.size());
  for (const int64_t row : row_of) {
    const char* const place = array.data.data() + row * bytes;
    const int64_t label = row < 0 ? -1 : decode_integer(array.type, place, array.big_endian);
    if (label < -1 || label > std::numeric_limits<int32_t>::max()) {
      return bad_input("'{0}': the label {1} in row {2} is neither -1, for none, nor from 0 to 2147483647",
                       path, scalar_text(array.type, place, array.big_endian), row);
    }
    labels.push_back(static_cast<int32_t>(label));
  }
  return labels;
}

llvm::Error read_features(const ViewOptions& options, const Input& input, std::vector<ViewColumn>& columns) {
  const std::string& path = options.features;
  MINUET_ASSIGN(const auto file, read_file(path));
  int64_t rows = 0, width = 0;
  MINUET_ASSIGN(const std::vector<float> values,
                in_file(path, read_npy_matrix(file->getBuffer(), rows, width)));
  MINUET_ASSIGN(const std::vector<int64_t> row_of, rows_of_items(path, rows, input));
  std::vector<int> wanted = options.feature_columns;
  if (wanted.empty()) {
    wanted.resize(static_cast<size_t>(std::min<int64_t>(width, kFeatureColumns)));
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  for (const int column : wanted) {
    if (column >= width)
      return bad_input("--feature-columns {0}: there is no such column, because '{1}' has columns 0 to {2}",
                       column, path, width - 1);
    ViewColumn feature{"feature " + std::to_string(column), "", {}};
    feature.values.reserve(row_of.size());
    for (const int64_t row : row_of) {
      const double value =
          row < 0 ? kNone : static_cast<double>(values[static_cast<size_t>(row * width + column)]);
      feature.values.push_back(value);
    }
    columns.push_back(std::move(feature));
  }
  return llvm::Error::success();
}

/// Returns the points' attributes from the cloud's file as columns.
std::vector<ViewColumn> own_columns(const Cloud& cloud) {
  std::vector<ViewColumn> columns;
  for (const Attribute& attribute : cloud.attributes) {
    ViewColumn column{attribute.name, "", {}};
    const auto bytes = static_cast<size_t>(scalar_bytes(attribute.type));
    // Attributes are in the machine's byte order, and every machine with a GPU is little-endian.
    constexpr bool kBigEndian = false;
    for (size_t at = 0; at < attribute.values.size(); at += bytes)
      column.values.push_back(decode_scalar(attribute.type, attribute.values.data() + at, kBigEndian));
    columns.push_back(std::move(column));
  }
  const auto has_intensity = [](const Point& point) { return point[3] != 0; };
  if (columns.empty() && std::any_of(cloud.points.begin(), cloud.points.end(), has_intensity)) {
    columns.push_back({"intensity", "", {}});
    for (const Point& point : cloud.points) columns.back().values.push_back(point[3]);
  }
  return columns;
}

/// Holds the items (points or voxels of the input) that belong to a voxel, sorted by voxel, and the voxel of
/// each item on every level.
struct Order {
  std::vector<size_t> items;
  /// The first index is the level, and the second one is an index in `items`.
  std::vector<std::vector<size_t>> owners;
};

Order order_items(const Input& input, const std::vector<ViewLevel>& levels) {
  Order order;
  std::vector<int64_t> owner(static_cast<size_t>(items_of(input)), -1);
  for (size_t item = 0; item < owner.size(); ++item) {
    const int64_t voxel = voxel_of(input, static_cast<int64_t>(item));
    if (voxel >= 0) owner[item] = levels[0].parents[static_cast<size_t>(voxel)];
    if (owner[item] >= 0) order.items.push_back(item);
  }
  std::stable_sort(order.items.begin(), order.items.end(),
                   [&](size_t a, size_t b) { return owner[a] < owner[b]; });
  for (size_t which = 0; which < levels.size(); ++which) {
    std::vector<size_t> owners;
    owners.reserve(order.items.size());
    for (size_t place = 0; place < order.items.size(); ++place) {
      const int64_t row =
          which == 0 ? owner[order.items[place]] : levels[which].parents[order.owners.back()[place]];
      owners.push_back(static_cast<size_t>(row));
    }
    order.owners.push_back(std::move(owners));
  }
  return order;
}

std::vector<double> means(const std::vector<double>& values, const std::vector<size_t>& owners, size_t rows) {
  std::vector<double> sums(rows, 0), counts(rows, 0);
  for (size_t place = 0; place < values.size(); ++place) {
    if (!std::isfinite(values[place])) continue;
    sums[owners[place]] += values[place];
    ++counts[owners[place]];
  }
  for (size_t row = 0; row < rows; ++row)
    sums[row] /= counts[row];  // If a row has no finite values, this is 0 / 0, which is NaN.
  return sums;
}

/// Returns the most frequent value of the items (points or voxels) of each row. Among equally frequent values
/// it is the least.
std::vector<double> majorities(const std::vector<double>& values, const std::vector<size_t>& owners,
                               size_t rows) {
  std::vector<std::pair<size_t, double>> all;
  for (size_t place = 0; place < values.size(); ++place) all.emplace_back(owners[place], values[place]);
  std::sort(all.begin(), all.end());
  std::vector<double> winners(rows, kNone);
  std::vector<size_t> most(rows, 0);
  for (size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end] == all[begin]) ++end;
    const auto [row, value] = all[begin];
    if (end - begin > most[row]) {
      most[row] = end - begin;
      winners[row] = value;
    }
  }
  return winners;
}

llvm::json::Object column_json(const ViewColumn& column) {
  return llvm::json::Object{{"name", llvm::json::fixUTF8(column.name)},
                            {"unit", column.unit},
                            {"numbers", pack_numbers(column.values)}};
}

/// Packs the positions of each axis, in float32 if 16 bits would be coarser than `resolution`.
llvm::json::Array position_json(const std::array<std::vector<double>, 3>& axes, const Position& resolution) {
  llvm::json::Array position;
  for (size_t axis = 0; axis < 3; ++axis) {
    const auto [least, greatest] = std::minmax_element(axes[axis].begin(), axes[axis].end());
    const bool is_fine = (*greatest - *least) / 65534 <= resolution[axis];
    position.push_back(is_fine ? pack_numbers(axes[axis]) : pack_floats(axes[axis]));
  }
  return position;
}

class Writer {
 public:
  Writer(const Input& input, const std::vector<ViewLevel>& levels, const ViewColumns& columns)
      : input_(input), levels_(levels), order_(order_items(input, levels)) {
    for (const ViewColumn& column : columns.numbers) columns_.push_back(in_order(column));
    if (columns.labels.empty()) return;
    for (const size_t item : order_.items) ++label_counts_[columns.labels[item]];
    for (const size_t item : order_.items) {
      const auto entry = label_counts_.find(columns.labels[item]);
      labels_.push_back(static_cast<double>(std::distance(label_counts_.begin(), entry)));
    }
  }

  /// Returns the number of items (points or voxels of the input) for each label.
  const std::map<int32_t, int64_t>& label_counts() const { return label_counts_; }

  llvm::json::Object points() const {
    std::array<std::vector<double>, 3> axes;
    for (const size_t item : order_.items) {
      for (size_t axis = 0; axis < 3; ++axis)
        axes[axis].push_back(input_.cloud.points[item][axis] - input_.frame.origin[axis]);
    }
    llvm::json::Array columns;
    for (const ViewColumn& column : columns_) columns.push_back(column_json(column));
    Position resolution = input_.frame.voxel_size;
    for (double& step : resolution) step /= 20;
    return set_json("points", 0, 1, axes, resolution, std::move(columns), labels_);
  }

  llvm::json::Object level(size_t which) const {
    const ViewLevel& level = levels_[which];
    const std::vector<size_t>& owners = order_.owners[which];
    const size_t rows = level.neighbours.size();
    std::array<std::vector<double>, 3> axes;
    ViewColumn batch{"batch", "", {}}, points{"points", "points", std::vector<double>(rows, 0)};
    for (size_t row = 0; row < rows; ++row) {
      batch.values.push_back(level.coordinates[4 * row]);
      for (size_t axis = 0; axis < 3; ++axis) axes[axis].push_back(level.coordinates[4 * row + 1 + axis]);
    }
    for (const size_t owner : owners) ++points.values[owner];
    llvm::json::Array columns;
    columns.push_back(column_json({"neighbours", "", {level.neighbours.begin(), level.neighbours.end()}}));
    if (!input_.cloud.is_voxels || level.stride > 1) {
      if (input_.cloud.is_voxels) points.name = points.unit = "voxels";
      columns.push_back(column_json(points));
    }
    if (std::any_of(batch.values.begin(), batch.values.end(), [](double b) { return b != 0; }))
      columns.push_back(column_json(batch));
    for (const ViewColumn& column : columns_)
      columns.push_back(column_json({column.name, column.unit, means(column.values, owners, rows)}));
    return set_json("voxels", level.stride, size_json(input_.frame.voxel_size), axes, {1, 1, 1},
                    std::move(columns), labels_.empty() ? labels_ : majorities(labels_, owners, rows));
  }

 private:
  ViewColumn in_order(const ViewColumn& column) const {
    ViewColumn ordered{column.name, column.unit, {}};
    for (const size_t item : order_.items) ordered.values.push_back(column.values[item]);
    return ordered;
  }

  static llvm::json::Object set_json(const char* kind, int stride, llvm::json::Value scale,
                                     const std::array<std::vector<double>, 3>& axes,
                                     const Position& resolution, llvm::json::Array columns,
                                     const std::vector<double>& labels) {
    llvm::json::Object set{{"kind", kind},
                           {"stride", stride},
                           {"scale", std::move(scale)},
                           {"count", static_cast<int64_t>(axes[0].size())},
                           {"position", position_json(axes, resolution)},
                           {"columns", std::move(columns)}};
    if (!labels.empty()) set["labels"] = pack_numbers(labels);
    return set;
  }

  const Input& input_;
  const std::vector<ViewLevel>& levels_;
  const Order order_;
  std::vector<ViewColumn> columns_;  ///< The values of each column are in the order of order_.items.
  std::map<int32_t, int64_t> label_counts_;
  /// Holds for each element of order_.items the index of its label in label_counts_.
  std::vector<double> labels_;
};

llvm::json::Array labels_json(const Writer& writer, const Palette& palette) {
  llvm::json::Array labels;
  for (const auto& [label, count] : writer.label_counts()) {
    const Colour colour = palette.colour_of(label);
    labels.push_back(llvm::json::Object{
        {"value", label}, {"colour", llvm::json::Array{colour[0], colour[1], colour[2]}}, {"count", count}});
  }
  return labels;
}

}  // namespace

llvm::Expected<ViewColumns> read_columns(const ViewOptions& options, const Input& input) {
  ViewColumns columns;
  if (!input.cloud.is_voxels) columns.numbers = own_columns(input.cloud);
  if (!options.labels.empty()) {
    MINUET_ASSIGN(columns.labels, read_labels(options.labels, input));
  }
  if (!options.features.empty()) MINUET_TRY(read_features(options, input, columns.numbers));
  return columns;
}

llvm::json::Object view_json(const Input& input, const std::vector<ViewLevel>& levels,
                             const ViewColumns& columns, const Palette& palette, const ViewFacts& facts) {
  const Writer writer(input, levels, columns);
  llvm::json::Array sets, table;
  if (!input.cloud.is_voxels) sets.push_back(writer.points());
  for (size_t which = 0; which < levels.size(); ++which) {
    sets.push_back(writer.level(which));
    table.push_back(llvm::json::Object{{"stride", levels[which].stride},
                                       {"voxels", static_cast<int64_t>(levels[which].neighbours.size())},
                                       {"pairs", levels[which].pairs}});
  }
  const Position origin = input.corner();
  return llvm::json::Object{{"title", facts.title},
                            {"device", facts.device},
                            {"voxel_size", size_json(input.frame.voxel_size)},
                            {"origin", llvm::json::Array{origin[0], origin[1], origin[2]}},
                            {"points", input.cloud.is_voxels ? 0 : input.cloud.count()},
                            {"skipped", input.voxels.skipped},
                            {"kernel_size", facts.kernel_size},
                            {"levels", std::move(table)},
                            {"labels", labels_json(writer, palette)},
                            {"sets", std::move(sets)}};
}

}  // namespace minuet::tool
