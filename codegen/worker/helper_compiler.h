// NVRTC of a process that never opens it: the helper program tells what it is, and compiles (R2, R16, R27).
//
// NVRTC has locks, which a fork during a compile leaves held for ever, and static objects, which exit()
// destroys under the threads that compile. So neither is let into a host: where there is no helper program
// nothing is compiled.
#pragma once

#include <memory>
#include <string>

#include "codegen/compiler.h"

namespace minuet {

/// Which NVRTC there is, told by a helper that opens it, and ends. What was told is known from then on, by
/// this process; an error is not. `library`: as for open_nvrtc; where none is found and none was named, one
/// will do that this process has loaded. `helper`: the program; empty: minuet-compile beside the library.
/// Unavailable where there is no NVRTC, or the helper does not start, is lost or of another version;
/// ResourceExhausted where the system has nothing to start it with. Thread-safe: of threads that ask the
/// same, one asks and the others get what it got. Waits for no thread of a parent process.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& helper = {},
                                         const CancelToken* cancel = nullptr);

/// Identified when that is first asked for: a process that finds all in bundles, or only uses the CPU, starts
/// no helper. A compile takes a helper of its own, on whatever core is free, is over at once when it is
/// cancelled (R17), and uses no precompiled headers. Parameters and errors as above, and FailedPrecondition
/// where NVRTC is another one than was told.
std::shared_ptr<Compiler> make_helper_compiler(std::string library = {}, std::string helper = {});

}  // namespace minuet
