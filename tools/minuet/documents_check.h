// Whether a document is of the form that the page of `minuet report` reads.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

/// One sentence where it is not: "plot 2, series 1: value 3 has no number \"y\"".
llvm::Error check_document(const llvm::json::Object& document);

}  // namespace minuet::tool
