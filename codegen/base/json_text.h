// Parses and prints JSON. The library and the tool do so only here, so that the host's locale does not affect
// numbers. Parsed text is also checked, because llvm::json recurses without a limit and silently uses the
// last of equal keys.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"

namespace minuet {

constexpr int kDeepestJson = 64;  ///< the limit of nested objects and arrays

/// Parses `text`, which may begin with a byte order mark. Returns InvalidArgument if it nests deeper than
/// kDeepestJson, if an object has a key twice, if it has the number 2^63, or if it is another known kind of
/// file, which the error then names. Returns llvm's own error for other invalid JSON. Thread-safe.
llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text);

/// Prints `value` on one line, or on several lines with `indent` blanks per level if that is not 0.
/// Thread-safe.
std::string print_json(const llvm::json::Value& value, unsigned indent = 0);

/// Returns the text of a field, or an empty string if the object has no such text.
std::string text_or_empty(const llvm::json::Object& object, llvm::StringRef name);
/// Returns the integer of a field, or `otherwise` if the object has no such integer.
std::int64_t number_or(const llvm::json::Object& object, llvm::StringRef name, std::int64_t otherwise);

}  // namespace minuet
