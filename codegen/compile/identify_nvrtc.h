// Identifies the NVRTC that a helper process opens.
#pragma once

#include <string>

#include "codegen/compile/compiler.h"

namespace minuet {

/// Returns the NVRTC that a helper process opens. A success is kept for the life of this process, but an
/// error is not. `library` is as for open_nvrtc(). If it is empty and the helper's search finds no NVRTC, one
/// that this process has loaded is used. `program` is the helper program; if it is empty, it is
/// minuet-compile beside the library. Only `cancel` and `helper` of `control` are used.
///
/// Returns Unavailable if there is no NVRTC, or if the helper process does not start, ends without an answer
/// or belongs to another version of the library. Returns ResourceExhausted if the system lacks resources to
/// start it.
///
/// The function is thread-safe. If several threads ask for the same NVRTC, one of them asks a helper process,
/// and the others wait for its answer. After a fork, the function never waits for a thread of the parent
/// process.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& program = {},
                                         const CompileControl& control = {});

}  // namespace minuet
