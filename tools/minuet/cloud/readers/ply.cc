#include "tools/minuet/cloud/readers/ply.h"

#include <algorithm>
#include <cmath>

#include "llvm/ADT/STLExtras.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/cloud_builder.h"
#include "tools/minuet/cloud/readers/ply_header.h"
#include "tools/minuet/cloud/readers/ply_rows.h"

namespace minuet::tool {
namespace {

/// Iterates over the numbers after the header, which are text or bytes. Reading past the end of the file is
/// an error. Errors do not name the row, which the caller adds.
class Body {
 public:
  Body(llvm::StringRef bytes, PlyFormat format) : cursor_(bytes), bytes_(bytes), format_(format) {}

  bool is_text() const { return format_ == PlyFormat::Ascii; }
  bool is_at_line_end() const { return cursor_.is_at_line_end(); }
  /// Returns the text from the next word to the end of its line.
  llvm::StringRef next_row() const { return TextCursor(cursor_).row(); }
  /// Returns the unread text.
  llvm::StringRef text() const { return cursor_.rest(); }
  /// Returns true if unread numbers are left. In text, it consumes the first of them.
  bool has_more() { return is_text() ? !cursor_.token().empty() : !bytes_.empty(); }

  /// Reads the next number and adds it to `field` of `builder`.
  llvm::Error read(Scalar type, CloudBuilder& builder, size_t field) {
    if (is_text()) {
      MINUET_ASSIGN(const ScalarBytes value, next_value(type));
      builder.add(field, value);
      return llvm::Error::success();
    }
    MINUET_ASSIGN(const llvm::StringRef bytes, take(static_cast<uint64_t>(scalar_bytes(type))));
    builder.add(field, bytes.data(), format_ == PlyFormat::Big);
    return llvm::Error::success();
  }

  /// Skips the number of the property, or its list with the length in front of it.
  llvm::Error skip(const PlyProperty& property) {
    if (!property.is_list) return skip_numbers(property, 1);
    if (!property.list_count)
      return bad_input("the type of the list's length is not known: correct it in the header");
    MINUET_ASSIGN(const double length, next_length(*property.list_count));
    if (!(length >= 0 && length <= 1e18) || length != std::floor(length)) {
      return bad_input("the length of the list is {0}, but must be a whole number, 0 or more",
                       digits(length));
    }
    return skip_numbers(property, static_cast<uint64_t>(length));
  }

  /// Returns false if the remaining bytes are too few for the element's rows. It assumes the smallest
  /// possible size of a row, so that a huge count is refused before memory is allocated for it.
  bool can_hold(const PlyElement& element) const {
    uint64_t least = 0;
    for (const PlyProperty& property : element.properties) {
      const std::optional<Scalar> first = property.is_list ? property.list_count : property.type;
      least += is_text() || !first ? 1 : static_cast<uint64_t>(scalar_bytes(*first));
    }
    return least == 0 || static_cast<uint64_t>(element.count) <= bytes_left() / least;
  }
  uint64_t bytes_left() const { return is_text() ? cursor_.rest().size() : bytes_.size(); }

 private:
  static llvm::Error ended() { return bad_input("the file ends here: it is truncated"); }

  llvm::Expected<llvm::StringRef> take(uint64_t size) {
    if (size > bytes_.size()) return ended();
    const llvm::StringRef taken = bytes_.take_front(size);
    bytes_ = bytes_.drop_front(size);
    return taken;
  }

  llvm::Expected<ScalarBytes> next_value(Scalar type) {
    const llvm::StringRef word = cursor_.token();
    if (word.empty()) return ended();
    llvm::Expected<ScalarBytes> value = parse_value(word, type);
    if (value || !cursor_.rest().empty()) return value;
    return reworded(value.takeError(), [](const std::string& text) {
      return text + "; the file ends here, so it may be truncated";
    });
  }

  llvm::Expected<double> next_length(Scalar type) {
    if (is_text()) {
      MINUET_ASSIGN(const ScalarBytes value, next_value(type));
      return decode_scalar(type, value.data(), /*big_endian=*/false);
    }
    MINUET_ASSIGN(const llvm::StringRef bytes, take(static_cast<uint64_t>(scalar_bytes(type))));
    return decode_scalar(type, bytes.data(), format_ == PlyFormat::Big);
  }

  llvm::Error skip_numbers(const PlyProperty& property, uint64_t count) {
    if (is_text()) {
      for (uint64_t i = 0; i < count; ++i) {
        if (cursor_.token().empty()) return ended();
      }
      return llvm::Error::success();
    }
    if (!property.type)
      return bad_input("the type '{0}' is not known: correct it in the header", property.type_name);
    const auto size = static_cast<uint64_t>(scalar_bytes(*property.type));
    if (count > bytes_.size() / size) return ended();
    return take(count * size).takeError();
  }

