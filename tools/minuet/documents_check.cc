#include "tools/minuet/documents_check.h"

#include <cmath>

#include "codegen/base/json_text.h"
#include "codegen/base/number_text.h"
#include "llvm/ADT/StringRef.h"
#include "tools/minuet/error.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

llvm::Error check_list(const Object& document, llvm::StringRef name,
                       llvm::function_ref<llvm::Error(const Value& entry)> check) {
  const Value* const value = document.get(name);
  if (!value) return llvm::Error::success();
  const Array* const list = value->getAsArray();
  if (!list) return bad_input("\"{0}\" is no array", name);
  for (size_t i = 0; i < list->size(); ++i) {
    llvm::Error error = check((*list)[i]);
    if (!error) continue;
    return reworded(std::move(error), [&](const std::string& text) {
      return llvm::formatv("{0}, entry {1}: {2}", name, i + 1, text).str();
    });
  }
  return llvm::Error::success();
}

llvm::Error check_text(const Value& value) {
  if (value.getAsString()) return llvm::Error::success();
  return bad_input("it is no text");
}

llvm::Error check_table(const Value& value) {
  const Object* const table = value.getAsObject();
  const Array* const columns = table ? table->getArray("columns") : nullptr;
  if (!columns || !table->getArray("rows"))
    return bad_input("a table has \"columns\" and \"rows\", both arrays");
  MINUET_TRY(check_list(*table, "columns", check_text));
  return check_list(*table, "rows", [&](const Value& row) -> llvm::Error {
    const Array* const cells = row.getAsArray();
    const size_t count = cells ? cells->size() : 0;
    if (!cells || count != columns->size()) {
      return bad_input("a row is an array of {0} cells, one a column, and this has {1}", columns->size(),
                       count);
    }
    for (const Value& cell : *cells) {
      if (cell.getAsArray() || cell.getAsObject()) return bad_input("a cell is a text, a number or null");
    }
    return llvm::Error::success();
  });
}

llvm::Error check_claim(const Value& value) {
  const Object* const claim = value.getAsObject();
  for (const char* name : {"paper", "here", "shape", "why"}) {
    if (!claim || !claim->getString(name)) return bad_input("a claim has a text \"{0}\"", name);
  }
  return llvm::Error::success();
}

llvm::Error check_axis(const Object& plot, llvm::StringRef name, bool& log) {
  const Object* const axis = plot.getObject(name);
  if (!axis || !axis->getString("label")) return bad_input("\"{0}\" is no axis, {{\"label\": text}", name);
  const auto is_log = axis->getBoolean("log");
  log = is_log && *is_log;
  return llvm::Error::success();
}

llvm::Error check_number(const Object& value, llvm::StringRef name, bool log) {
  const auto number = value.getNumber(name);
  if (!number || !std::isfinite(*number)) return bad_input("a value has no number \"{0}\"", name);
  if (log && *number <= 0)
    return bad_input("\"{0}\" is {1}, and a logarithmic axis begins above 0", name, real(*number));
  return llvm::Error::success();
}

llvm::Error check_plot(const Value& value) {
  const Object* const plot = value.getAsObject();
  const std::string kind = plot ? text_or_empty(*plot, "kind") : "";
  const bool is_line = kind == "line";
  if (!is_line && kind != "bar" && kind != "stacked") {
    return bad_input("its \"kind\" is none of bar, stacked, line");
  }
  bool x_log = false, y_log = false;
  MINUET_TRY(check_axis(*plot, "x", x_log));
  MINUET_TRY(check_axis(*plot, "y", y_log));
  if (!plot->getArray("series")) return bad_input("it has no \"series\"");
  return check_list(*plot, "series", [&](const Value& entry) -> llvm::Error {
    const Object* const series = entry.getAsObject();
    if (!series || !series->getString("name") || !series->getArray("values")) {
      return bad_input("a series has a \"name\" and an array of \"values\"");
    }
    return check_list(*series, "values", [&](const Value& point) -> llvm::Error {
      const Object* const place = point.getAsObject();
      if (!place) return bad_input("a value is {{\"x\": ..., \"y\": ...}");
      MINUET_TRY(check_number(*place, "y", y_log));
      for (const char* end : {"low", "high"}) {
        if (place->get(end)) MINUET_TRY(check_number(*place, end, y_log));
      }
      if (is_line) return check_number(*place, "x", x_log);
      if (place->getString("x")) return llvm::Error::success();
      return bad_input("the \"x\" of a bar is its name");
    });
  });
}

}  // namespace

llvm::Error check_document(const Object& document) {
  if (document.get("title") && !document.getString("title")) return bad_input("\"title\" is no text");
  if (document.get("machine") && !document.getObject("machine")) return bad_input("\"machine\" is no object");
  MINUET_TRY(check_list(document, "notes", check_text));
  MINUET_TRY(check_list(document, "claims", check_claim));
  MINUET_TRY(check_list(document, "tables", check_table));
  return check_list(document, "plots", check_plot);
}

}  // namespace minuet::tool
