// What a failed compile tells the user (R31). Pure: it prints nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/source/emit.h"

namespace minuet {

/// Program name of every unit: fixed, for it gets into the binary (R4).
inline constexpr const char kProgramName[] = "minuet_kernel.cu";

struct CompileFailure {
  int status = 0;           // nvrtcResult
  std::string status_name;  // "NVRTC_ERROR_COMPILATION"
  std::string log;
  std::string arch;
  std::vector<std::string> options;
  std::string request_key;         // or its first digits
  std::string compiler;            // "NVRTC 13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)"
  std::vector<std::string> archs;  // that this NVRTC knows
};

/// Whether an NVRTC that knows these architectures compiles for `arch`. One that names none may know it.
bool is_known_arch(const std::vector<std::string>& known, llvm::StringRef arch);
/// Unimplemented, where it does not. `compiler` as in CompileFailure.
StatusError unknown_arch(const std::string& compiler, llvm::StringRef arch,
                         const std::vector<std::string>& known);

/// The message says in a sentence what to do; the detail has the status, the whole log, numbered
/// source lines around each error, options, architecture, request key and how to repeat it.
/// `header` gives the text of an included file, or nothing.
StatusError compile_error(const CompileFailure& failure, const KernelSource& source,
                          const std::function<llvm::StringRef(llvm::StringRef)>& header);

}  // namespace minuet
