// Whether this process may still compile by itself (R16, R27). Thread-safe.
//
// NVRTC has locks of its own. A process that is forked while a thread compiles inherits them locked,
// with nobody left to unlock them: its next compile would wait for ever. What is compiled in such a
// process goes through the helper program (codegen/worker).
//
// NVRTC has static objects too, which exit() destroys while other threads may be compiling with them. So
// exit() waits here for what compiles in this process, which gives up when it sees that. What cannot be
// mended from here: exit() in the milliseconds in which the loader runs NVRTC's constructors, or in which a
// first compile has made a static object and not called back yet. Where there is a helper program nothing of
// this is needed: NVRTC is opened there only.
#pragma once

#include <cstdint>

namespace minuet {

/// Marks a compile, or the opening of NVRTC, as running. The first one registers with pthread_atfork, and
/// each calls hold_exit().
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

/// From here on exit() stops at this place, until no other thread is in a CompileScope or seconds have
/// passed. It goes backwards through what was registered: to come before the destructor of a static
/// object, call this after the object was made. Again and again is fine, and costs some bytes a time.
void hold_exit();

/// True once exit() has come to hold_exit(): nothing may be compiled any more.
bool process_ends();

/// True in a process that was forked while a compile ran in its parent, and in all forked from it.
bool compiles_need_helper();

}  // namespace minuet
