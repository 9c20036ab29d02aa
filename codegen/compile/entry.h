// Encodes an entry of the kernel cache as bytes that describe themselves and are checked when they are read.
// The functions are pure.
//
// An entry has a magic number, the format version, sizes, and the SHA-256 of everything that follows: a JSON
// manifest (keys, names, registers, log) and the cubin. The cubin is in a zstd frame, or uncompressed if
// compression does not make it shorter.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "codegen/compile/compiler.h"

namespace minuet {

/// The format version is also part of the name of the kernel cache's root folder, so each version has its own
/// folder and entries.
inline constexpr int kEntryFormat = 1;

struct Entry {
  std::string request_key;
  std::string build_key;
  std::string name_expression;  // The expression's lowered name is binary.lowered_name.
  Binary binary;
};

std::string write_entry(const Entry& entry);

/// Returns the entry without its cubin as JSON.
std::string write_manifest(const Entry& entry);
/// Reads the JSON of write_manifest() into `entry`. The text may come from an untrusted source. Returns
/// FailedPrecondition if the text is not JSON, and InvalidArgument if a required field is missing.
llvm::Error read_manifest(llvm::StringRef text, Entry& entry);

/// Checks the cubin against the manifest: its ELF tables, its SM number and the kernel's name. If the binary
/// is PTX, checks that it is text and has the right target and kernel; only the driver can tell whether it
/// compiles.
llvm::Error check_cubin(const Entry& entry);

/// Returns the entry if the bytes are complete. Checks the magic number, the version, the sizes, the digest,
/// the manifest and the cubin (check_cubin()).
llvm::Expected<Entry> read_entry(llvm::StringRef bytes);

}  // namespace minuet
