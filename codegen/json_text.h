// JSON text of others: llvm::json recurses without a limit, and takes the last of equal keys in silence, so
// the text is looked at too.
#pragma once

#include <string>
#include <vector>

#include "codegen/error.h"
#include "codegen/file_kind.h"
#include "codegen/text_input.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {

constexpr int kDeepestJson = 64;

/// InvalidArgument where brackets nest deeper than anything we read does.
inline llvm::Error check_json_depth(llvm::StringRef json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) {
        return make_error(StatusCode::InvalidArgument, "its JSON nests deeper than {0} levels", kDeepestJson);
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return llvm::Error::success();
}

/// InvalidArgument where an object has a key twice. `json` is what llvm::json::parse takes.
inline llvm::Error check_json_keys(llvm::StringRef json) {
  std::vector<llvm::StringSet<>> keys;  // of every object and array that is open
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '[' || json[i] == '{') keys.emplace_back();
    if (json[i] == ']' || json[i] == '}') keys.pop_back();
    if (json[i] != '"') continue;
    const std::size_t start = i;
    while (json[++i] != '"') i += json[i] == '\\';
    if (json.drop_front(i + 1).ltrim().take_front(1) != ":") continue;  // no key
    const llvm::StringRef quoted = json.slice(start, i + 1);
    llvm::Expected<llvm::json::Value> key = llvm::json::parse(quoted);  // "\u0061" is "a"
    if (!key) return key.takeError();
    if (!keys.back().insert(*key->getAsString()).second) {
      return make_error(StatusCode::InvalidArgument, "the key {0} is there twice", quoted);
    }
  }
  return llvm::Error::success();
}

/// Parses text that anyone may have written. A byte order mark may stand in front of it. An error says what
/// the text is where it is a known kind of file and no JSON.
inline llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text) {
  text = without_byte_order_mark(text);
  const llvm::StringRef start = text.ltrim().take_front(1);
  if (start != "{" && start != "[") MINUET_TRY(refuse_other_file(text, FileKind::Json, "JSON text"));
  MINUET_TRY(check_json_depth(text));
  MINUET_ASSIGN(llvm::json::Value value, llvm::json::parse(text));
  MINUET_TRY(check_json_keys(text));
  return value;
}

/// On one line.
inline std::string print_json(llvm::json::Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

/// Fields that need not be there.
inline std::string text_or_empty(const llvm::json::Object& object, llvm::StringRef name) {
  const auto text = object.getString(name);
  return text ? text->str() : "";
}
inline std::int64_t number_or(const llvm::json::Object& object, llvm::StringRef name,
                              std::int64_t otherwise) {
  const auto number = object.getInteger(name);
  return number ? *number : otherwise;
}

}  // namespace minuet
