#include "tools/minuet/cloud/readers/bin.h"

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

constexpr int64_t kMostColumnsWithIntensity = 5;

/// Returns the numbers of columns from 3 to 6, except `columns`, with which a file of `bytes` bytes consists
/// of whole rows of float32. An example is "3, 5 or 6".
std::string other_counts(size_t bytes, int columns) {
  std::vector<std::string> counts;
  for (int count = 3; count <= 6; ++count) {
    if (count != columns && bytes % (4 * static_cast<size_t>(count)) == 0)
      counts.push_back(std::to_string(count));
  }
  std::string text;
  for (size_t i = 0; i < counts.size(); ++i)
    text += (i == 0 ? "" : i + 1 < counts.size() ? ", " : " or ") + counts[i];
  return text;
}

}  // namespace

llvm::Expected<std::vector<CloudField>> unnamed_fields(int64_t columns, Scalar type,
                                                       std::optional<int> intensity_column) {
  if (intensity_column && *intensity_column >= columns) {
    return bad_input("--intensity-column {0} is not a column of the file: its rows have columns 0 to {1}",
                     *intensity_column, columns - 1);
  }
  const int64_t intensity = intensity_column                       ? *intensity_column
                            : columns <= kMostColumnsWithIntensity ? 3
                                                                   : -1;
  std::vector<CloudField> fields;
  for (int64_t column = 0; column < columns; ++column) {
    const int target = column < 3 ? static_cast<int>(column) : column == intensity ? 3 : -1;
    fields.push_back({target == 3 ? "intensity" : "column_" + std::to_string(column), type, target});
  }
  return fields;
}

Cloud finish_unnamed(CloudBuilder& builder) {
  std::vector<std::string> names;
  bool has_intensity = false;
  for (size_t i = 0; i < builder.fields().size(); ++i) {
    names.push_back(std::to_string(i));
    has_intensity |= builder.fields()[i].target == 3;
  }
  Cloud cloud = builder.finish("column", "columns", names, "--intensity-column");
  if (!has_intensity && names.size() > 3) {
    cloud.columns +=
        ": columns 3 to " + names.back() + " may be colours; --intensity-column selects one as the intensity";
  }
  return cloud;
}

llvm::Expected<Cloud> read_bin(llvm::StringRef bytes, const ColumnOptions& options) {
  const int columns = options.columns.value_or(4);
  const size_t row = 4 * static_cast<size_t>(columns);
  const bool fits = bytes.size() % row == 0;
  MINUET_TRY(refuse_other_than_rows(bytes, /*must_be_certain=*/fits));
  const std::string others = options.columns ? "" : other_counts(bytes.size(), columns);
  if (!fits) {
    return bad_input(
        "{0} bytes are not whole rows of {1} float32 numbers ({2} bytes each): the file is truncated, or "
        "--columns must be another number{3}",
        bytes.size(), columns, row, others.empty() ? "" : " (" + others + " would fit)");
  }
  MINUET_ASSIGN(std::vector<CloudField> fields,
                unnamed_fields(columns, Scalar::F32, options.intensity_column));
  CloudBuilder builder(std::move(fields));
  builder.reserve(bytes.size() / row);
  for (size_t at = 0; at < bytes.size(); at += row) {
    builder.add_point();
    for (size_t c = 0; c < static_cast<size_t>(columns); ++c)
      builder.add(c, bytes.data() + at + 4 * c, false);
  }
  Cloud cloud = finish_unnamed(builder);
  if (!others.empty()) {
    cloud.columns += "; read as rows of " + std::to_string(columns) +
                     " float32 numbers, but the size also fits rows of " + others + " (--columns)";
  }
  return cloud;
}

}  // namespace minuet::tool
