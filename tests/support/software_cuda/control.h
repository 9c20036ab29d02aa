// What a test may do to the software device, and what it may ask of it. Found in the libcuda.so.1 that is
// open: on a real one find() has nothing.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <optional>

extern "C" {
/// How often the entry point was called since the last reset: "cuMemAlloc", "cuStreamSynchronize"; and
/// "programmatic launch".
std::int64_t software_cuda_calls(const char* name);
/// The `after`-th next call of the entry point (1: the next one) answers `result` and does nothing.
void software_cuda_fail(const char* name, int after, int result);
/// Waits of the host: synchronizations of streams and events, and copies that wait by themselves.
std::int64_t software_cuda_waits();
/// Device and pinned memory, streams and events made.
std::int64_t software_cuda_allocations();
/// Nothing is counted, nothing fails.
void software_cuda_reset();
/// The order of what streams leave open, from here on. What waits by now is done first.
void software_cuda_seed(std::uint64_t seed);
/// Device and pinned allocations that nobody freed.
std::int64_t software_cuda_live();
/// What has gone wrong on the device since the process began, or "".
const char* software_cuda_fault_text();
}

namespace minuet::software_cuda {

struct Control {
  decltype(&software_cuda_calls) calls;
  decltype(&software_cuda_fail) fail;
  decltype(&software_cuda_waits) waits;
  decltype(&software_cuda_allocations) allocations;
  decltype(&software_cuda_reset) reset;
  decltype(&software_cuda_seed) seed;
  decltype(&software_cuda_live) live;
  decltype(&software_cuda_fault_text) fault_text;

  static std::optional<Control> find() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    Control control = {};
    if (!library) return std::nullopt;
    bool whole = true;
    const auto get = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      whole = whole && function;
    };
    get(control.calls, "software_cuda_calls");
    get(control.fail, "software_cuda_fail");
    get(control.waits, "software_cuda_waits");
    get(control.allocations, "software_cuda_allocations");
    get(control.reset, "software_cuda_reset");
    get(control.seed, "software_cuda_seed");
    get(control.live, "software_cuda_live");
    get(control.fault_text, "software_cuda_fault_text");
    return whole ? std::optional(control) : std::nullopt;
  }
};

}  // namespace minuet::software_cuda
