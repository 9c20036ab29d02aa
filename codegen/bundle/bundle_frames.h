// zstd frames of a bundle, all with one dictionary of raw content.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/compile/entry.h"

struct ZSTD_CCtx_s;
struct ZSTD_CDict_s;

namespace minuet {

/// What a kernel's frame holds: the manifest, then the cubin.
struct BundlePayload {
  std::string manifest;
  std::string cubin;
  std::string name;  // display name, "gather-f16-c128": kernels with one first word share most bytes
};

/// One kernel of each first word, the largest, which is most of what the others of it consist of. A
/// fifteenth of the raw cubins is what is left of MinkUNet42 with it, a sixth without. The order of the
/// payloads decides nothing but which of two equally large kernels is taken.
std::string choose_dictionary(const std::vector<const BundlePayload*>& payloads);

/// Compresses as small as zstd can. Not thread-safe.
class FramePacker {
 public:
  explicit FramePacker(llvm::StringRef dictionary);  // empty: none
  ~FramePacker();
  FramePacker(const FramePacker&) = delete;
  FramePacker& operator=(const FramePacker&) = delete;
  llvm::Expected<std::string> pack(llvm::StringRef bytes);

 private:
  ZSTD_CCtx_s* context_;
  ZSTD_CDict_s* dictionary_;
  bool has_dictionary_;
};

/// The `size` bytes that `frame`, of anybody's, holds with that dictionary; InvalidArgument where it holds
/// others. The caller has put a bound on `size`.
llvm::Expected<std::string> unpack_frame(llvm::StringRef frame, llvm::StringRef dictionary, std::size_t size);

}  // namespace minuet
