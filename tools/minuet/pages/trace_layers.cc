#include "tools/minuet/pages/trace_layers.h"

#include <algorithm>

#include "codegen/base/json_text.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;

/// The row of the device in the trace has this thread number, which no thread has.
constexpr int64_t kRow = 0;

Object span(int64_t process, const char* category, const std::string& name, double start_us,
            double duration_us) {
  return Object{{"ph", "X"},         {"cat", category}, {"name", llvm::json::fixUTF8(name)},
                {"pid", process},    {"tid", kRow},     {"ts", start_us},
                {"dur", duration_us}};
}

/// Holds the start and the process of the last span with a given name. The start is -1 if there is none.
struct LastSpan {
  double start_us = -1;
  int64_t process = 0;
};

LastSpan last_span(const Array& events, llvm::StringRef name) {
  LastSpan last;
  for (const llvm::json::Value& entry : events) {
    const Object* const event = entry.getAsObject();
    if (!event || text_or_empty(*event, "cat") != "run" || text_or_empty(*event, "name") != name) continue;
    const auto start = event->getNumber("ts");
    if (!start || *start < last.start_us) continue;
    last = {*start, number_or(*event, "pid", 0)};
  }
  return last;
}

/// Appends spans to the row of the device in the trace, one after the other.
class DeviceRow {
 public:
  DeviceRow(Array& events, int64_t process) : events_(events), process_(process) {}
  /// Starts the next span at `us` or later.
  void wait_until(double us) { at_ = std::max(at_, us); }
  void add(const char* category, const std::string& name, double ms) {
    if (ms <= 0) return;
    events_.push_back(span(process_, category, name, at_, 1000 * ms));
    at_ += 1000 * ms;
  }
  void add_layer(const LayerTimes& layer) {
    const double whole = layer.gather_ms + layer.gemm_ms + layer.scatter_ms;
    events_.push_back(span(process_, "device layer", layer.name, at_, 1000 * whole));
    add("device stage", "gather", layer.gather_ms);
    add("device stage", "gemm", layer.gemm_ms);
    add("device stage", "scatter", layer.scatter_ms);
  }

 private:
  Array& events_;
  const int64_t process_;
  double at_ = 0;
};

}  // namespace

llvm::Expected<std::string> add_device_times(llvm::StringRef trace, const DeviceTimes& times) {
  MINUET_ASSIGN(llvm::json::Value value, parse_json(trace));
  Array* const events = value.getAsObject() ? value.getAsObject()->getArray("traceEvents") : nullptr;
  if (!events) return broken("the trace has no \"traceEvents\"");
  const LastSpan prepare = last_span(*events, "prepare"), run = last_span(*events, "run");
  if (run.start_us < 0) return print_json(value);  // No inference ran, so the trace stays as it is.
  events->push_back(Object{{"ph", "M"},
                           {"name", "thread_name"},
                           {"pid", run.process},
                           {"tid", kRow},
                           {"args", Object{{"name", "one inference on the device, profiled"}}}});
  DeviceRow row(*events, run.process);
  row.wait_until(prepare.start_us);
  row.add("device step", "sort", times.sort_ms);
  row.add("device step", "map", times.map_ms);
  row.wait_until(run.start_us);
  for (const LayerTimes& layer : times.layers) row.add_layer(layer);
  row.add("device step", "rows in and out", times.other_ms);
  return print_json(value);
}

}  // namespace minuet::tool
