// System calls of files that fail, for code that calls them directly and not through FileSystem. A test that
// uses it is linked by minuet_use_failing_calls() (tests/support/CMakeLists.txt), so that its own calls and
// those of every static library in it come here first. What the headers of the C library call instead of
// open, fstat and the like comes here too: variants for large files and those that check their arguments.
#pragma once

#include <string>

namespace minuet {

/// While it lives, the `at`-th of the process's calls (from 0) fails with `error`, and all are counted. A
/// close or an fsync that fails has lost half of what was written, as a network's file system may. At most
/// one lives at a time, and only one thread may be at files.
class FailingCalls {
 public:
  FailingCalls(int at, int error);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  int calls() const;
  /// The call that failed, "close"; empty where none has.
  std::string failed() const;
  /// Whether it is one that a file may not be published after: it wrote, synced or closed a file that was
  /// open for writing.
  bool lost_bytes() const;
};

/// While it lives, no call fails and none is counted: a test writes files of its own meanwhile, whose calls
/// come here as well where the standard library is a static one.
class PausedFailures {
 public:
  PausedFailures();
  ~PausedFailures();
  PausedFailures(const PausedFailures&) = delete;
  PausedFailures& operator=(const PausedFailures&) = delete;
};

}  // namespace minuet
