// Declares the interface of a compiler, which turns a request into a binary. The library implements it in
// helper_compiler.cc, and the helper program implements it in nvrtc.cc. Tests use fakes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/cancel_token.h"
#include "codegen/base/error.h"
#include "codegen/source/keys.h"

namespace minuet {

/// Holds a compiled kernel and those of its properties that are known without a GPU. It does not change after
/// the compile.
struct Binary {
  /// Holds a cubin, or PTX if `arch` is virtual ("compute_90"). For PTX the numbers below are 0, because they
  /// are known only after loading.
  std::string cubin;
  std::string display_name;
  std::string lowered_name;  // This is the symbol of the binary's only kernel.
  std::string arch;          // An example is "sm_90a".
  int registers = 0;         // Each thread uses this many registers.
  int shared_bytes = 0;      // Each block uses this much static shared memory.
  int local_bytes = 0;       // Each thread uses this much local memory for spills and its stack.
  int max_threads = 0;       // A block has at most this many threads.
  int params_bytes = 0;
  std::string log;
  double compile_ms = 0;
  std::string compiler_id;  // Contains the version and build ids of NVRTC.
};

class Helper;  // The class is declared in helper_compiler.h.

/// Holds the options of one compile that do not change its result.
struct CompileControl {
  /// If the token is cancelled while a helper process compiles, the process is killed and the compile returns
  /// Cancelled.
  const CancelToken* cancel = nullptr;
  /// Points to the calling thread's helper, which owns a helper process. If it is null, the compile starts a
  /// helper process for itself alone.
  Helper* helper = nullptr;
  /// If it is not null, a compile in a helper process stores the result of write_entry() there. Compilers
  /// without helper processes leave it unchanged.
  std::string* packed = nullptr;
};

struct NvrtcInfo {
  std::string path;     // This is the path of libnvrtc.
  std::string version;  // An example is "13.0".
  std::string id;       // Contains version and build ids, is part of the build key, and is never empty.
  std::vector<std::string> archs;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  /// Returns which NVRTC the compiler uses, or an error that says how to get one. After an error, a later
  /// call may succeed.
  virtual llvm::Expected<NvrtcInfo> info(const CompileControl& control = {}) = 0;
  virtual llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) = 0;
};

/// Opens libnvrtc with dlopen, and then its builtins. `library` is a path. If it is empty, the function tries
/// the path in the environment variable MINUET_NVRTC if that is set. Otherwise it searches the loader's path,
/// the usual toolkit folders and pip wheels, and tries the paths in `others` last. Returns Unavailable, with
/// the way to get the library, if it finds none. It never touches libcuda.
///
/// Only minuet-compile and tests call this function, because a fork during a compile leaves NVRTC's locks
/// held, and exit() destroys objects that its threads still use. The library uses make_helper_compiler()
/// (helper_compiler.h).
llvm::Expected<std::shared_ptr<Compiler>> open_nvrtc(llvm::StringRef library = {},
                                                     const std::vector<std::string>& others = {});

}  // namespace minuet
