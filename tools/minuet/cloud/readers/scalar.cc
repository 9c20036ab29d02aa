#include "tools/minuet/cloud/readers/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "codegen/base/file_system.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

template <class T>
T load(const char* bytes, bool big_endian) {
  char copy[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) copy[i] = bytes[big_endian ? sizeof(T) - 1 - i : i];
  T value;
  std::memcpy(&value, copy, sizeof(T));
  return value;
}

template <class T>
void store(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// Returns the value truncated to an integer and limited to the range of T. Returns 0 for NaN.
template <class T>
T clamped(double value) {
  if (!(value >= static_cast<double>(std::numeric_limits<T>::min()))) {
    return value < 0 ? std::numeric_limits<T>::min() : T{0};
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

/// Returns true if the word becomes a number when each of its characters that occurs in `from` is replaced by
/// `to`.
bool is_number_with(llvm::StringRef word, llvm::StringRef from, char to) {
  std::string changed = word.str();
  for (char& c : changed) c = from.contains(c) ? to : c;
  return changed != word && parse_double(changed);
}

/// Returns a hint about why a word is not a number, or an empty string if there is none.
std::string likely_cause(llvm::StringRef word) {
  if (is_number_with(word, ",", '.')) return "; if this is a decimal comma, write a decimal point";
  if (is_number_with(word, "dD", 'e')) return "; if this is a Fortran exponent, write it with an e";
  if (word.contains(',') || word.contains(';'))
    return "; if these are several numbers, separate them by blanks";
  return "";
}

/// Returns true if a word names an infinite number, as "-inf" does. A word such as "1e999" is only too large.
bool says_infinite(llvm::StringRef word) { return llvm::isAlpha(word.ltrim("+-").take_front(1).str()[0]); }

/// Parses the word as an integer of type T. Returns nothing if it is not an integer or is out of range.
template <class T>
std::optional<T> parse_integer(llvm::StringRef word) {
  llvm::StringRef plain = word;
  plain.consume_front("+");
  T integer = 0;
  const auto [end, error] = std::from_chars(plain.begin(), plain.end(), integer);
  const bool is_plain =
      error != std::errc::invalid_argument && end == plain.end() && word.take_front(2) != "+-";
  if (is_plain) return error == std::errc() ? std::optional<T>(integer) : std::nullopt;
  // The words "2.0" and "4e6" are integers, too.
  const std::optional<double> number = parse_double(word);
  const double least = static_cast<double>(std::numeric_limits<T>::min());
  const double past = std::ldexp(1.0, std::numeric_limits<T>::digits);
  if (!number || std::trunc(*number) != *number || !(*number >= least && *number < past)) return std::nullopt;
  return static_cast<T>(*number);
}

/// Calls `use` with a value of the C++ type that represents `type`. A float16 is represented by a uint16_t
/// with the same bits.
template <class Use>
auto with_type(Scalar type, Use use) {
  switch (type) {
    case Scalar::I8:
      return use(int8_t{});
    case Scalar::U8:
      return use(uint8_t{});
    case Scalar::I16:
      return use(int16_t{});
    case Scalar::U16:
    case Scalar::F16:
      return use(uint16_t{});
    case Scalar::I32:
      return use(int32_t{});
    case Scalar::U32:
      return use(uint32_t{});
    case Scalar::I64:
      return use(int64_t{});
    case Scalar::U64:
      return use(uint64_t{});
    case Scalar::F32:
      return use(float{});
    default:
      return use(double{});
  }
}

bool parse_integer_into(Scalar type, llvm::StringRef word, ScalarBytes& bytes) {
  return with_type(type, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) {
      const std::optional<T> integer = parse_integer<T>(word);
      if (integer) std::memcpy(bytes.data(), &*integer, sizeof(T));
      return integer.has_value();
    }
    return false;
  });
}

double largest_of(Scalar type) {
  if (type == Scalar::F16) return static_cast<double>(dtype_largest(MINUET_F16));
  return type == Scalar::F32 ? kLargestFloat : std::numeric_limits<double>::max();
}

}  // namespace

int scalar_bytes(Scalar type) {
  return with_type(type, [](auto number) { return static_cast<int>(sizeof(number)); });
}

bool is_integer(Scalar type) { return type < Scalar::F16; }

