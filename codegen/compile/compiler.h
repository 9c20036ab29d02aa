// The interface of a compiler, which turns a request into a binary. The library implements it in
// helper_compiler.cc and the helper program in nvrtc.cc; tests use fakes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/cancel_token.h"
#include "codegen/base/error.h"
#include "codegen/source/keys.h"

namespace minuet {

/// A compiled kernel and its properties that are known without a GPU. Immutable.
struct Binary {
  std::string cubin;  // PTX if `arch` is virtual ("compute_90"); then the numbers below are 0, because they
                      // are known only after loading
  std::string display_name;
  std::string lowered_name;  // symbol of the only kernel inside
  std::string arch;          // for example "sm_90a"
  int registers = 0;         // per thread
  int shared_bytes = 0;      // static shared memory per block
  int local_bytes = 0;       // spills and stack per thread
  int max_threads = 0;       // per block
  int params_bytes = 0;
  std::string log;
  double compile_ms = 0;
  std::string compiler_id;  // version and build ids of NVRTC
};

class Helper;  // helper_compiler.h

/// Options of one compile that do not change its result.
struct CompileControl {
  const CancelToken* cancel = nullptr;  // if a helper compiles, kills it and returns Cancelled
  Helper* helper = nullptr;             // helper of this thread; null: one for this compile alone
  std::string* packed = nullptr;        // output if not null: the bytes of write_entry, or empty
};

struct NvrtcInfo {
  std::string path;     // of libnvrtc
  std::string version;  // for example "13.0"
  std::string id;       // version and build ids, part of the build key; never empty
  std::vector<std::string> archs;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Returns which NVRTC there is, or an error that says how to get one. A later call may succeed.
  virtual llvm::Expected<NvrtcInfo> info(const CompileControl& control = {}) = 0;
  virtual llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) = 0;
};

/// Opens libnvrtc with dlopen, its builtins first. `library` is a path. If it is empty, searches
/// MINUET_NVRTC, the loader's path, the usual toolkit folders, the wheels of the build and then `others`.
/// Returns Unavailable, with the way to get the library, if there is none. Never touches libcuda.
///
/// Only minuet-compile and tests call this: a fork during a compile leaves NVRTC's locks held, and exit()
/// destroys objects that its threads still use. The library uses make_helper_compiler (helper_compiler.h).
llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library = {},
                                                     const std::vector<std::string>& others = {});

}  // namespace minuet
