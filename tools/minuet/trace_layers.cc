#include "tools/minuet/trace_layers.h"

#include <algorithm>

#include "codegen/json_text.h"
#include "tools/minuet/error.h"

namespace minuet::tool {
namespace {

using llvm::json::Array;
using llvm::json::Object;

constexpr int64_t kRow = 0;  // a thread's number, and no thread has it

Object span(int64_t process, const char* category, const std::string& name, double start_us,
            double duration_us) {
  return Object{{"ph", "X"},         {"cat", category}, {"name", llvm::json::fixUTF8(name)},
                {"pid", process},    {"tid", kRow},     {"ts", start_us},
                {"dur", duration_us}};
}

}  // namespace

llvm::Expected<std::string> add_device_layers(llvm::StringRef trace, const std::vector<LayerTimes>& layers) {
  MINUET_ASSIGN(llvm::json::Value value, llvm::json::parse(trace));
  Array* const events = value.getAsObject() ? value.getAsObject()->getArray("traceEvents") : nullptr;
  if (!events) return broken("the trace has no \"traceEvents\"");
  double at = -1;
  int64_t process = 0;
  for (const llvm::json::Value& entry : *events) {
    const Object* const event = entry.getAsObject();
    if (!event || text_or_empty(*event, "cat") != "run" || text_or_empty(*event, "name") != "run") continue;
    const auto start = event->getNumber("ts");
    if (!start || *start < at) continue;
    at = *start;
    process = number_or(*event, "pid", 0);
  }
  if (at < 0) return print_json(std::move(value));  // nothing ran
  events->push_back(Object{{"ph", "M"},
                           {"name", "thread_name"},
                           {"pid", process},
                           {"tid", kRow},
                           {"args", Object{{"name", "layers on the device, profiled"}}}});
  for (const LayerTimes& layer : layers) {
    const double whole = layer.gather_ms + layer.gemm_ms + layer.scatter_ms;
    events->push_back(span(process, "device layer", layer.name, at, 1000 * whole));
    for (const auto& [stage, time] : {std::pair("gather", layer.gather_ms), std::pair("gemm", layer.gemm_ms),
                                      std::pair("scatter", layer.scatter_ms)}) {
      if (time > 0) events->push_back(span(process, "device stage", stage, at, 1000 * time));
      at += 1000 * time;
    }
  }
  return print_json(std::move(value));
}

}  // namespace minuet::tool