  TextCursor cursor_;
  llvm::StringRef bytes_;
  PlyFormat format_;
};

llvm::Error in_row(int64_t row, const PlyElement& element, const PlyProperty& property, llvm::Error error) {
  return reworded(std::move(error), [&](const std::string& text) {
    return llvm::formatv("row {0} of {1} of element '{2}', property '{3}': {4}", row, element.count,
                         element.name, property.name, text)
        .str();
  });
}

llvm::Error check_size(const PlyElement& element, const Body& body) {
  if (body.can_hold(element)) return llvm::Error::success();
  return bad_input("the file is truncated: the header promises {0} of element '{1}', but {2}",
                   counted(element.count, "row"), element.name, bytes_follow(body.bytes_left()));
}

llvm::Error skip_element(const PlyElement& element, Body& body) {
  if (element.properties.empty()) return llvm::Error::success();
  MINUET_TRY(check_size(element, body));
  for (int64_t row = 0; row < element.count; ++row) {
    for (const PlyProperty& property : element.properties) {
      if (llvm::Error error = body.skip(property)) return in_row(row, element, property, std::move(error));
    }
  }
  return llvm::Error::success();
}

/// Reads the rows of the element into `builder`, which has a field for every property that is not a list.
/// Fills `rows` if the file is text.
llvm::Error read_rows(const PlyElement& element, Body& body, CloudBuilder& builder, PointRows& rows) {
  MINUET_TRY(check_size(element, body));
  builder.reserve(static_cast<size_t>(element.count));
  for (int64_t row = 0; row < element.count; ++row) {
    builder.add_point();
    if (body.is_text() && row + 1 == element.count) rows.last_row = body.next_row();
    size_t field = 0;
    for (const PlyProperty& property : element.properties) {
      const bool is_first = &property == &element.properties.front();
      if (body.is_text() && !is_first && body.is_at_line_end()) rows.are_lines = false;
      llvm::Error error =
          property.is_list ? body.skip(property) : body.read(*property.type, builder, field++);
      if (error) return in_row(row, element, property, std::move(error));
    }
    if (body.is_text() && !body.is_at_line_end()) rows.are_lines = false;
  }
  if (body.is_text()) rows.behind = body.text();
  return llvm::Error::success();
}

llvm::Expected<Cloud> read_vertices(const PlyElement& element,
                                    const std::optional<std::string>& intensity_field, Body& body,
                                    PointRows& rows) {
  std::vector<CloudField> fields;
  std::vector<std::string> names, lists;
  for (const PlyProperty& property : element.properties) {
    (property.is_list ? lists : names).push_back(property.name.str());
    if (!property.is_list) fields.push_back({names.back(), *property.type, -1});
  }
  MINUET_TRY(assign_targets(fields, intensity_field, "property"));
  CloudBuilder builder(std::move(fields));
  MINUET_TRY(read_rows(element, body, builder, rows));
  Cloud cloud = builder.finish("property", "properties", names, "--intensity-field");
  cloud.lists = std::move(lists);
  return cloud;
}

/// Skips the elements after the vertices and checks them against the header. These elements are not used, so
/// a fault in them is only a warning, unless the number of vertices itself may be wrong. That is so if the
/// header has no rows of other elements after the vertices, or if doubt_about_points() returns a reason.
llvm::Error check_rest(llvm::ArrayRef<PlyElement> behind, const PlyElement& last, const PointRows& rows,
                       Body& body, Cloud& cloud) {
  llvm::Error fault = llvm::Error::success();
  for (const PlyElement& element : behind) {
    if (!fault) fault = skip_element(element, body);
  }
  const bool more_follows = !fault && body.has_more();
  if (more_follows) {
    fault = bad_input("more data follow than the {0} of element '{1}' that the header promises",
                      counted(last.count, "row"), last.name);
  }
  if (!fault) return fault;
  if (llvm::none_of(behind, [](const PlyElement& element) { return element.count > 0; })) return fault;
  const std::string doubt = body.is_text() ? doubt_about_points(rows, behind, more_follows) : "";
  if (!doubt.empty()) {
    return reworded(std::move(fault), [&](const std::string& text) { return text + "; " + doubt; });
  }
  cloud.warnings.push_back(
      "the points are read, but the data after them do not match the header" +
      std::string(body.is_text() ? "" : ", or the number of points in the header is wrong") + ": " +
      llvm::toString(std::move(fault)));
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<Cloud> read_ply(llvm::StringRef bytes, const std::optional<std::string>& intensity_field) {
  TextCursor cursor(bytes);
  MINUET_ASSIGN(const PlyHeader header, parse_ply_header(cursor));
  const llvm::ArrayRef<PlyElement> elements = header.elements;
  const auto* const vertices =
      std::find_if(elements.begin(), elements.end(), [](auto& element) { return element.is_vertices(); });
  if (vertices == elements.end())
    return bad_input("the PLY file has no element 'vertex', which holds the points");
  const llvm::ArrayRef<PlyElement> behind(vertices + 1, elements.end());
  for (const PlyElement& element : behind) {
    if (element.is_vertices())
      return bad_input(
          "the PLY element 'vertex' occurs twice, but only one can hold the points: rename the other");
  }
  Body body(cursor.rest(), header.format);
  for (const PlyElement& element : elements.drop_back(behind.size() + 1)) {
    MINUET_TRY(skip_element(element, body));
  }
  PointRows rows;
  MINUET_ASSIGN(Cloud cloud, read_vertices(*vertices, intensity_field, body, rows));
  MINUET_TRY(check_rest(behind, elements.back(), rows, body, cloud));
  cloud.comments = header.comments;
  for (const PlyElement& element : elements) {
    if (!element.is_vertices() && element.count > 0) cloud.elements.push_back(element.name.str());
  }
  return cloud;
}

llvm::Expected<Cloud> read_ply(llvm::StringRef bytes) { return read_ply(bytes, std::nullopt); }

}  // namespace minuet::tool
