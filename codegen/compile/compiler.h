// The compiler interface, request -> binary: in the library it is helper/helper_compiler.cc, in the helper
// program nvrtc.cc; tests have fakes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/cancel_token.h"
#include "codegen/base/error.h"
#include "codegen/source/keys.h"

namespace minuet {

/// A compiled kernel and what is known about it without a GPU. Immutable.
struct Binary {
  std::string cubin;  // PTX where the arch is "compute_90"; then 0 below, for nobody knows before the load
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

class Helper;  // helper/helper_compiler.h

/// What a compile does beside its work. It changes no byte of the result.
struct CompileControl {
  const CancelToken* cancel = nullptr;  // where another process compiles: ends it, as Cancelled (R17)
  Helper* helper = nullptr;             // this thread's, for many compiles; null: one for this compile alone
  std::string* packed = nullptr;        // out, where it is asked for: the bytes of write_entry, or empty
};

struct NvrtcInfo {
  std::string path;     // of libnvrtc
  std::string version;  // "13.0"
  std::string id;       // version and build-ids (R2), part of the build key; never empty
  std::vector<std::string> archs;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Which one it is. An error where there is none, with the way to get it; another time may do better.
  virtual llvm::Expected<NvrtcInfo> info(const CompileControl& control = {}) = 0;
  virtual llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) = 0;
};

/// Opens libnvrtc with dlopen (builtins first). `library`: a path, or empty to look in
/// MINUET_NVRTC, the loader's path, the usual toolkit folders and the wheels of the build, and then to take
/// one of `others`. Unavailable, with the way to get it, where there is none. Never touches libcuda (R18).
///
/// For minuet-compile and tests: a fork beside a compile leaves NVRTC's locks held, and exit() ends its
/// threads' objects under them. The library has make_helper_compiler (helper/helper_compiler.h).
llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library = {},
                                                     const std::vector<std::string>& others = {});

}  // namespace minuet
