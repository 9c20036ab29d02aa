// Encodes a cache entry as self-describing, checked bytes. The functions are pure.
//
// An entry has a magic number, the format version, sizes, and the SHA-256 of everything that follows: a JSON
// manifest (keys, names, registers, log) and the cubin. The cubin is in a zstd frame, or uncompressed if that
// is not longer.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "codegen/compile/compiler.h"

namespace minuet {

/// Also part of the name of the cache's root folder, so each version has its own folder and entries.
inline constexpr int kEntryFormat = 1;

struct Entry {
  std::string request_key;
  std::string build_key;
  std::string name_expression;  // its lowered name is binary.lowered_name
  Binary binary;
};

std::string write_entry(const Entry& entry);

/// Writes and reads everything of an entry except its cubin as JSON. The text may come from an untrusted
/// source.
std::string write_manifest(const Entry& entry);
/// Returns FailedPrecondition for text that is no JSON, and InvalidArgument if a required field is missing.
llvm::Error read_manifest(llvm::StringRef text, Entry& entry);

/// Checks the cubin against the manifest: ELF tables, SM number and the kernel's name. Of PTX, checks that it
/// is text, its target and the kernel's name; only the driver can tell whether it compiles.
llvm::Error check_cubin(const Entry& entry);

/// Returns the entry if the bytes are complete: checks magic number, version, sizes, digest, manifest and
/// cubin (see check_cubin()).
llvm::Expected<Entry> read_entry(llvm::StringRef bytes);

}  // namespace minuet
