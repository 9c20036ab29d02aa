// JSON text of others: llvm::json recurses without a limit, so the text is looked at first.
#pragma once

#include "codegen/error.h"
#include "llvm/Support/JSON.h"

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

/// What llvm::json::parse gives, for text that anybody may have written.
inline llvm::Expected<llvm::json::Value> parse_json(llvm::StringRef text) {
  MINUET_TRY(check_json_depth(text));
  return llvm::json::parse(text);
}

}  // namespace minuet
