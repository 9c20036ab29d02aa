// Says what is being waited for, on a terminal, where it takes long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace minuet::tool {

/// From two seconds on, one line on stderr that is written over once a second and wiped at the end. Nothing
/// where stderr is no terminal. Threads: say() may come from any.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string what);
  /// Of steps that take about the same time each: `done` of `total`, which may move, from the first call
  /// since say() on, or since fewer were done.
  void step(int64_t done, int64_t total);
  /// All that is waited for ends in so many seconds from now, whatever is done until then.
  void ends_within(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  /// The line, without what wipes it. The mutex is held.
  std::string line(Clock::time_point now) const;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point steps_start_, last_step_;
  int64_t first_ = 0, done_ = 0, total_ = 0;  // total_ 0: nothing is counted
  std::optional<Clock::time_point> end_;
  bool is_over_ = false;
  std::thread watcher_;
};

/// "[####----] 3/6, 1.5 a second, 2 s left": of `done` steps all but `before` took `seconds` together, and
/// the next one has gone on for `since`.
std::string step_text(int64_t before, int64_t done, int64_t total, double seconds, double since);

}  // namespace minuet::tool
