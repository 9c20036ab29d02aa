// Identifies NVRTC by a helper process that opens it.
#pragma once

#include <string>

#include "codegen/compile/compiler.h"

namespace minuet {

/// Returns the NVRTC that a helper opens. A success is kept for the life of the process; an error is not.
/// `library` is as for open_nvrtc(); if it is empty and none is found, an NVRTC that this process has loaded
/// will do. An empty `program` is minuet-compile beside the library. Returns Unavailable if there is no
/// NVRTC, or if the helper does not start, is lost or belongs to another version, and ResourceExhausted if
/// the system lacks resources to start it. Thread-safe: of several threads with the same question, one asks
/// and the others wait for its answer. After a fork, never waits for a thread of the parent process. Uses
/// only `cancel` and `helper` of `control`.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& program = {},
                                         const CompileControl& control = {});

}  // namespace minuet
