// Makes the tool's errors. Each error has one sentence for the user and determines the exit code of the
// process.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "codegen/base/error.h"  // This header defines MINUET_TRY and MINUET_ASSIGN.
#include "codegen/base/number_text.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet::tool {

/// This exit code means that the user can correct the cause, such as a flag, a file, a cloud or a missing
/// driver.
constexpr int kExitBadInput = 2;
/// This exit code means that the tool, the library or the machine failed.
constexpr int kExitBroken = 1;
constexpr int kExitInterrupted = 130;

/// Returns an error with exit code 2, which means that the user can correct the cause.
inline llvm::Error user_error(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::invalid_argument));
}

/// Returns a user_error() with a sentence that llvm::formatv makes, for example bad_input("'{0}' has {1}
/// bytes", path, size).
template <class... Values>
llvm::Error bad_input(const char* format, Values&&... values) {
  static_assert((!std::is_floating_point_v<std::decay_t<Values>> && ...),
                "the text of a floating-point value depends on the locale: use real()");
  return user_error(llvm::formatv(format, std::forward<Values>(values)...).str());
}

/// Represents a user_error() that says that memory does not suffice. It has a type of its own so that callers
/// can handle this case separately.
struct OutOfMemory : llvm::ErrorInfo<OutOfMemory, llvm::StringError> {
  inline static char ID = 0;
  explicit OutOfMemory(const std::string& sentence)
      : ErrorInfo(sentence, std::make_error_code(std::errc::invalid_argument)) {}
};

/// Returns an error with exit code 1, which means that the tool, the library or the machine failed.
inline llvm::Error broken(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::io_error));
}

/// Converts an error of codegen/ to a user_error() with the same message, for causes that the user can
/// correct.
inline llvm::Error as_user_error(llvm::Error error) {
  return error ? user_error(take_status(std::move(error)).message()) : llvm::Error::success();
}
template <class T>
llvm::Expected<T> as_user_error(llvm::Expected<T> value) {
  if (!value) return as_user_error(value.takeError());
  return value;
}

/// Returns the error for work that the user stopped. Its exit code is 130, as in shells after Ctrl-C.
inline llvm::Error interrupted(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::interrupted));
}

/// Holds the largest finite float32 number. The tool refuses features and positions beyond it.
inline constexpr double kLargestFloat = static_cast<double>(std::numeric_limits<float>::max());

/// Returns `value` as text with 9 significant digits, which are enough to tell any two float32 numbers apart.
inline std::string digits(double value) { return general_text(value, 9); }

/// Returns the count with the noun in the singular or plural, for example "1 point" or "2 points".
inline std::string counted(int64_t count, llvm::StringRef noun) {
  return (std::to_string(count) + " " + noun + (count == 1 ? "" : "s")).str();
}
/// Returns a count of bytes with its verb, for example "1 byte follows" or "2 bytes follow".
inline std::string bytes_follow(uint64_t count) {
  return counted(static_cast<int64_t>(count), "byte") + (count == 1 ? " follows" : " follow");
}

/// Replaces the text of `error` by change(text) and keeps the exit code.
template <class Change>
llvm::Error reworded(llvm::Error error, Change change) {
  if (!error) return error;
  std::error_code code;
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase& info) {
    code = info.convertToErrorCode();
    text = info.message();
  });
  return llvm::make_error<llvm::StringError>(change(text), code);
}

/// Puts "'path': " in front of the error's text.
inline llvm::Error in_file(llvm::StringRef path, llvm::Error error) {
  return reworded(std::move(error),
                  [&](const std::string& text) { return ("'" + path + "': " + text).str(); });
}

template <class T>
llvm::Expected<T> in_file(llvm::StringRef path, llvm::Expected<T> value) {
  if (!value) return in_file(path, value.takeError());
  return value;
}

/// Replaces `path` by `known` in the error's text. The user named the file `known`, and `path` is a copy or a
/// temporary file that the tool used in its place.
inline llvm::Error about_file(const std::string& path, const std::string& known, llvm::Error error) {
  return reworded(std::move(error), [&](std::string text) {
    const size_t at = text.find(path);
    return at == std::string::npos ? text : text.replace(at, path.size(), known);
  });
}

/// Replaces each control character in `text` by its code, such as \x1b, because a message may quote a file,
/// and control characters could change the state of the terminal.
inline std::string escaped(llvm::StringRef text) {
  std::string plain;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7f) {
      plain += c;
      continue;
    }
    plain += {'\\', 'x', llvm::hexdigit(code >> 4, /*LowerCase=*/true), llvm::hexdigit(code & 15, true)};
  }
  return plain;
}

}  // namespace minuet::tool
