// Errors for files that are not what their names say.
#pragma once

#include <string>

#include "codegen/base/file_kind.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Names the kind of file that a reader reads.
struct ReadKind {
  FileKind kind;
  WantedFile wanted;  ///< for advice
  const char* name;   ///< "a PLY file"
};

/// Returns the error for bytes that do not begin as a file of the kind does. It says what the file is where
/// the bytes are known (codegen/base/file_kind.h), and else shows the start of `line`, which is the part of
/// the bytes that is wrong.
llvm::Error wrong_file(llvm::StringRef bytes, const ReadKind& kind, llvm::StringRef line);

/// Returns an error where the bytes of a file of float32 rows, which may begin with any bytes, are those of
/// another kind of file. `must_be_certain` passes the kinds that numbers may look like by chance.
llvm::Error refuse_other_than_rows(llvm::StringRef bytes, bool must_be_certain);

/// Reads the text of a JSON file. The error names another kind of file, and refuses a zero byte, at which the
/// library's texts end. `wanted` is "a network description" and the like.
llvm::Expected<std::string> read_json_text(const std::string& path, const char* wanted);

}  // namespace minuet::tool
