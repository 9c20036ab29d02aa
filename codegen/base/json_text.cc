#include "codegen/base/json_text.h"

#include <vector>

#include "codegen/base/c_locale.h"
#include "codegen/base/file_kind.h"
#include "codegen/base/text_input.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet {
namespace {

/// Returns InvalidArgument if brackets nest deeper than kDeepestJson.
llvm::Error check_depth(llvm::StringRef json) {
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

/// Returns InvalidArgument if an object has a key twice. Requires that llvm::json::parse accepted `json`.
llvm::Error check_keys(llvm::StringRef json) {
  std::vector<llvm::StringSet<>> keys;  // Holds one set for each open object and array.
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '[' || json[i] == '{') keys.emplace_back();
    if (json[i] == ']' || json[i] == '}') keys.pop_back();
    if (json[i] != '"') continue;
    const std::size_t start = i;
    while (json[++i] != '"') i += json[i] == '\\';
    // Only a string before a colon is a key.
    if (json.drop_front(i + 1).ltrim().take_front(1) != ":") continue;
    const llvm::StringRef quoted = json.slice(start, i + 1);
    // The parser decodes escapes, so that "\u0061" and "a" are the same key.
    llvm::Expected<llvm::json::Value> key = llvm::json::parse(quoted);
    if (!key) return key.takeError();
    if (!keys.back().insert(*key->getAsString()).second) {
      return make_error(StatusCode::InvalidArgument,
                        "the key {0} occurs twice in one object: remove one of the two", quoted);
    }
  }
  return llvm::Error::success();
}

/// Returns InvalidArgument if 2^63 is written as a real number, because llvm::json would convert it to
/// int64_t, which is undefined behavior.
llvm::Error check_numbers(const llvm::json::Value& value) {
  if (const llvm::json::Object* const object = value.getAsObject()) {
    for (const auto& entry : *object) MINUET_TRY(check_numbers(entry.second));
  } else if (const llvm::json::Array* const array = value.getAsArray()) {
    for (const llvm::json::Value& element : *array) MINUET_TRY(check_numbers(element));
  } else if (value.getAsNumber() == 0x1p63 && !value.getAsUINT64()) {
    return make_error(StatusCode::InvalidArgument,
                      "its number 9223372036854775808 is larger than the largest "
                      "supported integer");
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text) {
  const CLocale c_locale;  // llvm::json reads numbers with strtod(), which depends on the locale.
  text = without_byte_order_mark(text);
  const llvm::StringRef start = text.ltrim().take_front(1);
  const bool is_structure = start == "{" || start == "[";
  MINUET_TRY(check_depth(text));
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed && !is_structure) {
    if (llvm::Error other = refuse_other_than_json(text, "JSON text")) {
      llvm::consumeError(parsed.takeError());
      return other;
    }
  }
  MINUET_ASSIGN(llvm::json::Value value, std::move(parsed));
  MINUET_TRY(check_keys(text));
  MINUET_TRY(check_numbers(value));
  return value;
}

std::string print_json(const llvm::json::Value& value, unsigned indent) {
  const CLocale c_locale;  // llvm::json prints numbers with snprintf(), which depends on the locale.
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream(stream, indent).value(value);
  stream.flush();
  return text;
}

std::string text_or_empty(const llvm::json::Object& object, llvm::StringRef name) {
  const auto text = object.getString(name);
  return text ? text->str() : "";
}

std::int64_t number_or(const llvm::json::Object& object, llvm::StringRef name, std::int64_t otherwise) {
  const auto number = object.getInteger(name);
  return number ? *number : otherwise;
}

}  // namespace minuet
