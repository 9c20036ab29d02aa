// Makes bundles (R20). The same kernels in any order give the same bytes, on any host that has the same
// zstd: nothing of the time, the host or the run goes in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/compile/entry.h"

namespace minuet {

struct WrittenBundle {
  std::string sha256;  // of the whole file, 64 hex digits: what a caller may pin (R24)
  std::uint64_t bytes = 0;
  std::uint64_t raw_cubin_bytes = 0;
};

/// The bytes of a bundle. InvalidArgument, naming the kernel: an entry for another arch, one without a
/// request key, a cubin that is none, or two different kernels with one request key. Equal ones count once.
llvm::Expected<std::string> make_bundle(llvm::StringRef arch, const std::vector<Entry>& entries,
                                        llvm::StringRef tuning = {});

/// Writes them to a file of its own beside `path`, then renames it: a reader sees the old bundle or the new
/// one. The mode is what the umask makes of 0644: bundles are made to be given to others, and not to be
/// changed.
llvm::Expected<WrittenBundle> write_bundle(const std::string& path, llvm::StringRef arch,
                                           const std::vector<Entry>& entries, llvm::StringRef tuning = {});

}  // namespace minuet