const char* scalar_name(Scalar type) {
  constexpr const char* kNames[] = {"int8",  "uint8",  "int16",   "uint16",  "int32",  "uint32",
                                    "int64", "uint64", "float16", "float32", "float64"};
  return kNames[static_cast<int>(type)];
}

int64_t decode_integer(Scalar type, const char* bytes, bool big_endian) {
  return with_type(type, [&]<class T>(T) {
    const T value = load<T>(bytes, big_endian);
    constexpr uint64_t kGreatest = std::numeric_limits<int64_t>::max();
    if constexpr (std::is_same_v<T, uint64_t>)
      return static_cast<int64_t>(value < kGreatest ? value : kGreatest);
    return static_cast<int64_t>(value);
  });
}

double decode_scalar(Scalar type, const char* bytes, bool big_endian) {
  if (type == Scalar::F16) return half_to_float(load<uint16_t>(bytes, big_endian));
  return with_type(type, [&]<class T>(T) { return static_cast<double>(load<T>(bytes, big_endian)); });
}

void append_scalar(Scalar type, const char* bytes, bool big_endian, std::string& values) {
  const auto size = static_cast<size_t>(scalar_bytes(type));
  for (size_t i = 0; i < size; ++i) values += bytes[big_endian ? size - 1 - i : i];
}

void append_scalar(Scalar type, double value, std::string& bytes) {
  if (type == Scalar::F16) return store(float_to_half(static_cast<float>(value)), bytes);
  with_type(type, [&]<class T>(T) {
    if constexpr (std::is_integral_v<T>) return store(clamped<T>(value), bytes);
    store(static_cast<T>(value), bytes);
  });
}

std::string scalar_text(Scalar type, const char* bytes, bool big_endian) {
  if (type == Scalar::U64) return std::to_string(load<uint64_t>(bytes, big_endian));
  return is_integer(type) ? std::to_string(decode_integer(type, bytes, big_endian))
                          : digits(decode_scalar(type, bytes, big_endian));
}

std::optional<double> parse_double(llvm::StringRef token) {
  if (token.consume_front("+") && token.take_front(1) == "-") return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(token.begin(), token.end(), value);
  if (token.empty() || end != token.end()) return std::nullopt;
  if (error == std::errc()) return value;
  if (error != std::errc::result_out_of_range) return std::nullopt;
  // Unlike from_chars, getAsDouble() distinguishes overflow, which gives infinity, from underflow, which
  // gives zero.
  if (token.getAsDouble(value)) return std::nullopt;
  return value;
}

std::string quoted(llvm::StringRef word) {
  constexpr size_t kShown = 40;
  return ("'" + word.take_front(kShown) + (word.size() > kShown ? "...'" : "'")).str();
}

llvm::Expected<ScalarBytes> parse_value(llvm::StringRef word, Scalar type) {
  ScalarBytes bytes = {};
  if (is_integer(type) && parse_integer_into(type, word, bytes)) return bytes;
  const std::optional<double> value = parse_double(word);
  if (!value) return bad_input("{0} is not a number{1}", quoted(word), likely_cause(word));
  if (is_integer(type)) {
    return bad_input("{0} is not a number of the type {1} that the header gives", quoted(word),
                     scalar_name(type));
  }
  std::string stored;
  append_scalar(type, *value, stored);
  std::copy(stored.begin(), stored.end(), bytes.begin());
  if (std::isinf(decode_scalar(type, bytes.data(), /*big_endian=*/false)) && !says_infinite(word)) {
    return bad_input("{0} is beyond the largest {1} number, {2}", quoted(word), scalar_name(type),
                     digits(largest_of(type)));
  }
  return bytes;
}

std::optional<int64_t> parse_count(llvm::StringRef token) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(token.begin(), token.end(), value);
  constexpr int64_t kGreatest = int64_t{1} << 62;
  if (token.empty() || error != std::errc() || end != token.end() || value < 0 || value > kGreatest) {
    return std::nullopt;
  }
  return value;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> read_file(llvm::StringRef path) {
  if (is_device(path)) return bad_input("'{0}' is a device, which cannot be read here: name a file", path);
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) return bad_input("'{0}' cannot be read: {1}", path, system_text(buffer.getError()));
  if ((*buffer)->getBufferSize() == 0) return bad_input("'{0}' is empty: name a file with content", path);
  return std::move(*buffer);
}

}  // namespace minuet::tool
