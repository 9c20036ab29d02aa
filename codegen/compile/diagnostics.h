// Makes the error of a failed compile for the user. The functions are pure and print nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/emit.h"

namespace minuet {

/// Program name of every unit. It is fixed, because it becomes part of the binary.
inline constexpr const char kProgramName[] = "minuet_kernel.cu";

struct CompileFailure {
  int status = 0;           // nvrtcResult
  std::string status_name;  // for example "NVRTC_ERROR_COMPILATION"
  std::string log;
  std::string arch;
  std::vector<std::string> options;
  std::string request_key;         // or its first digits
  std::string compiler;            // for example "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)"
  std::vector<std::string> archs;  // architectures that this NVRTC supports
};

/// Returns true if an NVRTC that supports these architectures can compile for `arch`, or if it lists none.
bool is_known_arch(const std::vector<std::string>& known, llvm::StringRef arch);
/// Returns Unimplemented for an architecture that is not supported. `compiler` is as in CompileFailure.
StatusError unknown_arch(const std::string& compiler, llvm::StringRef arch,
                         const std::vector<std::string>& known);

/// Returns an error whose message says in a sentence what to do. Its detail has the status, the whole log,
/// numbered source lines around each error, options, architecture, request key and how to repeat the compile.
/// `header` returns the text of an included file, or nothing.
StatusError compile_error(const CompileFailure& failure, const KernelSource& source,
                          const std::function<llvm::StringRef(llvm::StringRef)>& header);

}  // namespace minuet
