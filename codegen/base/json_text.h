// Parses and prints JSON. The library and the tool call llvm::json for this only here, so that the locale of
// the host program does not affect numbers. The parser also checks nesting and keys, because llvm::json
// recurses without a limit and silently uses the last of several equal keys.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"

namespace minuet {

constexpr int kDeepestJson = 64;  ///< Limits how deep objects and arrays nest.

/// Parses `text`, which may begin with a byte order mark. Returns InvalidArgument if the text nests deeper
/// than kDeepestJson, if an object has a key twice, or if the number 2^63 is written as a real number, which
/// llvm::json cannot convert. Also returns InvalidArgument if `text` is a known kind of file other than JSON,
/// which the error then names. Returns llvm's own error for other invalid JSON. The function is thread-safe.
llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text);

/// Prints `value` on one line if `indent` is 0, and otherwise on several lines with `indent` blanks per
/// level. The function is thread-safe.
std::string print_json(const llvm::json::Value& value, unsigned indent = 0);

/// Returns the text in the field `name`, or an empty string if the object has no such field with text.
std::string text_or_empty(const llvm::json::Object& object, llvm::StringRef name);
/// Returns the integer in the field `name`, or `otherwise` if the object has no such field with an integer.
std::int64_t number_or(const llvm::json::Object& object, llvm::StringRef name, std::int64_t otherwise);

}  // namespace minuet
