// Errors of the tool: one sentence for the user and the exit code that goes with it.
#pragma once

#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "codegen/error.h"  // MINUET_TRY, MINUET_ASSIGN
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"

namespace minuet::tool {

constexpr int kExitBadInput = 2;  ///< The user can mend it: a flag, a file, a cloud, a missing driver.
constexpr int kExitBroken = 1;    ///< A fault of ours or of the machine.
constexpr int kExitInterrupted = 130;

inline llvm::Error user_error(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::invalid_argument));
}

/// bad_input("'{0}' has {1} bytes", path, size): exit code 2.
template <class... Values>
llvm::Error bad_input(const char* format, Values&&... values) {
  return user_error(llvm::formatv(format, std::forward<Values>(values)...).str());
}

/// The same with exit code 1.
inline llvm::Error broken(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::io_error));
}

/// The user stopped it: exit code 130, as shells have it for Ctrl-C.
inline llvm::Error interrupted(std::string sentence) {
  return llvm::make_error<llvm::StringError>(sentence, std::make_error_code(std::errc::interrupted));
}

/// As many digits as tell float32 numbers apart.
inline std::string digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

/// Puts "'path': " in front, keeping the exit code.
inline llvm::Error in_file(llvm::StringRef path, llvm::Error error) {
  if (!error) return error;
  std::error_code code;
  std::string text;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase& info) {
    code = info.convertToErrorCode();
    text = info.message();
  });
  return llvm::make_error<llvm::StringError>(("'" + path + "': " + text).str(), code);
}

}  // namespace minuet::tool
