#include "tools/minuet/cloud/writers/ply.h"

#include <set>

namespace minuet::tool {
namespace {

constexpr const char* kOurComment = "comment written by minuet";

/// Returns PLY's name of the type that represents values of `type` best.
const char* ply_type(Scalar type) {
  switch (type) {
    case Scalar::I8:
      return "char";
    case Scalar::U8:
      return "uchar";
    case Scalar::I16:
      return "short";
    case Scalar::U16:
      return "ushort";
    case Scalar::I32:
      return "int";
    case Scalar::U32:
      return "uint";
    case Scalar::F16:
    case Scalar::F32:
      return "float";
    default:
      return "double";
  }
}

Scalar written_type(Scalar type) {
  if (type == Scalar::F16) return Scalar::F32;
  return type == Scalar::I64 || type == Scalar::U64 ? Scalar::F64 : type;
}

std::string header_of(const PlyTable& table) {
  std::string text = "ply\nformat binary_little_endian 1.0\n";
  text.append(kOurComment).append("\n");
  for (const std::string& comment : table.comments) {
    if (comment != kOurComment) text += comment + "\n";
  }
  text += "element vertex " + std::to_string(table.positions.size()) + "\n";
  std::set<std::string> names;
  for (const char* axis : {"x", "y", "z"}) {
    text += std::string("property ") + (table.wide ? "double " : "float ") + axis + "\n";
    names.insert(axis);
  }
  // `own` has the tool's own properties. An attribute with the name of such a property is renamed.
  std::string own;
  const auto add = [&](const char* type, const std::string& name) {
    names.insert(name);
    own += std::string("property ") + type + " " + name + "\n";
  };
  if (table.palette) {
    for (const char* colour : {"red", "green", "blue"}) add("uchar", colour);
    add("int", "label");
  }
  for (int c = 0; !table.palette && c < table.channels; ++c) add("float", "feature_" + std::to_string(c));
  for (const Attribute& attribute : table.attributes) {
    std::string name = attribute.name;
    while (!names.insert(name).second) name = "original_" + name;
    text += std::string("property ") + ply_type(attribute.type) + " " + name + "\n";
  }
  return text + own + "end_header\n";
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

std::string ply_bytes(const PlyTable& table) {
  std::string bytes = header_of(table);
  const auto channels = static_cast<size_t>(table.channels);
  for (size_t row = 0; row < table.positions.size(); ++row) {
    for (const double value : table.positions[row])
      append_scalar(table.wide ? Scalar::F64 : Scalar::F32, value, bytes);
    for (const Attribute& attribute : table.attributes) {
      const char* const value =
          attribute.values.data() + row * static_cast<size_t>(scalar_bytes(attribute.type));
      const Scalar written = written_type(attribute.type);
      if (written == attribute.type) {
        append_scalar(written, value, false, bytes);
      } else {
        append_scalar(written, decode_scalar(attribute.type, value, false), bytes);
      }
    }
    if (table.palette) {
      for (const uint8_t part : table.palette->colour_of(table.labels[row])) append(bytes, part);
      append(bytes, table.labels[row]);
    } else {
      bytes.append(reinterpret_cast<const char*>(table.features.data() + row * channels), 4 * channels);
    }
  }
  return bytes;
}

}  // namespace minuet::tool
