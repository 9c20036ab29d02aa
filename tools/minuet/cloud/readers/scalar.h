// The scalar types of point files, and how a number is read from bytes or from text.
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

/// Reads one scalar at `bytes` (unaligned). Doubles are exact for every type but the 64-bit integers.
double decode_scalar(Scalar type, const char* bytes, bool big_endian);
/// The same for integer types; U64 past the int64 range saturates.
int64_t decode_integer(Scalar type, const char* bytes, bool big_endian);

/// Appends `value` to packed values of the type, in this machine's byte order; integers are clamped, NaN is 0
/// there.
void append_scalar(Scalar type, double value, std::string& bytes);
/// The same with the scalar at `bytes`, exactly.
void append_scalar(Scalar type, const char* bytes, bool big_endian, std::string& values);

/// Writes the scalar at `bytes` as text: every digit of an integer, and nine of a float.
std::string scalar_text(Scalar type, const char* bytes, bool big_endian);

/// Holds one scalar of any type, in this machine's byte order, at the start of the array.
using ScalarBytes = std::array<char, 8>;

/// The whole of `token` as a number, correctly rounded; "nan" and "inf" are numbers.
std::optional<double> parse_double(llvm::StringRef token);
/// Reads a word of a text as a number of the type: integers exactly, floats rounded to nearest. A number that
/// the type cannot hold is an error. The error says what is wrong with the word and what it looks like:
/// "'0,5' is no number; decimal commas?". It does not say where the word stands.
llvm::Expected<ScalarBytes> parse_value(llvm::StringRef word, Scalar type);
/// The start of a word, in quotes, as errors show it.
std::string quoted(llvm::StringRef word);
/// The whole of `token` as a count: digits only, at most 2^62.
std::optional<int64_t> parse_count(llvm::StringRef token);

/// The file's bytes; not found, a folder, a device, no permission and empty are errors.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> read_file(llvm::StringRef path);

}  // namespace minuet::tool
