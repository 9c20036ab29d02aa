// Real numbers as text, the same in every locale: the host may have set one whose decimal point is a comma,
// and printf, iostreams, llvm::format and llvm::formatv all go by it.
#pragma once

#include <string>

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {

/// Writes a number as printf("%.<digits>f") does in the C locale.
std::string fixed_text(double value, int digits);

/// Writes a number as printf("%.<digits>g") does in the C locale.
std::string general_text(double value, int digits);

/// A number for llvm::formatv, in the style f<digits> (as fixed_text) or g<digits> (as general_text); without
/// a style it is f2. formatv("{0,8:f3} ms", real(time))
struct Real {
  double value;
};
constexpr Real real(double value) { return {value}; }

}  // namespace minuet

template <>
struct llvm::format_provider<minuet::Real> {
  static void format(const minuet::Real& number, llvm::raw_ostream& stream, llvm::StringRef style);
};
