// Compresses and decompresses the kernels of a bundle as zstd frames, which share one raw-content dictionary.
#pragma once

#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/compile/entry.h"

struct ZSTD_CCtx_s;
struct ZSTD_CDict_s;

namespace minuet {

/// Holds the uncompressed content of a kernel's zstd frame, which is the manifest (entry.h) followed by the
/// cubin.
struct BundlePayload {
  std::string manifest;
  std::string cubin;
  /// Names the kernel, for example "gather-f16-c128". Kernels whose names agree up to the first "-" share
  /// most of their bytes, so the zstd dictionary contains at most one of them.
  std::string name;
};

/// Returns a dictionary that contains the largest of the kernels whose names agree up to the first "-",
/// because such kernels share most of their bytes. Kernels that would make the dictionary larger than 1 MiB
/// are left out. The order of the payloads matters only between equally large kernels.
std::string choose_dictionary(const std::vector<const BundlePayload*>& payloads);

/// Compresses kernels to zstd frames at a high compression level. The class is not thread-safe.
class FramePacker {
 public:
  /// Compresses without a dictionary if `dictionary` is empty.
  explicit FramePacker(llvm::StringRef dictionary);
  ~FramePacker();
  FramePacker(const FramePacker&) = delete;
  FramePacker& operator=(const FramePacker&) = delete;
  llvm::Expected<std::string> pack(llvm::StringRef bytes);

 private:
  ZSTD_CCtx_s* context_;
  ZSTD_CDict_s* dictionary_;
  bool has_dictionary_;
};

/// Decompresses `frame`, which may be untrusted, to `size` bytes. Returns InvalidArgument if the frame is
/// damaged or contains another number of bytes. The caller must limit `size`, because the function allocates
/// that much memory.
llvm::Expected<std::string> unpack_frame(llvm::StringRef frame, llvm::StringRef dictionary, std::size_t size);

}  // namespace minuet
