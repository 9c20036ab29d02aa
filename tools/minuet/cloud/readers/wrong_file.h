// Makes errors for files whose content does not match their names.
#pragma once

#include <string>

#include "codegen/base/file_kind.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace minuet::tool {

/// Describes the kind of file that a reader expects.
struct ReadKind {
  FileKind kind;
  WantedFile wanted;  ///< Selects the advice that the error gives for a file of another kind.
  const char* name;   ///< Names the expected kind in errors, for example "a PLY file".
};

/// Returns the error for bytes that do not begin like a file of the kind. If identify_file() recognizes the
/// bytes (codegen/base/file_kind.h), the error names the file's real kind. Otherwise it quotes the start of
/// `line`, which is the part of the bytes that is wrong.
llvm::Error wrong_file(llvm::StringRef bytes, const ReadKind& kind, llvm::StringRef line);

/// Returns an error if the bytes of a supposed file of float32 rows are another kind of file. Such rows may
/// begin with any bytes. With `must_be_certain`, the function therefore accepts bytes that look like another
/// kind of file but could also be numbers.
llvm::Error refuse_other_than_rows(llvm::StringRef bytes, bool must_be_certain);

/// Reads the text of a JSON file. `wanted` describes the file in errors, for example "a network description".
/// Another kind of file is an error, and so is a zero byte, because the library takes zero-terminated texts.
llvm::Expected<std::string> read_json_text(const std::string& path, const char* wanted);
/// Reads and parses a JSON file. The errors are those of read_json_text() and those of the parser.
llvm::Expected<llvm::json::Value> read_json(const std::string& path, const char* wanted);

}  // namespace minuet::tool
