// Converts result files to the documents that the page of `minuet report` shows.
#pragma once

#include <utility>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

/// Converts a result file to a document:
///
///     {"title": text, "machine": {name: text or number, ...}, "notes": [text, ...],
///      "tables": [{"title": text, "columns": [text, ...], "rows": [[text, number or null, ...], ...]}, ...],
///      "plots": [{"title": text, "kind": "bar", "stacked" or "line", "x": axis, "y": axis,
///                 "series": [{"name": text, "values": [{"x": ..., "y": number, "low": ..., "high": ...},
///                 ...]}]}],
///      "claims": [{"paper": text, "here": text, "shape": text, "why": text}, ...]}
///
/// An axis is {"label": text, "log": true or false}. Bars are horizontal: x is a name and y a length. "low"
/// and "high" are the ends of a whisker and may be missing. A claim compares a paper's statement with the
/// measurement. Every member except the title may be missing.
///
/// Results of minuet-study already are such documents. The function makes plots and tables from results of
/// `minuet bench --output` and `minuet run --json`. Any other JSON is an error that names these three
/// programs.
llvm::Expected<llvm::json::Object> document_of(llvm::StringRef file, const llvm::json::Value& value);

// The following functions make the parts of a document.
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
