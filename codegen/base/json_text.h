// JSON as text: the one place where the library and the tool parse and print it, so that the locale that the
// host has set reaches no number. Text that others wrote is checked first: llvm::json recurses without a
// limit, and takes the last of equal keys in silence.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/base/error.h"
#include "llvm/Support/JSON.h"

namespace minuet {

constexpr int kDeepestJson = 64;

/// Parses `text`, in front of which a byte order mark may stand. InvalidArgument where it nests deeper than
/// kDeepestJson, an object has a key twice, or the text is another known kind of file, which the error names;
/// llvm's own error where it is no JSON otherwise. Thread-safe.
llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text);

/// Prints `value` on one line, or with that many blanks for each level. Thread-safe.
std::string print_json(const llvm::json::Value& value, unsigned indent = 0);

/// The text or the number of a field that need not be there.
std::string text_or_empty(const llvm::json::Object& object, llvm::StringRef name);
std::int64_t number_or(const llvm::json::Object& object, llvm::StringRef name, std::int64_t otherwise);

}  // namespace minuet
