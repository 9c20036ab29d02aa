#include "tools/minuet/readers/ply.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "tools/minuet/error.h"
#include "tools/minuet/readers/cloud_builder.h"

namespace minuet::tool {
namespace {

enum class Format { Ascii, Little, Big };

struct Property {
  llvm::StringRef name;
  Scalar type = Scalar::F32;
  std::optional<Scalar> list_count;  ///< the type of the count where the property is a list
};

struct Element {
  llvm::StringRef name;
  int64_t count = 0;
  std::vector<Property> properties;
};

struct PlyHeader {
  Format format = Format::Ascii;
  std::vector<Element> elements;
  std::vector<std::string> comments;
};

std::optional<Scalar> scalar_type(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Scalar>>(name)
      .Cases("char", "int8", Scalar::I8)
      .Cases("uchar", "uint8", Scalar::U8)
      .Cases("short", "int16", Scalar::I16)
      .Cases("ushort", "uint16", Scalar::U16)
      .Cases("int", "int32", Scalar::I32)
      .Cases("uint", "uint32", Scalar::U32)
      .Cases("float", "float32", Scalar::F32)
      .Cases("double", "float64", Scalar::F64)
      .Default(std::nullopt);
}

llvm::Error parse_property(llvm::ArrayRef<llvm::StringRef> words, PlyHeader& header) {
  if (header.elements.empty()) return bad_input("a PLY property stands before any element");
  Element& element = header.elements.back();
  Property property;
  const bool is_list = words.size() == 5 && words[1] == "list";
  if (!is_list && words.size() != 3) return bad_input("the PLY header has a broken property line");
  if (is_list) {
    property.list_count = scalar_type(words[2]);
    if (!property.list_count || !is_integer(*property.list_count)) {
      return bad_input("the PLY header has a list whose count is of type '{0}'", words[2]);
    }
  }
  const std::optional<Scalar> type = scalar_type(words[words.size() - 2]);
  if (!type) return bad_input("the PLY type '{0}' is not known", words[words.size() - 2]);
  property.name = words.back();
  property.type = *type;
  for (const Property& other : element.properties) {
    if (other.name == property.name) return bad_input("the PLY property '{0}' is there twice", property.name);
  }
  element.properties.push_back(property);
  return llvm::Error::success();
}

llvm::Error parse_line(llvm::StringRef line, PlyHeader& header, bool& has_format) {
  llvm::SmallVector<llvm::StringRef, 8> words;
  TextCursor cursor(line);
  for (llvm::StringRef word = cursor.token(); !word.empty(); word = cursor.token()) words.push_back(word);
  if (words.empty()) return llvm::Error::success();
  if (words[0] == "comment" || words[0] == "obj_info") {
    header.comments.push_back(line.trim().str());
    return llvm::Error::success();
  }
  if (words[0] == "property") return parse_property(words, header);
  if (words[0] == "format" && words.size() == 3) {
    const auto format = llvm::StringSwitch<std::optional<Format>>(words[1])
                            .Case("ascii", Format::Ascii)
                            .Case("binary_little_endian", Format::Little)
                            .Case("binary_big_endian", Format::Big)
                            .Default(std::nullopt);
    if (!format) return bad_input("the PLY format '{0}' is not known", words[1]);
    header.format = *format;
    has_format = true;
    return llvm::Error::success();
  }
  if (words[0] == "element" && words.size() == 3) {
    const std::optional<int64_t> count = parse_count(words[2]);
    if (!count) return bad_input("the PLY element '{0}' has no usable count: '{1}'", words[1], words[2]);
    header.elements.push_back({words[1], *count, {}});
    return llvm::Error::success();
  }
  return bad_input("the PLY header has a line that starts with '{0}'", words[0].take_front(40));
}

llvm::Expected<PlyHeader> parse_ply_header(TextCursor& cursor) {
  if (cursor.line() != llvm::StringRef("ply"))
    return bad_input("it is not a PLY file (its first line says so)");
  PlyHeader header;
  bool has_format = false;
  while (true) {
    const std::optional<llvm::StringRef> line = cursor.line();
    if (!line) return bad_input("the PLY header is truncated (no end_header)");
    if (line->trim() == "end_header") break;
    MINUET_TRY(parse_line(*line, header, has_format));
  }
  if (!has_format) return bad_input("the PLY header has no format line");
  return header;
}

/// Where the numbers of the body come from: text or bytes, every step checked.
class Body {
 public:
  Body(llvm::StringRef bytes, Format format) : cursor_(bytes), bytes_(bytes), format_(format) {}

  /// Of text: one line is one row, and no more than its numbers may stand there.
  void begin_row() {
    if (format_ == Format::Ascii) row_ = TextCursor(cursor_.row());
  }
  bool ends_row() { return format_ != Format::Ascii || row_.token().empty(); }
  /// Whether rows follow that the header does not promise.
  bool has_more_rows() { return format_ == Format::Ascii ? !cursor_.row().empty() : !bytes_.empty(); }

