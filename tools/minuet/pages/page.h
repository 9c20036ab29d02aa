// Makes the HTML pages that the tool writes. A page is one file and loads nothing else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

/// Returns the embedded file with each {{name}} replaced by the value or the embedded file of that name.
std::string fill_page(llvm::StringRef file, const std::map<std::string, std::string>& values);

/// Returns the bytes of an embedded file (files.inc). They are empty if the file was missing at build time.
llvm::StringRef page_file(llvm::StringRef name);

/// Returns `text` with the special characters of HTML escaped.
std::string html_text(llvm::StringRef text);
/// Returns JSON that is safe inside a <script>, regardless of its strings.
std::string script_json(const llvm::json::Value& value);

/// Packs numbers for the page's decode() as `least + step * n` with 16 bits per number: {"least", "step",
/// "bits", "data"}, with the data in base64. Integers with a range of at most 65534 are exact, and other
/// numbers are accurate to 1/65534 of their range. NaN and infinities become 65535.
llvm::json::Object pack_numbers(const std::vector<double>& values);
/// Packs numbers like pack_numbers(), but in float32, for numbers that need more than 16 bits.
llvm::json::Object pack_floats(const std::vector<double>& values);

}  // namespace minuet::tool
