// Writes bundles. The bytes of a bundle depend only on the kernels, the tuning results and the version of
// zstd. They do not depend on the order of the kernels, the time, the host or the run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/compile/entry.h"

namespace minuet {

struct WrittenBundle {
  std::string sha256;  ///< Holds the digest of the whole file as 64 hex digits, as in BundlePlace.
  std::uint64_t bytes = 0;
  std::uint64_t raw_cubin_bytes = 0;
};

/// Returns the bytes of a bundle. Returns InvalidArgument, with the kernel's name, if an entry is for another
/// architecture, has no request key or has an invalid cubin, or if two different kernels have the same
/// request key. Equal entries are stored once.
llvm::Expected<std::string> make_bundle(llvm::StringRef arch, const std::vector<Entry>& entries,
                                        llvm::StringRef tuning = {});

/// Writes a bundle to a temporary file beside `path` and renames it, so that a reader sees either the old
/// bundle or the new one. The mode is 0644 less the umask, because bundles are given to other users, who must
/// not change them.
llvm::Expected<WrittenBundle> write_bundle(const std::string& path, llvm::StringRef arch,
                                           const std::vector<Entry>& entries, llvm::StringRef tuning = {});

}  // namespace minuet
