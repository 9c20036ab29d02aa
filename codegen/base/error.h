// Defines the error type of Minuet, which has a status code, a message for the user, and a log.
#pragma once

#include <initializer_list>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet {

/// Uses the numbers of absl::StatusCode, as does minuet_status of the C ABI.
enum class StatusCode : int {
  Ok = 0,
  Cancelled = 1,
  InvalidArgument = 3,
  NotFound = 5,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
};

class StatusError : public llvm::ErrorInfo<StatusError> {
 public:
  static char ID;

  StatusError(StatusCode code, std::string message, std::string detail = {})
      : code_(code), message_(std::move(message)), detail_(std::move(detail)) {}

  StatusCode code() const { return code_; }
  std::string message() const override { return message_; }
  /// Returns the log of NVRTC or the driver, or an empty string.
  const std::string& detail() const { return detail_; }

  void log(llvm::raw_ostream& stream) const override;
  std::error_code convertToErrorCode() const override;

  /// Prepends `phrase: ` to the message.
  void annotate(llvm::StringRef phrase);

 private:
  StatusCode code_;
  std::string message_;
  std::string detail_;
};

/// Holds a number or text for the message of an error. It does not own the text.
class ErrorValue {
 public:
  ErrorValue() : ErrorValue(llvm::StringRef()) {}
  template <class Number, std::enable_if_t<std::is_integral_v<Number>, int> = 0>
  explicit ErrorValue(Number number) : kind_(std::is_signed_v<Number> ? Kind::Signed : Kind::Unsigned) {
    static_assert(!std::is_same_v<Number, bool> && !std::is_same_v<Number, char>);
    signed_ = static_cast<long long>(number);
  }
  explicit ErrorValue(double number) : kind_(Kind::Real), real_(number) {}
  explicit ErrorValue(llvm::StringRef text) : kind_(Kind::Text), text_(text) {}
  explicit ErrorValue(const std::string& text) : ErrorValue(llvm::StringRef(text)) {}
  explicit ErrorValue(const char* text) : ErrorValue(llvm::StringRef(text)) {}

  /// Prints the value in a style of llvm::formatv.
  void print(llvm::raw_ostream& stream, llvm::StringRef style) const;

 private:
  enum class Kind { Signed, Unsigned, Real, Text } kind_;
  union {
    long long signed_;
    double real_;
    llvm::StringRef text_;
  };
};

inline constexpr std::size_t kMostErrorValues = 9;

/// Implements the template below. This function is not a template itself, because a copy of its body for each
/// list of types would enlarge the library.
llvm::Error make_error(StatusCode code, const char* format, std::initializer_list<ErrorValue> values);

/// Makes an error with a formatted message, for example make_error(StatusCode::OutOfRange, "axis {0} needs
/// {1} bits", axis, bits).
template <class... Values>
llvm::Error make_error(StatusCode code, const char* format, const Values&... values) {
  static_assert(sizeof...(values) <= kMostErrorValues);
  return make_error(code, format, std::initializer_list<ErrorValue>{ErrorValue(values)...});
}

/// Returns the system's text for `error`, such as "No such file or directory", in English in every locale.
std::string system_text(const std::error_code& error);
/// Returns the system's text for a value of errno, in English in every locale.
std::string errno_text(int error);

/// Returns FailedPrecondition with a message that consists of `what: ` and the text of errno. The function
/// must be called directly after the call that failed, before errno changes.
llvm::Error make_system_error(const std::string& what);

/// Prepends `phrase: ` to the message of `error`, or returns success if `error` is success.
llvm::Error annotate(llvm::Error error, llvm::StringRef phrase);

/// Consumes `error` and returns it as a StatusError. Errors of other types get the code Internal.
StatusError take_status(llvm::Error error);

}  // namespace minuet

/// Evaluates an llvm::Error expression and returns it from the function if it is an error.
#define MINUET_TRY(expression)                                          \
  do {                                                                  \
    if (::llvm::Error minuet_error = (expression)) return minuet_error; \
  } while (false)

#define MINUET_CONCAT_INNER(a, b) a##b
#define MINUET_CONCAT(a, b) MINUET_CONCAT_INNER(a, b)
/// MINUET_ASSIGN(auto value, may_fail()) declares `value`, or returns the error from the function.
#define MINUET_ASSIGN(declaration, expression)                    \
  auto MINUET_CONCAT(minuet_expected_, __LINE__) = (expression);  \
  if (!MINUET_CONCAT(minuet_expected_, __LINE__))                 \
    return MINUET_CONCAT(minuet_expected_, __LINE__).takeError(); \
  declaration = std::move(*MINUET_CONCAT(minuet_expected_, __LINE__))
