// Defines the scalar types of point files, and reads numbers of these types from bytes and from text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace minuet::tool {

enum class Scalar { I8, U8, I16, U16, I32, U32, I64, U64, F16, F32, F64 };

int scalar_bytes(Scalar type);
bool is_integer(Scalar type);
const char* scalar_name(Scalar type);

/// Reads one scalar at `bytes`, which need not be aligned. The result is exact, except that 64-bit integers
/// are rounded.
double decode_scalar(Scalar type, const char* bytes, bool big_endian);
/// Reads one scalar of an integer type. A U64 beyond the range of int64 gives the largest int64.
int64_t decode_integer(Scalar type, const char* bytes, bool big_endian);

/// Appends `value` to packed values of the type, in this machine's byte order. Integer types limit the value
/// to their range and store NaN as 0.
void append_scalar(Scalar type, double value, std::string& bytes);
/// Appends the scalar at `bytes` without loss to packed values of its type, in this machine's byte order.
void append_scalar(Scalar type, const char* bytes, bool big_endian, std::string& values);

/// Returns the scalar at `bytes` as text, with all digits of an integer or nine digits of a float.
std::string scalar_text(Scalar type, const char* bytes, bool big_endian);

/// Holds one scalar of any type at the start of the array, in this machine's byte order.
using ScalarBytes = std::array<char, 8>;

/// Parses all of `token` as a number and rounds it to the nearest double. Accepts "nan" and "inf".
std::optional<double> parse_double(llvm::StringRef token);
/// Parses a word as a number of the type. Integers are exact, and floats are rounded. A number beyond the
/// range of the type is an error. The error says what is wrong and suggests a cause, for example "'0,5' is
/// not a number; if this is a decimal comma, write a decimal point". The caller adds where the word is.
llvm::Expected<ScalarBytes> parse_value(llvm::StringRef word, Scalar type);
/// Returns the word in quotes for an error message, cut if it is long.
std::string quoted(llvm::StringRef word);
/// Parses all of `token` as a count, which consists of digits and is at most 2^62.
std::optional<int64_t> parse_count(llvm::StringRef token);

/// Returns the file's bytes. A missing, unreadable or empty file, a folder and a device are errors.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> read_file(llvm::StringRef path);

}  // namespace minuet::tool