  /// The next number, and into `field` of `builder` where there is one.
  std::optional<double> next(Scalar type, CloudBuilder* builder, size_t field) {
    if (format_ == Format::Ascii) {
      const std::optional<double> value = parse_double(row_.token());
      if (!value || !is_value_of(type, *value)) return std::nullopt;
      if (builder) builder->add_text(field, *value);
      return value;
    }
    const size_t size = static_cast<size_t>(scalar_bytes(type));
    if (bytes_.size() < size) return std::nullopt;
    const char* const bytes = bytes_.data();
    bytes_ = bytes_.drop_front(size);
    if (builder) builder->add(field, bytes, format_ == Format::Big);
    return decode_scalar(type, bytes, format_ == Format::Big);
  }

  /// A list's length and its items, all skipped.
  bool skip_list(const Property& property) {
    const std::optional<double> length = next(*property.list_count, nullptr, 0);
    if (!length || !(*length >= 0 && *length <= 1e18) || *length != std::floor(*length)) return false;
    if (format_ != Format::Ascii) {
      const uint64_t size =
          static_cast<uint64_t>(*length) * static_cast<uint64_t>(scalar_bytes(property.type));
      if (size > bytes_.size()) return false;
      bytes_ = bytes_.drop_front(size);
      return true;
    }
    for (double i = 0; i < *length; ++i) {
      if (row_.token().empty()) return false;
    }
    return true;
  }

  /// No element can be shorter than this, so a huge count is refused before anything is reserved.
  bool can_hold(const Element& element) const {
    uint64_t least = 0;
    for (const Property& property : element.properties) {
      least += format_ == Format::Ascii ? 1
                                        : static_cast<uint64_t>(scalar_bytes(
                                              property.list_count ? *property.list_count : property.type));
    }
    const uint64_t left = format_ == Format::Ascii ? cursor_.rest().size() : bytes_.size();
    return least == 0 || static_cast<uint64_t>(element.count) <= left / least;
  }

 private:
  TextCursor cursor_, row_{""};
  llvm::StringRef bytes_;
  Format format_;
};

/// `builder`: of the vertices, with a field for every property that is no list; null: the element is skipped.
llvm::Error read_element(const Element& element, Body& body, CloudBuilder* builder) {
  if (element.properties.empty()) return llvm::Error::success();
  const auto truncated = [&](int64_t row) {
    return bad_input(
        "the file is truncated or broken: element '{0}' has {1} rows in the header and row {2} "
        "cannot be read",
        element.name, element.count, row);
  };
  if (!body.can_hold(element)) return truncated(element.count - 1);
  if (builder) builder->reserve(static_cast<size_t>(element.count));
  for (int64_t row = 0; row < element.count; ++row) {
    if (builder) builder->add_point();
    body.begin_row();
    size_t field = 0;
    for (const Property& property : element.properties) {
      if (property.list_count) {
        if (!body.skip_list(property)) return truncated(row);
      } else if (!body.next(property.type, builder, field++)) {
        return truncated(row);
      }
    }
    if (!body.ends_row()) {
      return bad_input("row {0} of element '{1}' has more numbers than the header promises", row,
                       element.name);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<Cloud> read_vertices(const Element& element, Body& body) {
  std::vector<CloudField> fields;
  std::vector<std::string> names;
  int found = 0;
  std::vector<std::string> lists;
  for (const Property& property : element.properties) {
    if (property.list_count) {
      lists.push_back(property.name.str());
      continue;
    }
    const int target = target_of(property.name);
    found += target >= 0 && target < 3;
    names.push_back(property.name.str());
    fields.push_back({names.back(), property.type, target});
  }
  if (found != 3) return bad_input("the PLY vertices have no x, y and z");
  CloudBuilder builder(std::move(fields));
  MINUET_TRY(read_element(element, body, &builder));
  Cloud cloud = builder.finish("property", "properties", names);
  cloud.lists = std::move(lists);
  return cloud;
}

}  // namespace

llvm::Expected<Cloud> read_ply(llvm::StringRef bytes) {
  TextCursor cursor(bytes);
  MINUET_ASSIGN(const PlyHeader header, parse_ply_header(cursor));
  Body body(cursor.rest(), header.format);
  Cloud cloud;
  bool has_vertices = false;
  std::vector<std::string> others;
  for (const Element& element : header.elements) {
    if (element.name == "vertex") {
      if (has_vertices) return bad_input("the PLY element 'vertex' is there twice");
      has_vertices = true;
      MINUET_ASSIGN(cloud, read_vertices(element, body));
    } else {
      MINUET_TRY(read_element(element, body, nullptr));
      if (element.count > 0) others.push_back(element.name.str());
    }
  }
  if (!has_vertices) return bad_input("the PLY file has no element 'vertex'");
  if (body.has_more_rows()) {
    const Element& last = header.elements.back();
    return bad_input("more rows follow than the {0} of element '{1}' that the header promises", last.count,
                     last.name);
  }
  cloud.comments = header.comments;
  cloud.elements = std::move(others);
  return cloud;
}

}  // namespace minuet::tool
