#include "tools/minuet/cloud/readers/npy.h"

#include <limits>
#include <optional>
#include <set>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/readers/bin.h"
#include "tools/minuet/cloud/readers/wrong_file.h"

namespace minuet::tool {
namespace {

constexpr int64_t kMostColumns = 1024;
/// An array with more columns than this, and fewer rows than columns, is probably transposed.
constexpr int64_t kManyColumns = 32;

/// Parses the header, which is a Python dictionary with three entries.
class HeaderParser {
 public:
  HeaderParser(llvm::StringRef text, NpyArray& array) : text_(text), array_(array) {}

  llvm::Error parse() {
    if (!eat("{")) return bad();
    while (!eat("}")) {
      std::optional<llvm::StringRef> key = quoted();
      if (!key || !eat(":") || !keys_.insert(*key).second) return bad();
      MINUET_TRY(value_of(*key));
      if (!eat(",") && text_.ltrim().take_front(1) != "}") return bad();
    }
    if (keys_.size() != 3) return bad();
    return llvm::Error::success();
  }

 private:
  static llvm::Error bad() {
    return bad_input(
        "the header is not that of an NPY file, which gives descr, fortran_order and shape: save the array "
        "again with numpy.save");
  }

  bool eat(llvm::StringRef word) {
    text_ = text_.ltrim();
    return text_.consume_front(word);
  }

  std::optional<llvm::StringRef> quoted() {
    text_ = text_.ltrim();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[0], 1);
    if (end == llvm::StringRef::npos) return std::nullopt;
    const llvm::StringRef word = text_.slice(1, end);
    text_ = text_.drop_front(end + 1);
    return word;
  }

  llvm::Error value_of(llvm::StringRef key) {
    if (key == "descr") {
      const std::optional<llvm::StringRef> word = quoted();
      if (!word) return bad_input("structured NPY arrays cannot be read: save a plain [N, columns] array");
      return type(*word);
    }
    if (key == "fortran_order") {
      array_.fortran_order = eat("True");
      return array_.fortran_order || eat("False") ? llvm::Error::success() : bad();
    }
    if (key != "shape" || !eat("(")) return bad();
    while (!eat(")")) {
      text_ = text_.ltrim();
      const llvm::StringRef digits = text_.take_while([](char c) { return c >= '0' && c <= '9'; });
      const std::optional<int64_t> extent = parse_count(digits);
      if (!extent || array_.shape.size() == 32) return bad();
      text_ = text_.drop_front(digits.size());
      text_.consume_front("L");  // Python 2 writes an L behind long integers.
      array_.shape.push_back(*extent);
      if (!eat(",") && text_.ltrim().take_front(1) != ")") return bad();
    }
    return llvm::Error::success();
  }

  llvm::Error type(llvm::StringRef word) {
    static constexpr struct {
      const char* name;
      Scalar type;
    } kTypes[] = {{"i1", Scalar::I8},  {"u1", Scalar::U8},  {"b1", Scalar::U8},  {"i2", Scalar::I16},
                  {"u2", Scalar::U16}, {"i4", Scalar::I32}, {"u4", Scalar::U32}, {"i8", Scalar::I64},
                  {"u8", Scalar::U64}, {"f2", Scalar::F16}, {"f4", Scalar::F32}, {"f8", Scalar::F64}};
    array_.big_endian = word.take_front(1) == ">";
    llvm::StringRef name = word;
    if (name.find_first_of("<>|=") == 0) name = name.drop_front();
    for (const auto& known : kTypes) {
      if (name != known.name) continue;
      array_.type = known.type;
      return llvm::Error::success();
    }
    return bad_input("elements of type '{0}' cannot be read: save integers or floats", word);
  }

  llvm::StringRef text_;
  NpyArray& array_;
  std::set<llvm::StringRef> keys_;
};

llvm::Expected<NpyArray> parse_matrix(llvm::StringRef bytes, WantedFile wanted) {
  MINUET_ASSIGN(NpyArray array, parse_npy(bytes, wanted));
  if (array.shape.size() != 2) {
    return bad_input("the array has {0}, but must have 2: [N, columns]",
                     counted(static_cast<int64_t>(array.shape.size()), "dimension"));
  }
  return array;
}

}  // namespace

const char* NpyArray::at(int64_t row, int64_t column) const {
  const int64_t index = fortran_order ? column * shape[0] + row : row * shape[1] + column;
  return data.data() + index * scalar_bytes(type);
}

