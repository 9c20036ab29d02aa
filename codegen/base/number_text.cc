#include "codegen/base/number_text.h"

#include <array>
#include <charconv>

namespace minuet {
namespace {

/// A text of this length has room for the largest double, which has 309 digits before its decimal point and
/// up to kMostDigits after it.
constexpr std::size_t kMostCharacters = 400;
constexpr int kMostDigits = 60;

std::string number_text(double value, std::chars_format format, int digits) {
  std::array<char, kMostCharacters> text;
  char* const end = text.data() + text.size();
  return {text.data(), std::to_chars(text.data(), end, value, format, digits).ptr};
}

}  // namespace

std::string fixed_text(double value, int digits) {
  return number_text(value, std::chars_format::fixed, std::min(digits, kMostDigits));
}

std::string general_text(double value, int digits) {
  return number_text(value, std::chars_format::general, std::min(digits, kMostDigits));
}

}  // namespace minuet

void llvm::format_provider<minuet::Real>::format(const minuet::Real& number, llvm::raw_ostream& stream,
                                                 llvm::StringRef style) {
  const bool is_general = style.consume_front("g");
  if (!is_general) style.consume_front("f");
  int digits = 2;
  if (!style.empty()) style.getAsInteger(10, digits);
  stream << (is_general ? minuet::general_text(number.value, digits)
                        : minuet::fixed_text(number.value, digits));
}
