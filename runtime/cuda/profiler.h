// Time per stage, from pairs of events on the caller's stream. Off by default, and then free.
#pragma once

#include <cuda.h>

#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/engine.h"

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
  /// Forgets what was recorded.
  void set(bool on) {
    on_ = on;
    marks_ = 0;
  }
  /// Begins a call: where nobody asked for the times of many, the old ones make room.
  void begin() {
    if (marks_ > kMostMarks) marks_ = 0;
  }
  /// What is marked from here on belongs to this op, -1 to none.
  void set_op(i32 op) { op_ = op; }
  /// What is enqueued from here on belongs to `stage`, until the next mark. Only where on().
  llvm::Error mark(Stage stage, CUstream stream, EngineCounters& counters);
  /// Destroys the events; the device's context is current. Never fails.
  void release();
  /// Waits for the last mark, sums up, forgets.
  llvm::Expected<PassTimes> times();

 private:
  static constexpr std::size_t kMostMarks = 1 << 14;  // some forty inferences of MinkUNet42
  struct Mark {
    CUevent event = nullptr;
    Stage stage = Stage::None;
    i32 op = -1;
  };

  const Driver& driver_;
  bool on_ = false;
  i32 op_ = -1;
  std::size_t marks_ = 0;       // in use
  std::vector<Mark> recorded_;  // events are kept for the next pass
};

}  // namespace minuet
