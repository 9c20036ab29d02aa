// Which NVRTC there is (R2), told by a helper that opens it.
#pragma once

#include <string>

#include "codegen/compile/compiler.h"

namespace minuet {

/// What was told is known from then on, by this process; an error is not. `library`: as for open_nvrtc; where
/// none is found and none was named, one will do that this process has loaded. `program`: the helper; empty:
/// minuet-compile beside the library. Unavailable where there is no NVRTC, or the helper does not start, is
/// lost or of another version; ResourceExhausted where the system has nothing to start it with. Thread-safe:
/// of threads that ask the same, one asks and the others get what it got. Waits for no thread of a parent
/// process. Of `control` the cancel and the helper count.
llvm::Expected<NvrtcInfo> identify_nvrtc(const std::string& library = {}, const std::string& program = {},
                                         const CompileControl& control = {});

}  // namespace minuet
