#include "tools/minuet/readers/pcd.h"

#include <lzf.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "tools/minuet/error.h"
#include "tools/minuet/readers/cloud_builder.h"

namespace minuet::tool {
namespace {

using Words = llvm::SmallVector<llvm::StringRef, 8>;

struct Field {
  llvm::StringRef name;
  Scalar type = Scalar::F32;
  int64_t count = 1;
  int64_t offset = 0;  ///< in a row, bytes
};

struct PcdHeader {
  std::vector<Field> fields;
  int64_t points = 0;
  int64_t row_bytes = 0;
  int64_t row_tokens = 0;
  std::string data;  ///< "ascii", "binary", "binary_compressed"
};

std::optional<Scalar> scalar_type(llvm::StringRef kind, llvm::StringRef size) {
  const std::string name = (kind + size).str();
  constexpr struct {
    const char* name;
    Scalar type;
  } kTypes[] = {{"I1", Scalar::I8},  {"I2", Scalar::I16}, {"I4", Scalar::I32}, {"I8", Scalar::I64},
                {"U1", Scalar::U8},  {"U2", Scalar::U16}, {"U4", Scalar::U32}, {"U8", Scalar::U64},
                {"F4", Scalar::F32}, {"F8", Scalar::F64}};
  for (const auto& known : kTypes) {
    if (name == known.name) return known.type;
  }
  return std::nullopt;
}

/// The lines of a header by their first words, in whatever order they stand.
struct RawPcdHeader {
  Words fields, sizes, types, counts, width, height, points, data;
};

llvm::Expected<RawPcdHeader> split_header(TextCursor& cursor) {
  RawPcdHeader raw;
  bool known_any = false;
  while (const std::optional<llvm::StringRef> line = cursor.line()) {
    TextCursor words(*line);
    const llvm::StringRef key = words.token();
    if (key.empty() || key[0] == '#') continue;
    Words values;
    for (llvm::StringRef word = words.token(); !word.empty(); word = words.token()) values.push_back(word);
    Words* const target = key == "FIELDS" || key == "COLUMNS" ? &raw.fields
                          : key == "SIZE"                     ? &raw.sizes
                          : key == "TYPE"                     ? &raw.types
                          : key == "COUNT"                    ? &raw.counts
                          : key == "WIDTH"                    ? &raw.width
                          : key == "HEIGHT"                   ? &raw.height
                          : key == "POINTS"                   ? &raw.points
                          : key == "DATA"                     ? &raw.data
                                                              : nullptr;
    if (!target && key != "VERSION" && key != "VIEWPOINT") {
      if (!known_any) return bad_input("it is not a PCD file (its first lines say so)");
      return bad_input("the PCD header has a line that starts with '{0}'", key.take_front(40));
    }
    known_any = true;
    if (target) *target = values;
    if (target == &raw.data) return raw;
  }
  return bad_input("the PCD header is truncated (no DATA line)");
}

llvm::Expected<int64_t> single_count(const Words& words, const char* key) {
  const std::optional<int64_t> value = words.size() == 1 ? parse_count(words[0]) : std::nullopt;
  if (!value) return bad_input("the PCD header has no usable {0}", key);
  return *value;
}

llvm::Error lay_out_fields(const RawPcdHeader& raw, PcdHeader& header) {
  const size_t fields = raw.fields.size();
  if (fields == 0 || raw.sizes.size() != fields || raw.types.size() != fields ||
      (!raw.counts.empty() && raw.counts.size() != fields)) {
    return bad_input("the PCD lines FIELDS, SIZE, TYPE and COUNT do not have the same length");
  }
  int found = 0;
  std::set<llvm::StringRef> names;
  for (size_t i = 0; i < fields; ++i) {
    Field field;
    field.name = raw.fields[i];
    const std::optional<Scalar> type = scalar_type(raw.types[i], raw.sizes[i]);
    if (!type)
      return bad_input("the PCD field '{0}' has type {1}{2}, which is not known", field.name, raw.types[i],
                       raw.sizes[i]);
    field.type = *type;
    const std::optional<int64_t> count = raw.counts.empty() ? 1 : parse_count(raw.counts[i]);
    // A field of 2^20 values a point is a broken header, not a cloud.
    if (!count || *count > (1 << 20)) return bad_input("the PCD field '{0}' has no usable COUNT", field.name);
    field.count = *count;
    field.offset = header.row_bytes;
    header.row_bytes += field.count * scalar_bytes(field.type);
    header.row_tokens += field.count;
    if (header.row_tokens > (1 << 20)) return bad_input("the PCD fields have too many numbers a point");
    if (field.name != kPaddingField && !names.insert(field.name).second) {
      return bad_input("the PCD field '{0}' is there twice", field.name);
    }
    const int target = field.count == 1 ? target_of(field.name) : -1;
    found += target >= 0 && target < 3;
    header.fields.push_back(field);
  }
  if (found != 3) return bad_input("the PCD file has no fields x, y and z");
  return llvm::Error::success();
}

llvm::Expected<PcdHeader> parse_pcd_header(TextCursor& cursor) {
  MINUET_ASSIGN(const RawPcdHeader raw, split_header(cursor));
  PcdHeader header;
  MINUET_TRY(lay_out_fields(raw, header));
  MINUET_ASSIGN(const int64_t width, single_count(raw.width, "WIDTH"));
  MINUET_ASSIGN(const int64_t height, single_count(raw.height, "HEIGHT"));
  if (__builtin_mul_overflow(width, height, &header.points)) return bad_input("the PCD size is too large");
  if (!raw.points.empty()) {
    MINUET_ASSIGN(const int64_t points, single_count(raw.points, "POINTS"));
    if (points != header.points) {
      return bad_input("the PCD header says {0} points, and {1} x {2}", points, width, height);
    }
  }
  if (raw.data.size() != 1) return bad_input("the PCD header has a broken DATA line");
  header.data = raw.data[0].str();
  return header;
}

llvm::Error truncated(const PcdHeader& header, size_t bytes) {
  return bad_input("the file is truncated: {0} points of {1} bytes are promised and {2} bytes follow",
                   header.points, header.row_bytes, bytes);
}

/// One field of the cloud for every number of a row; a field of several numbers becomes name_0, name_1, ...
std::vector<CloudField> cloud_fields(const PcdHeader& header) {
  std::vector<CloudField> fields;
  for (const Field& field : header.fields) {
    for (int64_t i = 0; i < field.count; ++i) {
      std::string name = field.name.str();
      if (field.count > 1 && name != kPaddingField) (name += "_") += std::to_string(i);
      fields.push_back({name, field.type, field.count == 1 ? target_of(field.name) : -1});
    }
  }
  return fields;
}

Cloud finish(CloudBuilder& builder) {
  std::vector<std::string> names;
  names.reserve(builder.fields().size());
  for (const CloudField& field : builder.fields()) names.push_back(field.name);
  return builder.finish("field", "fields", names);
}

llvm::Expected<Cloud> read_ascii(const PcdHeader& header, llvm::StringRef body) {
  if (header.points > static_cast<int64_t>(body.size()) / header.row_tokens)
    return truncated(header, body.size());
  CloudBuilder builder(cloud_fields(header));
  builder.reserve(static_cast<size_t>(header.points));
  TextCursor cursor(body);
  for (int64_t row = 0; row < header.points; ++row) {
    builder.add_point();
    TextCursor line(cursor.row());
    for (size_t field = 0; field < builder.fields().size(); ++field) {
      const llvm::StringRef token = line.token();
      if (token.empty())
        return bad_input("the file is truncated or broken: point {0} of {1} has {2} of {3} numbers", row,
                         header.points, field, builder.fields().size());
      const std::optional<double> value = parse_double(token);
      if (!value)
        return bad_input("point {0} has '{1}' where a number is expected", row, token.take_front(40));
      const Scalar type = builder.fields()[field].type;
      if (!is_value_of(type, *value)) {
        return bad_input("point {0} has '{1}' in field '{2}', whose type is {3}", row, token.take_front(40),
                         builder.fields()[field].name, scalar_name(type));
      }
      builder.add_text(field, *value);
    }
    if (!line.token().empty()) return bad_input("point {0} has more numbers than the header promises", row);
  }
  if (!cursor.row().empty()) {
    return bad_input("more points follow than the {0} that the header promises", header.points);
  }
  return finish(builder);
}

/// PCL before 1.8 leaves zeros behind binary data, up to the size of a page.
bool is_padding(llvm::StringRef rest) {
  return rest.size() < 65536 && rest.find_first_not_of('\0') == llvm::StringRef::npos;
}

/// `interleaved`: point after point (binary); else field after field (binary_compressed).
llvm::Expected<Cloud> read_binary(const PcdHeader& header, llvm::StringRef body, bool interleaved) {
  if (header.points > static_cast<int64_t>(body.size()) / header.row_bytes)
    return truncated(header, body.size());
  if (!is_padding(body.drop_front(static_cast<size_t>(header.points * header.row_bytes)))) {
    return bad_input("{0} points of {1} bytes are promised and {2} bytes follow: one of them is wrong",
                     header.points, header.row_bytes, body.size());
  }
  CloudBuilder builder(cloud_fields(header));
  builder.reserve(static_cast<size_t>(header.points));
  for (int64_t row = 0; row < header.points; ++row) {
    builder.add_point();
    size_t number = 0;
    for (const Field& field : header.fields) {
      const int64_t bytes = scalar_bytes(field.type), all = field.count * bytes;
      const char* first = body.data() + (interleaved ? field.offset + row * header.row_bytes
                                                     : field.offset * header.points + row * all);
      for (int64_t i = 0; i < field.count; ++i) builder.add(number++, first + i * bytes, false);
    }
  }
  return finish(builder);
}

llvm::Expected<Cloud> read_compressed(const PcdHeader& header, llvm::StringRef body) {
  if (body.size() < 8)
    return bad_input("the file is truncated: the sizes of the compressed data are missing");
  const int64_t packed = decode_integer(Scalar::U32, body.data(), false);
  const int64_t unpacked = decode_integer(Scalar::U32, body.data() + 4, false);
  body = body.drop_front(8);
  if (packed > static_cast<int64_t>(body.size())) {
    return bad_input("the file is truncated: {0} compressed bytes are promised and {1} follow", packed,
                     body.size());
  }
  if (!is_padding(body.drop_front(static_cast<size_t>(packed)))) {
    return bad_input("{0} compressed bytes are promised and {1} follow: one of them is wrong", packed,
                     body.size());
  }
  int64_t needed = 0;
  if (__builtin_mul_overflow(header.points, header.row_bytes, &needed) || needed != unpacked) {
    return bad_input("the compressed data hold {0} bytes, and {1} points of {2} bytes are promised", unpacked,
                     header.points, header.row_bytes);
  }
  // LZF's longest match turns 3 bytes into 264, so more is a lie; no memory is taken for it.
  if (unpacked > 88 * packed)
    return bad_input("the compressed data are broken ({0} bytes cannot hold {1})", packed, unpacked);
  if (unpacked == 0) return Cloud();
  std::string data(static_cast<size_t>(unpacked), '\0');
  const unsigned written = lzf_decompress(body.data(), static_cast<unsigned>(packed), data.data(),
                                          static_cast<unsigned>(unpacked));
  if (written != unpacked) return bad_input("the compressed data are broken");
  return read_binary(header, data, /*interleaved=*/false);
}

}  // namespace

llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes) {
  TextCursor cursor(bytes);
  MINUET_ASSIGN(const PcdHeader header, parse_pcd_header(cursor));
  if (header.data == "ascii") return read_ascii(header, cursor.rest());
  if (header.data == "binary") return read_binary(header, cursor.rest(), /*interleaved=*/true);
  if (header.data == "binary_compressed") return read_compressed(header, cursor.rest());
  return bad_input("the PCD data form '{0}' is not known (ascii, binary, binary_compressed)", header.data);
}

}  // namespace minuet::tool
