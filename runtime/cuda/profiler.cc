#include "runtime/cuda/profiler.h"

#include <algorithm>
#include <utility>

namespace minuet {
namespace {

double& time_of(StageTimes& times, Stage stage) {
  switch (stage) {
    case Stage::Sort:
      return times.sort;
    case Stage::Map:
      return times.map;
    case Stage::Gather:
      return times.gather;
    case Stage::Gemm:
      return times.gemm;
    case Stage::Scatter:
      return times.scatter;
    default:
      return times.other;
  }
}

}  // namespace

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
  mark.op = op_;
  MINUET_TRY(check(driver_, driver_.cuEventRecord(mark.event, stream), "cuEventRecord for a stage"));
  ++marks_;
  return llvm::Error::success();
}

llvm::Expected<PassTimes> Profiler::times() {
  PassTimes times;
  const std::size_t marks = std::exchange(marks_, 0);  // forgotten whatever comes of them
  if (marks == 0) return times;
  MINUET_TRY(check(driver_, driver_.cuEventSynchronize(recorded_[marks - 1].event), "cuEventSynchronize"));
  for (std::size_t i = 0; i + 1 < marks; ++i) {
    const Mark& mark = recorded_[i];
    float elapsed = 0;
    if (mark.stage == Stage::None) continue;
    MINUET_TRY(check(driver_, driver_.cuEventElapsedTime(&elapsed, mark.event, recorded_[i + 1].event),
                     "cuEventElapsedTime"));
    time_of(times.all, mark.stage) += elapsed;
    if (mark.op < 0) continue;
    times.ops.resize(std::max(times.ops.size(), static_cast<std::size_t>(mark.op) + 1));
    time_of(times.ops[mark.op], mark.stage) += elapsed;
  }
  return times;
}

}  // namespace minuet
