#include "tools/minuet/cloud/readers/ply_header.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

using Words = llvm::SmallVector<llvm::StringRef, 8>;

std::optional<Scalar> scalar_type(llvm::StringRef name) {
  return llvm::StringSwitch<std::optional<Scalar>>(name.lower())
      .Cases("char", "int8", Scalar::I8)
      .Cases("uchar", "uint8", "bool", Scalar::U8)
      .Cases("short", "int16", Scalar::I16)
      .Cases("ushort", "uint16", Scalar::U16)
      .Cases("int", "int32", Scalar::I32)
      .Cases("uint", "uint32", Scalar::U32)
      .Case("int64", Scalar::I64)
      .Case("uint64", Scalar::U64)
      .Cases("half", "float16", Scalar::F16)
      .Cases("float", "float32", Scalar::F32)
      .Cases("double", "float64", Scalar::F64)
      .Default(std::nullopt);
}

/// Checks a property of the vertices. Its name must be new, its type must be known, and if it is a list, the
/// list's length must have an integer type. Properties of other elements may break these rules.
llvm::Error check_property(const PlyElement& element, const PlyProperty& property) {
  if (property.is_list && (!property.list_count || !is_integer(*property.list_count))) {
    return bad_input("the length of the PLY list '{0}' must have an integer type, such as uchar",
                     property.name);
  }
  if (!property.type) {
    return bad_input("the PLY type '{0}' of the property '{1}' is not known: use a type such as float",
                     property.type_name, property.name);
  }
  for (const PlyProperty& other : element.properties) {
    if (other.name == property.name)
      return bad_input("the PLY property '{0}' occurs twice: rename one", property.name);
  }
  return llvm::Error::success();
}

llvm::Error parse_property(llvm::StringRef line, const Words& words, PlyHeader& header) {
  if (header.elements.empty())
    return bad_input("a PLY property comes before the first element: move it behind the line of its element");
  PlyProperty property;
  property.is_list = words.size() == 5 && words[1].equals_insensitive("list");
  if (!property.is_list && words.size() != 3) {
    return bad_input(
        "the PLY header has the line '{0}', but a property must be 'property TYPE NAME' or 'property list "
        "TYPE TYPE NAME'",
        line.trim());
  }
  if (property.is_list) property.list_count = scalar_type(words[2]);
  property.name = words.back();
  property.type_name = words[words.size() - 2];
  property.type = scalar_type(property.type_name);
  PlyElement& element = header.elements.back();
  if (element.is_vertices()) MINUET_TRY(check_property(element, property));
  element.properties.push_back(property);
  return llvm::Error::success();
}

llvm::Error parse_line(llvm::StringRef line, PlyHeader& header, bool& has_format) {
  Words words;
  TextCursor cursor(line);
  for (llvm::StringRef word = cursor.token(); !word.empty(); word = cursor.token()) words.push_back(word);
  if (words.empty()) return llvm::Error::success();
  if (words[0] == "comment" || words[0] == "obj_info") {
    header.comments.push_back(line.trim().str());
    return llvm::Error::success();
  }
  if (words[0] == "property") return parse_property(line, words, header);
  if (words[0] == "format" && words.size() == 3) {
    const auto format = llvm::StringSwitch<std::optional<PlyFormat>>(words[1])
                            .Case("ascii", PlyFormat::Ascii)
                            .Case("binary_little_endian", PlyFormat::Little)
                            .Case("binary_big_endian", PlyFormat::Big)
                            .Default(std::nullopt);
    if (!format)
      return bad_input(
          "the PLY format '{0}' is not known: it must be ascii, binary_little_endian or binary_big_endian",
          words[1]);
    header.format = *format;
    has_format = true;
    return llvm::Error::success();
  }
  if (words[0] == "element" && words.size() == 3) {
    const std::optional<int64_t> count = parse_count(words[2]);
    if (!count)
      return bad_input("the PLY element '{0}' has the count '{1}', which must be a whole number, 0 or more",
                       words[1], words[2]);
    header.elements.push_back({words[1], *count, {}});
    return llvm::Error::success();
  }
  return bad_input(
      "the PLY header has a line that starts with {0} and is not valid (unknown keyword or wrong number of "
      "words): remove or correct it",
      quoted(words[0]));
}

}  // namespace

llvm::Expected<PlyHeader> parse_ply_header(TextCursor& cursor) {
  const llvm::StringRef bytes = cursor.rest();
  if (cursor.row().trim() != "ply") {
    return wrong_file(bytes, {FileKind::Ply, WantedFile::PointText, "a PLY file"}, TextCursor(bytes).row());
  }
  PlyHeader header;
  bool has_format = false;
  while (true) {
    const std::optional<llvm::StringRef> line = cursor.line();
    if (!line) return bad_input("the PLY header is truncated (no end_header)");
    if (line->trim() == "end_header") break;
    MINUET_TRY(parse_line(*line, header, has_format));
  }
  if (!has_format) return bad_input("the PLY header has no format line: add one, such as 'format ascii 1.0'");
  return header;
}

}  // namespace minuet::tool
