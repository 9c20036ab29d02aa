// Spans of a cold start, for Perfetto and chrome://tracing (R32). Thread-safe.
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

  /// A part of the trace's time, from its making to its end. Costs one comparison where `trace` is null.
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

  /// Writes the spans so far in Chrome's JSON trace format, which ui.perfetto.dev opens. Times are those of
  /// CLOCK_MONOTONIC, so that whoever started the process can tell how long that took.
  llvm::Error write(const std::string& path) const;
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
