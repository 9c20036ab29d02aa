// The compiler interface: source -> binary. NVRTC is the one implementation; tests have another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "codegen/error.h"

namespace minuet {

/// A compiled kernel and what is known about it without a GPU. Immutable.
struct Binary {
  std::string cubin;
  std::string display_name;
  std::string lowered_name;  // symbol of the one kernel inside
  std::string arch;          // "sm_90a"
  int registers = 0;         // per thread
  int shared_bytes = 0;      // static shared memory per block
  int local_bytes = 0;       // spills and stack per thread
  int max_threads = 0;       // per block
  int params_bytes = 0;
  std::string log;
  double compile_ms = 0;
  std::string compiler_id;  // R2
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Version and build-ids (R2), part of the build key.
  virtual std::string id() const = 0;
  /// Digest of every header a compile may see, part of the request key.
  virtual std::string header_digest() const = 0;
  /// Options of a compile for `arch`, canonical, part of the request key.
  virtual std::vector<std::string> options(llvm::StringRef arch) const = 0;
  /// `seed`: first 16 hex digits of the request key, for --frandom-seed (R4).
  virtual llvm::Expected<Binary> compile(const KernelSource& source, llvm::StringRef arch,
                                         llvm::StringRef seed) = 0;
};

struct NvrtcInfo {
  std::string path;     // of libnvrtc
  std::string version;  // "13.0"
  std::vector<std::string> archs;
};

/// Opens libnvrtc with dlopen (builtins first). `library`: a path, or empty to look in
/// MINUET_NVRTC, the loader's path, the usual toolkit folders and the wheels of the build.
/// Unavailable, with the way to get it, where there is none. Never touches libcuda (R18).
llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library = {});
llvm::Expected<NvrtcInfo> nvrtc_info();

}  // namespace minuet
