#include "tools/minuet/cloud/readers/pcd.h"

#include <lzf.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codegen/base/text_input.h"
#include "llvm/ADT/SmallVector.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/cloud_builder.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

using Words = llvm::SmallVector<llvm::StringRef, 8>;

constexpr ReadKind kPcdFile = {FileKind::Pcd, WantedFile::PointText, "a PCD file"};

struct Field {
  llvm::StringRef name;
  Scalar type = Scalar::F32;
  int64_t count = 1;
  int64_t offset = 0;  ///< Counts the bytes from the start of a row to the field.
};

struct PcdHeader {
  std::vector<Field> fields;
  int64_t points = 0;
  int64_t row_bytes = 0;
  int64_t row_tokens = 0;
  std::string data;                      ///< Holds "ascii", "binary" or "binary_compressed".
  std::vector<CloudField> cloud_fields;  ///< Holds one field for each number of a row.
};

/// Returns the type of a field from its TYPE and SIZE in the header. Only the first letter of TYPE counts,
/// and its case does not matter.
std::optional<Scalar> scalar_type(llvm::StringRef kind, llvm::StringRef size) {
  const std::string name = (kind.take_front(1).upper() + size).str();
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

/// Holds the words of the lines of a header, with one member for each keyword. The lines may be in any order.
struct RawPcdHeader {
  Words fields, sizes, types, counts, width, height, points, data;
};

/// Returns the member of `raw` for the words of a line that begins with `key`, or null if `raw` has none.
Words* place_of(llvm::StringRef key, RawPcdHeader& raw) {
  const std::pair<llvm::StringRef, Words*> places[] = {
      {"FIELDS", &raw.fields}, {"COLUMNS", &raw.fields}, {"SIZE", &raw.sizes},
      {"TYPE", &raw.types},    {"COUNT", &raw.counts},   {"WIDTH", &raw.width},
      {"HEIGHT", &raw.height}, {"POINTS", &raw.points},  {"DATA", &raw.data}};
  for (const auto& [name, place] : places) {
    if (key == name) return place;
  }
  return nullptr;
}

llvm::Expected<RawPcdHeader> split_header(TextCursor& cursor) {
  const llvm::StringRef bytes = cursor.rest();
  RawPcdHeader raw;
  bool known_any = false;
  while (const std::optional<llvm::StringRef> line = cursor.line()) {
    TextCursor words(*line);
    const llvm::StringRef key = words.token();
    if (key.empty() || key[0] == '#') continue;
    Words values;
    for (llvm::StringRef word = words.token(); !word.empty(); word = words.token()) values.push_back(word);
    Words* const place = place_of(key, raw);
    if (!place && key.take_front(7) != "VERSION" && key != "VIEWPOINT") {
      if (!known_any) return wrong_file(bytes, kPcdFile, *line);
      return bad_input(
          "the PCD header has a line that starts with {0}, which is not a PCD keyword: remove or correct the "
          "line",
          quoted(key));
    }
    known_any = true;
    if (place) *place = values;
    if (place == &raw.data) return raw;
  }
  if (!known_any) return wrong_file(bytes, kPcdFile, bytes);
  return bad_input("the PCD header is truncated (no DATA line)");
}

/// Returns the number that a line of the header gives, or nothing if the line is absent.
llvm::Expected<std::optional<int64_t>> optional_count(const Words& words, const char* key) {
  if (words.empty()) return std::optional<int64_t>();
  const std::optional<int64_t> value = words.size() == 1 ? parse_count(words[0]) : std::nullopt;
  if (!value) return bad_input("the {0} line of the PCD header must have one whole number, 0 or more", key);
  return value;
}

llvm::Error lay_out_field(const RawPcdHeader& raw, size_t i, PcdHeader& header) {
  Field field;
  field.name = raw.fields[i];
  const llvm::StringRef kind = raw.types.empty() ? "F" : raw.types[i];
  const llvm::StringRef size = raw.sizes.empty() ? "4" : raw.sizes[i];
  const std::optional<Scalar> type = scalar_type(kind, size);
  if (!type) {
    return bad_input(
        "the PCD field '{0}' has TYPE {1} and SIZE {2}, which cannot be read: use I or U with SIZE 1, 2, 4 "
        "or 8, or F with 4 or 8",
        field.name, kind, size);
  }
  field.type = *type;
  const std::optional<int64_t> count = raw.counts.empty() ? 1 : parse_count(raw.counts[i]);
  // More than 2^20 values per point mean that the header is broken.
  if (!count || *count > (1 << 20))
    return bad_input("the COUNT of the PCD field '{0}' must be a whole number from 0 to 2^20", field.name);
  field.count = *count;
  field.offset = header.row_bytes;
  header.row_bytes += field.count * scalar_bytes(field.type);
  header.row_tokens += field.count;
  if (header.row_tokens > (1 << 20))
    return bad_input(
        "the PCD fields have more than 2^20 numbers per point, the most that can be read: correct the COUNT "
        "line");
  header.fields.push_back(field);
  return llvm::Error::success();
}

/// Returns one CloudField for each number of a row. The numbers of a field with several are named name_0,
/// name_1 and so on.
std::vector<CloudField> cloud_fields(const PcdHeader& header) {
  std::vector<CloudField> fields;
  for (const Field& field : header.fields) {
    for (int64_t i = 0; i < field.count; ++i) {
      std::string name = field.name.str();
      if (field.count > 1 && name != kPaddingField) (name += "_") += std::to_string(i);
      fields.push_back({name, field.type, -1});
    }
  }
  return fields;
}

llvm::Error lay_out_fields(const RawPcdHeader& raw, const std::optional<std::string>& intensity_field,
                           PcdHeader& header) {
  const size_t fields = raw.fields.size();
  const auto fits = [&](const Words& words) { return words.empty() || words.size() == fields; };
  if (fields == 0 || !fits(raw.sizes) || !fits(raw.types) || !fits(raw.counts)) {
    return bad_input(
        "the PCD header must have a FIELDS line, and its lines SIZE, TYPE and COUNT must have as many words "
        "as FIELDS");
  }
  std::set<llvm::StringRef> names;
  for (size_t i = 0; i < fields; ++i) {
    MINUET_TRY(lay_out_field(raw, i, header));
    const llvm::StringRef name = raw.fields[i];
    if (name != kPaddingField && !names.insert(name).second) {
      return bad_input("the PCD field '{0}' occurs twice: rename one", name);
    }
  }
  header.cloud_fields = cloud_fields(header);
  return assign_targets(header.cloud_fields, intensity_field, "field");
}

/// Returns the number of points by the rules of the Point Cloud Library. A WIDTH or HEIGHT of 0 counts as
/// absent. Without HEIGHT there is one row of WIDTH points, and without both there is one row of POINTS
/// points.
llvm::Expected<int64_t> points_of(const RawPcdHeader& raw) {
  MINUET_ASSIGN(const std::optional<int64_t> points, optional_count(raw.points, "POINTS"));
  MINUET_ASSIGN(const std::optional<int64_t> width, optional_count(raw.width, "WIDTH"));
  MINUET_ASSIGN(const std::optional<int64_t> height, optional_count(raw.height, "HEIGHT"));
  if (!points && !width)
    return bad_input(
        "the PCD header has neither a POINTS nor a WIDTH line, which gives the number of points: add one");
  const int64_t rows = height.value_or(0) != 0 ? *height : 1;
  const bool has_width = width.value_or(0) != 0 || height.value_or(0) != 0;
  const int64_t columns = has_width ? width.value_or(0) : points.value_or(0);
  int64_t count = 0;
  if (__builtin_mul_overflow(columns, rows, &count))
    return bad_input("WIDTH times HEIGHT in the PCD header is 2^63 or more: correct these lines");
  if (points && *points != count) {
    return bad_input("POINTS is {0}, but WIDTH {1} times HEIGHT {2} is {3}; correct one of the lines",
                     *points, columns, rows, count);
  }
  return count;
}

llvm::Expected<PcdHeader> parse_pcd_header(TextCursor& cursor,
                                           const std::optional<std::string>& intensity_field) {
  MINUET_ASSIGN(const RawPcdHeader raw, split_header(cursor));
  PcdHeader header;
  MINUET_TRY(lay_out_fields(raw, intensity_field, header));
  MINUET_ASSIGN(header.points, points_of(raw));
  if (raw.data.size() != 1)
    return bad_input(
        "the DATA line of the PCD header must have one word: ascii, binary or binary_compressed");
  header.data = raw.data[0].lower();
  return header;
}

llvm::Error truncated(const PcdHeader& header, size_t bytes) {
  return bad_input("the file is truncated: the header promises {0} of {1}, but {2}",
                   counted(header.points, "point"), counted(header.row_bytes, "byte"), bytes_follow(bytes));
}

Cloud finish(CloudBuilder& builder) {
  std::vector<std::string> names;
  names.reserve(builder.fields().size());
  for (const CloudField& field : builder.fields()) names.push_back(field.name);
  return builder.finish("field", "fields", names, "--intensity-field");
}

llvm::Expected<Cloud> read_ascii(const PcdHeader& header, llvm::StringRef body) {
  if (header.points > static_cast<int64_t>(body.size()) / header.row_tokens)
    return truncated(header, body.size());
  CloudBuilder builder(header.cloud_fields);
  builder.reserve(static_cast<size_t>(header.points));
  TextCursor cursor(body);
  for (int64_t row = 0; row < header.points; ++row) {
    builder.add_point();
    TextCursor line(cursor.row());
    for (size_t field = 0; field < builder.fields().size(); ++field) {
      const llvm::StringRef word = line.token();
      if (word.empty())
        return bad_input("the file is truncated or broken: point {0} of {1} has {2} of {3} numbers", row,
                         header.points, field, builder.fields().size());
      const CloudField& target = builder.fields()[field];
      llvm::Expected<ScalarBytes> value = parse_value(word, target.type);
      if (!value) {
        return reworded(value.takeError(), [&](const std::string& text) {
          return llvm::formatv("point {0}, field '{1}': {2}", row, target.name, text).str();
        });
      }
      builder.add(field, *value);
    }
    if (!line.token().empty()) return bad_input("point {0} has more numbers than the header promises", row);
  }
  if (!cursor.row().empty()) {
    return bad_input("the file has more points than the {0} that its header promises", header.points);
  }
  return finish(builder);
}

/// Returns true if the rest is only zeros, and fewer than 65536. The Point Cloud Library before version 1.8
/// writes zeros after binary data, up to the size of a memory page.
bool is_padding(llvm::StringRef rest) {
  return rest.size() < 65536 && rest.find_first_not_of('\0') == llvm::StringRef::npos;
}

/// Reads points from binary data. With `interleaved` (DATA binary) the file stores them point by point,
/// otherwise (DATA binary_compressed) field by field.
llvm::Expected<Cloud> read_binary(const PcdHeader& header, llvm::StringRef body, bool interleaved) {
  if (header.points > static_cast<int64_t>(body.size()) / header.row_bytes)
    return truncated(header, body.size());
  if (!is_padding(body.drop_front(static_cast<size_t>(header.points * header.row_bytes)))) {
    return bad_input("the header promises {0} of {1}, but {2}: the header or the data is wrong",
                     counted(header.points, "point"), counted(header.row_bytes, "byte"),
                     bytes_follow(body.size()));
  }
  CloudBuilder builder(header.cloud_fields);
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
    return bad_input("the file is truncated: it promises {0} of compressed data, but {1}",
                     counted(packed, "byte"), bytes_follow(body.size()));
  }
  if (!is_padding(body.drop_front(static_cast<size_t>(packed)))) {
    return bad_input("the file promises {0} of compressed data, but {1}: this size or the data is wrong",
                     counted(packed, "byte"), bytes_follow(body.size()));
  }
  int64_t needed = 0;
  if (__builtin_mul_overflow(header.points, header.row_bytes, &needed) || needed != unpacked) {
    return bad_input(
        "the compressed data hold {0}, but the header promises {1} of {2}: the header or the data is wrong",
        counted(unpacked, "byte"), counted(header.points, "point"), counted(header.row_bytes, "byte"));
  }
  // LZF expands data at most 88 times, because its longest match makes 264 bytes of 3. A larger size is
  // refused before memory is allocated for it.
  if (unpacked > 88 * packed)
    return bad_input("the compressed data are broken: {0} bytes cannot expand to {1}", packed, unpacked);
  std::string data(static_cast<size_t>(unpacked), '\0');
  if (unpacked > 0 && lzf_decompress(body.data(), static_cast<unsigned>(packed), data.data(),
                                     static_cast<unsigned>(unpacked)) != unpacked) {
    return bad_input("the compressed data are broken: they do not expand to {0} bytes", unpacked);
  }
  return read_binary(header, data, /*interleaved=*/false);
}

}  // namespace

llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes, const std::optional<std::string>& intensity_field) {
  TextCursor cursor(bytes);
  MINUET_ASSIGN(const PcdHeader header, parse_pcd_header(cursor, intensity_field));
  if (header.data == "ascii") return read_ascii(header, cursor.rest());
  if (header.data == "binary") return read_binary(header, cursor.rest(), /*interleaved=*/true);
  if (header.data == "binary_compressed") return read_compressed(header, cursor.rest());
  return bad_input(
      "the DATA form '{0}' is not known: the PCD header must name ascii, binary or binary_compressed",
      header.data);
}

llvm::Expected<Cloud> read_pcd(llvm::StringRef bytes) { return read_pcd(bytes, std::nullopt); }

}  // namespace minuet::tool
