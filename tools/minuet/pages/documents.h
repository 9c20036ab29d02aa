// Converts result files to the documents that the page of `minuet report` shows, and makes that page.
#pragma once

#include <string>
#include <utility>
#include <vector>

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
/// `minuet bench --output`, `minuet run --json` and `minuet quantize --json`. Any other JSON is an error that
/// names these four programs.
llvm::Expected<llvm::json::Object> document_of(llvm::StringRef file, const llvm::json::Value& value);

/// Tells whether the file is a result of `minuet quantize`.
bool is_quantization(const llvm::json::Object& file);
/// Returns its title, notes, plots and tables.
llvm::json::Object quantization_document(const llvm::json::Object& file);

/// Returns the page of `minuet report` with these documents. `version` is that of the tool. Returns an error
/// if the tool was built without D3.
llvm::Expected<std::string> report_page(llvm::StringRef title, llvm::StringRef version,
                                        llvm::json::Array documents);

/// Returns those elements of the array `name` that are objects.
std::vector<const llvm::json::Object*> objects_in(const llvm::json::Object& file, llvm::StringRef name);

/// Lists the name of each column, and the path of its value in a record, such as "a.b".
using Columns = std::vector<std::pair<const char*, const char*>>;
/// Returns a table with a row for each record. Cells of a list have its elements, joined.
llvm::json::Object table_of(llvm::StringRef title, const std::vector<const llvm::json::Object*>& records,
                            const Columns& columns);

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
