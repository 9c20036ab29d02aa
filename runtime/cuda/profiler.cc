#include "runtime/cuda/profiler.h"

#include <algorithm>

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
  for (Pass* const pass : {&prepare_, &run_}) {
    for (const Mark& mark : pass->recorded) static_cast<void>(driver_.cuEventDestroy(mark.event));
    *pass = {};
  }
}

llvm::Error Profiler::mark(Stage stage, CUstream stream, EngineCounters& counters) {
  Pass& pass = timed_ == Timed::Run ? run_ : prepare_;
  if (pass.marks == pass.recorded.size()) {
    Mark mark;
    MINUET_TRY(check(driver_, driver_.cuEventCreate(&mark.event, CU_EVENT_DEFAULT), "cuEventCreate"));
    ++counters.allocations;
    pass.recorded.push_back(mark);
  }
  Mark& mark = pass.recorded[pass.marks];
  mark.stage = stage;
  mark.op = op_;
  MINUET_TRY(check(driver_, driver_.cuEventRecord(mark.event, stream), "cuEventRecord for a stage"));
  ++pass.marks;
  return llvm::Error::success();
}

llvm::Expected<PassTimes> Profiler::times() {
  PassTimes times;
  MINUET_TRY(add_times(prepare_, times));
  MINUET_TRY(add_times(run_, times));
  return times;
}

llvm::Error Profiler::add_times(const Pass& pass, PassTimes& times) const {
  if (pass.marks == 0) return llvm::Error::success();
  MINUET_TRY(
      check(driver_, driver_.cuEventSynchronize(pass.recorded[pass.marks - 1].event), "cuEventSynchronize"));
  for (std::size_t i = 0; i + 1 < pass.marks; ++i) {
    const Mark& mark = pass.recorded[i];
    float elapsed = 0;
    if (mark.stage == Stage::None) continue;
    MINUET_TRY(check(driver_, driver_.cuEventElapsedTime(&elapsed, mark.event, pass.recorded[i + 1].event),
                     "cuEventElapsedTime"));
    time_of(times.all, mark.stage) += elapsed;
    if (mark.op < 0) continue;
    times.ops.resize(std::max(times.ops.size(), static_cast<std::size_t>(mark.op) + 1));
    time_of(times.ops[mark.op], mark.stage) += elapsed;
  }
  return llvm::Error::success();
}

}  // namespace minuet
