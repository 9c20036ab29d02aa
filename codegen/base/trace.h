// Records when the steps in the start of a process begin and end, as spans that Perfetto and chrome://tracing
// can show. All functions are thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "codegen/base/error.h"
#include "codegen/base/push_list.h"

namespace minuet {

class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// Records the time from its construction to its destruction. Records nothing if `trace` is null.
  class Span {
   public:
    Span(Trace* trace, const char* category, llvm::StringRef name)
        : trace_(trace),
          category_(category),
          name_(trace ? name.str() : ""),
          start_(trace ? Clock::now() : Clock::time_point()) {}
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span() {
      if (trace_ != nullptr) trace_->add(category_, std::move(name_), start_);
    }

   private:
    Trace* trace_;
    const char* category_;
    std::string name_;
    Clock::time_point start_;
  };

  /// Writes the spans recorded so far to a file in Chrome's JSON trace format, which ui.perfetto.dev can
  /// open. The times are those of CLOCK_MONOTONIC, so that the parent process can compute how long the start
  /// of this process took. A regular file is replaced as a whole, but a pipe or device is written directly.
  llvm::Error write(const std::string& path) const;
  /// Returns the spans recorded so far in the format that write() writes.
  std::string json() const;

 private:
  struct Event {
    const char* category;
    std::string name;
    std::int64_t thread, start_us, duration_us;
  };
  void add(const char* category, std::string name, Clock::time_point start) noexcept;

  std::atomic<int> count_{0};
  PushList<Event> events_;
};

}  // namespace minuet
