#include "runtime/cuda/profiler.h"

#include <utility>

namespace minuet {

void Profiler::release() {
  for (const Mark& mark : recorded_) static_cast<void>(driver_.cuEventDestroy(mark.event));
  recorded_.clear();
  marks_ = 0;
}

llvm::Error Profiler::mark(Stage stage, CUstream stream, EngineCounters& counters) {
  if (marks_ == recorded_.size()) {
    Mark mark;
    MINUET_TRY(check(driver_, driver_.cuEventCreate(&mark.event, CU_EVENT_DEFAULT), "cuEventCreate"));
    ++counters.allocations;
    recorded_.push_back(mark);
  }
  Mark& mark = recorded_[marks_];
  mark.stage = stage;
  MINUET_TRY(check(driver_, driver_.cuEventRecord(mark.event, stream), "cuEventRecord for a stage"));
  ++marks_;
  return llvm::Error::success();
}

llvm::Expected<StageTimes> Profiler::times() {
  StageTimes times;
  const std::size_t marks = std::exchange(marks_, 0);  // forgotten whatever comes of them
  if (marks == 0) return times;
  MINUET_TRY(check(driver_, driver_.cuEventSynchronize(recorded_[marks - 1].event), "cuEventSynchronize"));
  for (std::size_t i = 0; i + 1 < marks; ++i) {
    float elapsed = 0;
    if (recorded_[i].stage == Stage::None) continue;
    MINUET_TRY(check(driver_,
                     driver_.cuEventElapsedTime(&elapsed, recorded_[i].event, recorded_[i + 1].event),
                     "cuEventElapsedTime"));
    switch (recorded_[i].stage) {
      case Stage::Sort:
        times.sort += elapsed;
        break;
      case Stage::Map:
        times.map += elapsed;
        break;
      case Stage::Gather:
        times.gather += elapsed;
        break;
      case Stage::Gemm:
        times.gemm += elapsed;
        break;
      case Stage::Scatter:
        times.scatter += elapsed;
        break;
      default:
        times.other += elapsed;
        break;
    }
  }
  return times;
}

}  // namespace minuet
