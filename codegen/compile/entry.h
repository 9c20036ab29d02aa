// One cache entry as bytes: self-describing and checked (R5, R7). Pure.
//
// magic, format version, sizes, SHA-256 of all that follows; then a JSON manifest (keys, names,
// registers, log) and the cubin in a zstd frame, or as it is where that is no shorter.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "codegen/compile/compiler.h"

namespace minuet {

/// Part of the root's name too (R12): another version has its own folder and its own entries.
inline constexpr int kEntryFormat = 1;

struct Entry {
  std::string request_key;
  std::string build_key;
  std::string name_expression;  // whose lowered name is binary.lowered_name
  Binary binary;
};

std::string write_entry(const Entry& entry);

/// All of an entry but its cubin, as JSON, and back. The text may be anybody's.
std::string write_manifest(const Entry& entry);
/// FailedPrecondition for text that is no JSON, InvalidArgument where a field is missing that is needed.
llvm::Error read_manifest(llvm::StringRef text, Entry& entry);

/// The cubin against the manifest: ELF tables, SM number, the kernel's name. Of PTX: text, its target, the
/// kernel's name; whether it compiles, the driver says.
llvm::Error check_cubin(const Entry& entry);

/// The entry of those bytes, where they are whole: magic, version, sizes, digest, manifest, cubin
/// (ELF tables, its SM number against the manifest's architecture, its kernel).
llvm::Expected<Entry> read_entry(llvm::StringRef bytes);

}  // namespace minuet
