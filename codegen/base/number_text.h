// Prints real numbers, with the same result in every locale. printf, iostreams, llvm::format and
// llvm::formatv all depend on the locale, and the host program may have set one whose decimal point is a
// comma.
#pragma once

#include <string>

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {

/// Writes a number as printf("%.<digits>f") does in the C locale, but with at most 60 digits after the point.
std::string fixed_text(double value, int digits);

/// Writes a number as printf("%.<digits>g") does in the C locale, but with at most 60 digits.
std::string general_text(double value, int digits);

/// Holds a number for llvm::formatv, which prints it with the style f<digits> (like fixed_text) or g<digits>
/// (like general_text). The default style is f2. An example is formatv("{0,8:f3} ms", real(time)).
struct Real {
  double value;
};
constexpr Real real(double value) { return {value}; }

}  // namespace minuet

template <>
struct llvm::format_provider<minuet::Real> {
  static void format(const minuet::Real& number, llvm::raw_ostream& stream, llvm::StringRef style);
};
