// Pages that the tool writes: one HTML file each, which loads nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

/// The file of this folder with each {{name}} replaced: by the value of that name, or by the file of that
/// name.
std::string fill_page(llvm::StringRef file, const std::map<std::string, std::string>& values);

/// The bytes of the file of that name in files.inc; none where the build had it not.
llvm::StringRef page_file(llvm::StringRef name);

/// Text of HTML.
std::string html_text(llvm::StringRef text);
/// JSON that may stand in a <script>, whatever its strings hold.
std::string script_json(const llvm::json::Value& value);

/// Numbers in 16 bits each, `least + step * n`, for the page's decode(): {"least", "step", "bits", "data"},
/// the data in base64. Integers of up to 65535 in all come back exactly, other numbers to 1/65534 of their
/// range. NaN and what is infinite is 65535.
llvm::json::Object pack_numbers(const std::vector<double>& values);
/// The same in float32, for what 16 bits do not tell apart.
llvm::json::Object pack_floats(const std::vector<double>& values);

}  // namespace minuet::tool
