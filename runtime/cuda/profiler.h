// Measures the time of each stage between events on the caller's stream. Profiling is off by default, and
// then nothing is recorded.
#pragma once

#include <cuda.h>

#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/engine/engine.h"

namespace minuet {

enum class Stage : i32 { None, Sort, Map, Gather, Gemm, Scatter, Other };
inline const char* stage_name(Stage stage) {
  static constexpr const char* kNames[] = {"", "sort", "map", "gather", "gemm", "scatter", "other"};
  return kNames[static_cast<std::size_t>(stage)];
}

class Profiler {
 public:
  explicit Profiler(const Driver& driver) : driver_(driver) {}
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  bool on() const { return on_; }
  /// Returns true if the work that is enqueued now is timed.
  bool marks() const { return on_ && timed_ != Timed::Nothing; }
  /// Turns profiling on or off and discards recorded times.
  void set(bool on) {
    on_ = on;
    prepare_.marks = run_.marks = 0;
  }
  void time_as(Timed call) {
    timed_ = call;
    if (call == Timed::Prepare) prepare_.marks = 0;
    if (call == Timed::Run) run_.marks = 0;
  }
  /// Assigns the stages that are marked from now on to this op, or to none if `op` is -1.
  void set_op(i32 op) { op_ = op; }
  /// Assigns the work that follows, until the next mark, to `stage`. Call it only if marks() returns true.
  llvm::Error mark(Stage stage, CUstream stream, EngineCounters& counters);
  /// Destroys the events. The device's context must be current. It never fails.
  void release();
  /// Waits for the last marks and returns the time of each stage.
  llvm::Expected<PassTimes> times();

 private:
  struct Mark {
    CUevent event = nullptr;
    Stage stage = Stage::None;
    i32 op = -1;
  };
  /// Holds the marks of the last prepare or run, which are events at the beginning of each stage.
  struct Pass {
    std::size_t marks = 0;
    std::vector<Mark> recorded;  // The next prepare or run reuses the events of these marks.
  };
  llvm::Error add_times(const Pass& pass, PassTimes& times) const;

  const Driver& driver_;
  bool on_ = false;
  i32 op_ = -1;
  Timed timed_ = Timed::Run;
  Pass prepare_, run_;
};

}  // namespace minuet
