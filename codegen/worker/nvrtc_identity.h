// NVRTC of a process that need not open it: what it is, the helper program tells (R2, R27).
#pragma once

#include <memory>
#include <string>

#include "codegen/compiler.h"

namespace minuet {

/// As nvrtc_info, from a helper that opens what this process would open, and ends; from this process where no
/// helper starts. Asked once a process: later calls are told the same. Unavailable, too, where the helper is
/// lost. `helper`: the program; empty: minuet-compile beside the library. Thread-safe; waits for no thread of
/// a parent process.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& helper = {});

/// NVRTC, identified when that is first asked for, and opened in this process only by a compile in it: a
/// process that finds all in bundles, or only uses the CPU, does neither. `library`: as for open_nvrtc.
std::shared_ptr<Compiler> make_lazy_nvrtc(std::string library);

}  // namespace minuet
