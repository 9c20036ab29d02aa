// Makes the error that a user gets for a failed compile. The functions are pure and print nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/emit.h"

namespace minuet {

/// Every translation unit is compiled under this program name. It is fixed, because it becomes part of the
/// binary.
inline constexpr const char kProgramName[] = "minuet_kernel.cu";

struct CompileFailure {
  int status = 0;           // This is a value of nvrtcResult.
  std::string status_name;  // An example is "NVRTC_ERROR_COMPILATION".
  std::string log;
  std::string arch;
  std::vector<std::string> options;
  std::string request_key;         // Holds the request's key or its first digits.
  std::string compiler;            // An example is "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)".
  std::vector<std::string> archs;  // Lists the architectures that this NVRTC supports.
};

/// Returns true if an NVRTC that supports the architectures `known` can compile for `arch`. Returns true also
/// if `known` is empty.
bool is_known_arch(const std::vector<std::string>& known, llvm::StringRef arch);
/// Returns the Unimplemented error for an architecture that the compiler does not support. `compiler` has the
/// same form as in CompileFailure.
StatusError unknown_arch(const std::string& compiler, llvm::StringRef arch,
                         const std::vector<std::string>& known);

/// Returns an error whose message says in a sentence what to do. Its detail has the status, the whole log,
/// numbered source lines around each error, the options, the architecture, the request key and the way to
/// repeat the compile. `header` returns the text of an included file, or an empty string.
StatusError compile_error(const CompileFailure& failure, const KernelSource& source,
                          const std::function<llvm::StringRef(llvm::StringRef)>& header);

}  // namespace minuet