llvm::Expected<NpyArray> parse_npy(llvm::StringRef bytes, WantedFile wanted) {
  llvm::StringRef rest = bytes;
  if (!rest.consume_front("\x93NUMPY")) {
    return wrong_file(bytes, {FileKind::NumpyArray, wanted, "an NPY file"}, bytes);
  }
  const size_t length_bytes = rest.size() > 2 && rest[0] > 1 ? 4 : 2;
  if (rest.size() < 2 + length_bytes)
    return bad_input("the NPY file is truncated: it ends before the length of its header");
  if (rest[0] < 1 || rest[0] > 3)
    return bad_input("NPY version {0} cannot be read, but 1 to 3 can: save the array again with numpy.save",
                     static_cast<int>(rest[0]));
  const Scalar length_type = length_bytes == 2 ? Scalar::U16 : Scalar::U32;
  const int64_t length = decode_integer(length_type, rest.data() + 2, false);
  rest = rest.drop_front(2 + length_bytes);
  if (length > static_cast<int64_t>(rest.size()))
    return bad_input("the NPY file is truncated: it ends inside its header");

  NpyArray array;
  MINUET_TRY(HeaderParser(rest.take_front(static_cast<size_t>(length)), array).parse());
  array.data = rest.drop_front(static_cast<size_t>(length));
  int64_t needed = scalar_bytes(array.type);
  for (const int64_t extent : array.shape) {
    if (__builtin_mul_overflow(needed, extent, &needed))
      return bad_input("the shape in the NPY header is too large: the array would have 2^63 bytes or more");
  }
  if (needed > static_cast<int64_t>(array.data.size())) {
    return bad_input("the file is truncated: its header promises {0} of data, but {1}",
                     counted(needed, "byte"), bytes_follow(array.data.size()));
  }
  if (needed < static_cast<int64_t>(array.data.size())) {
    return bad_input("the header promises {0} of data, but {1}: the header or the data is wrong",
                     counted(needed, "byte"), bytes_follow(array.data.size()));
  }
  return array;
}

llvm::Expected<Cloud> read_npy_coordinates(llvm::StringRef bytes, int ndim) {
  MINUET_ASSIGN(NpyArray array, parse_matrix(bytes, WantedFile::Array));
  const int64_t columns = array.shape[1];
  if (!is_integer(array.type)) {
    return bad_input("voxel coordinates must be integers, but this array holds {0}", scalar_name(array.type));
  }
  if (columns != ndim && columns != ndim + 1) {
    return bad_input(
        "voxel coordinates must be [N, {0}], or [N, {1}] with the batch index first, but this array is [{2}, "
        "{3}]",
        ndim, ndim + 1, array.shape[0], columns);
  }
  Cloud cloud;
  cloud.is_voxels = true;
  cloud.ndim = ndim;
  cloud.voxels.assign(static_cast<size_t>(array.shape[0] * (1 + ndim)), 0);
  // `skip` is 1 if the file has no column for the batch index, which is then 0.
  const int64_t skip = 1 + ndim - columns;
  for (int64_t row = 0; row < array.shape[0]; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t value = decode_integer(array.type, array.at(row, column), array.big_endian);
      if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
        return bad_input("coordinate {0} in row {1} is outside int32: move the voxels nearer to 0",
                         scalar_text(array.type, array.at(row, column), array.big_endian), row);
      }
      if (value < 0 && skip == 0 && column == 0) {
        return bad_input("the batch index {0} in row {1} is negative: batch indices start at 0", value, row);
      }
      cloud.voxels[static_cast<size_t>(row * (1 + ndim) + skip + column)] = static_cast<int32_t>(value);
    }
  }
  return cloud;
}

llvm::Expected<Cloud> read_npy(llvm::StringRef bytes, std::optional<int> intensity_column) {
  MINUET_ASSIGN(NpyArray array, parse_matrix(bytes, WantedFile::PointBytes));
  if (is_integer(array.type)) {
    if (intensity_column)
      return bad_input(
          "--intensity-column is for points, but the array has integers, so it holds voxels: omit the flag");
    return read_npy_coordinates(bytes, 3);
  }
  const int64_t columns = array.shape[1];
  if (columns < 3) {
    return bad_input("points must be [N, 3 or more] floats, but this array is [{0}, {1}]", array.shape[0],
                     columns);
  }
  if (columns > kMostColumns)
    return bad_input("the array has {0} columns, but at most {1} can be read", columns, kMostColumns);
  if (columns > kManyColumns && array.shape[0] < columns) {
    return bad_input(
        "points are rows, but this array has {0} rows of {1} columns, so it seems to be transposed: "
        "transpose it back",
        array.shape[0], columns);
  }
  MINUET_ASSIGN(std::vector<CloudField> fields, unnamed_fields(columns, array.type, intensity_column));
  CloudBuilder builder(std::move(fields));
  builder.reserve(static_cast<size_t>(array.shape[0]));
  for (int64_t row = 0; row < array.shape[0]; ++row) {
    builder.add_point();
    for (int64_t column = 0; column < columns; ++column) {
      builder.add(static_cast<size_t>(column), array.at(row, column), array.big_endian);
    }
  }
  return finish_unnamed(builder);
}

llvm::Expected<Cloud> read_npy(llvm::StringRef bytes) { return read_npy(bytes, std::nullopt); }

llvm::Expected<std::vector<float>> read_npy_matrix(llvm::StringRef bytes, int64_t& rows, int64_t& columns) {
  MINUET_ASSIGN(NpyArray array, parse_matrix(bytes, WantedFile::Array));
  rows = array.shape[0];
  columns = array.shape[1];
  if (columns == 0) return bad_input("the array has no columns, but features need at least one");
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const double value = decode_scalar(array.type, array.at(row, column), array.big_endian);
      values.push_back(static_cast<float>(value));
    }
  }
  return values;
}

}  // namespace minuet::tool
