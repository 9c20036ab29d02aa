// llvm::json recurses without a limit; text from files is looked at first.
#pragma once

#include "codegen/error.h"

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

}  // namespace minuet
