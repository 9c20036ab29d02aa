// Parses the header of a PLY file, which gives the format and the elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/text_input.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/readers/scalar.h"

namespace minuet::tool {

enum class PlyFormat { Ascii, Little, Big };

struct PlyProperty {
  llvm::StringRef name;
  llvm::StringRef type_name;
  std::optional<Scalar> type;  ///< No value means an unknown type, which is an error for vertices.
  bool is_list = false;
  std::optional<Scalar> list_count;  ///< Holds the type of a list's length, or nothing if that is unknown.
};

struct PlyElement {
  llvm::StringRef name;
  int64_t count = 0;
  std::vector<PlyProperty> properties;

  bool is_vertices() const { return name == "vertex"; }
};

struct PlyHeader {
  PlyFormat format = PlyFormat::Ascii;
  std::vector<PlyElement> elements;
  std::vector<std::string> comments;
};

/// Reads the header and leaves the cursor after its last line. The names in the result point
/// into the cursor's text. Type names are case-insensitive; besides the types of PLY, bool (one byte), int64,
/// uint64 and half are accepted. An unknown type or a duplicate property is an error only in the vertices.
llvm::Expected<PlyHeader> parse_ply_header(TextCursor& cursor);

}  // namespace minuet::tool
