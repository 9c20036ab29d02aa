// The header of a PLY file: its format, and the elements that follow it.
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
  std::optional<Scalar> type;  ///< nothing where the type is not known; never so of the vertices
  bool is_list = false;
  std::optional<Scalar> list_count;  ///< the type of a list's length, nothing where it is not known
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

/// Reads the header and leaves the cursor behind its last line. Names refer to the cursor's text. Types are
/// those of PLY in any case, and also bool (one byte), int64, uint64 and half. A type that is not known, and
/// a property that is there twice, is an error of the vertices alone.
llvm::Expected<PlyHeader> parse_ply_header(TextCursor& cursor);

}  // namespace minuet::tool
