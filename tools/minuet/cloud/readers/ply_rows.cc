#include "tools/minuet/cloud/readers/ply_rows.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

size_t count_words(llvm::StringRef line) {
  TextCursor cursor(line);
  size_t words = 0;
  while (!cursor.token().empty()) ++words;
  return words;
}

/// Parses the next word of the line, and returns false if it is not a number of the type. Any word is
/// accepted if the type is unknown.
bool take_number(TextCursor& line, std::optional<Scalar> type, double& value) {
  const llvm::StringRef word = line.token();
  if (word.empty() || !type) return !word.empty();
  llvm::Expected<ScalarBytes> bytes = parse_value(word, *type);
  if (bytes) value = decode_scalar(*type, bytes->data(), /*big_endian=*/false);
  llvm::consumeError(bytes.takeError());
  return !!bytes;
}

/// Returns true if the line has exactly the words of one row of the element.
bool can_be_row(llvm::StringRef text, const PlyElement& element) {
  TextCursor line(text);
  for (const PlyProperty& property : element.properties) {
    double number = 0, length = 1;
    if (property.is_list && !take_number(line, property.list_count, length)) return false;
    if (!(length >= 0)) return false;
    for (double i = 0; i < length; ++i) {
      if (!take_number(line, property.type, number)) return false;
    }
  }
  return line.token().empty();
}

/// Returns how many more lines the text has than the elements have rows, or 0 if it has fewer. An element
/// without properties has no lines.
int64_t excess_lines(llvm::StringRef text, llvm::ArrayRef<PlyElement> elements) {
  int64_t excess = 0;
  for (TextCursor cursor(text); !cursor.row().empty();) ++excess;
  for (const PlyElement& element : elements) {
    if (!element.properties.empty()) excess -= std::min(excess, element.count);
  }
  return excess;
}

/// Returns true if the lines that are too many (excess_lines()) directly follow the points and look like
/// points. Each must have as many words as the last point, and at least one must not be a row of `next`, the
/// element that should follow.
bool are_points_behind(const PointRows& rows, llvm::ArrayRef<PlyElement> behind, const PlyElement* next) {
  const size_t words = count_words(rows.last_row);
  const int64_t excess = excess_lines(rows.behind, behind);
  bool any_is_no_row = false;
  TextCursor cursor(rows.behind);
  for (int64_t i = 0; i < excess; ++i) {
    const llvm::StringRef line = cursor.row();
    if (count_words(line) != words) return false;
    any_is_no_row = any_is_no_row || !next || !can_be_row(line, *next);
  }
  return any_is_no_row;
}

}  // namespace

std::string doubt_about_points(const PointRows& rows, llvm::ArrayRef<PlyElement> behind, bool more_follows) {
  if (!rows.are_lines) return "the points are not one per line, so they may be wrong, too";
  const auto* const next = llvm::find_if(
      behind, [](const PlyElement& element) { return element.count > 0 && !element.properties.empty(); });
  if (are_points_behind(rows, behind, next != behind.end() ? next : nullptr)) {
    return "the line after the points looks like another point, so the number of points in the header may be "
           "too small";
  }
  if (!more_follows && next != behind.end() && !rows.last_row.empty() && can_be_row(rows.last_row, *next)) {
    return "the last row of the points may belong to element '" + next->name.str() +
           "', so the number of points in the header may be too large";
  }
  return "";
}

}  // namespace minuet::tool
