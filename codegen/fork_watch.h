// Whether this process may still compile by itself (R16). Thread-safe.
//
// NVRTC has locks of its own. A process that is forked while a thread compiles inherits them locked,
// with nobody left to unlock them: its next compile would wait for ever. What is compiled in such a
// process goes through the helper program (codegen/worker).
#pragma once

#include <cstdint>

namespace minuet {

/// Marks a compile, or the opening of NVRTC, as running. The first one registers with pthread_atfork.
class CompileScope {
 public:
  CompileScope();
  ~CompileScope();
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  std::uint64_t generation_;
};

/// Forks are seen from here on; the first CompileScope does it too.
void watch_forks();

/// Forks between the process that watched first and this one: another value means another process,
/// in which no thread of the earlier one goes on. 0 before that.
std::uint64_t fork_generation();

/// True in a process that was forked while a compile ran in its parent, and in all forked from it.
bool compiles_need_helper();

}  // namespace minuet
