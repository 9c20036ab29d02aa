// The parts of a document (documents.h), as JSON.
#pragma once

#include <utility>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

inline llvm::json::Object axis(llvm::StringRef label, bool log = false) {
  return llvm::json::Object{{"label", label.str()}, {"log", log}};
}

inline llvm::json::Object plot(llvm::StringRef title, llvm::StringRef kind, llvm::json::Object x,
                               llvm::json::Object y, llvm::json::Array series) {
  return llvm::json::Object{{"title", title.str()},
                            {"kind", kind.str()},
                            {"x", std::move(x)},
                            {"y", std::move(y)},
                            {"series", std::move(series)}};
}

inline llvm::json::Object series(llvm::StringRef name, llvm::json::Array values) {
  return llvm::json::Object{{"name", name.str()}, {"values", std::move(values)}};
}

inline llvm::json::Object table(llvm::StringRef title, llvm::json::Array columns, llvm::json::Array rows) {
  return llvm::json::Object{
      {"title", title.str()}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

}  // namespace minuet::tool
