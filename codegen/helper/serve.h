// The helper's side: a process that does one job after the other, and is gone with the one that started it.
#pragma once

#include <sys/types.h>

#include <functional>

#include "codegen/helper/protocol.h"

namespace minuet {

/// Makes the kernel kill this process with its parent, for which it takes the thread that started it. False
/// where `parent` is not the parent any more.
bool follow_parent(pid_t parent);

/// Answers every job with `answer_job` until `input` ends. An error is a broken stream.
llvm::Error serve(int input, int output, const std::function<HelperAnswer(const HelperJob&)>& answer_job);

}  // namespace minuet
