// Shows a progress line on the terminal during work that takes long.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace minuet::tool {

/// Shows one line on stderr after two seconds, updates it once a second, and clears it in the destructor.
/// Shows nothing if stderr is not a terminal. Any thread may call say(), step() and ends_within().
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Replaces the text and resets the count of steps.
  void say(std::string what);
  /// Reports that `done` of `total` steps have ended. All steps should take about the same time, and `total`
  /// may change between calls. The rate is measured from the first call after say(), or from the last call in
  /// which `done` decreased.
  void step(int64_t done, int64_t total);
  /// Announces that the work ends at most `seconds` from now, regardless of the steps done. The line then
  /// shows this limit.
  void ends_within(double seconds);

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  /// Returns the text of the line without control characters. The caller must hold the mutex.
  std::string line(Clock::time_point now) const;

  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point steps_start_, last_step_;
  // Steps are counted only while `total_` is not 0. The rate is measured from step `first_`.
  int64_t first_ = 0, done_ = 0, total_ = 0;
  std::optional<Clock::time_point> end_;
  bool is_over_ = false;
  std::thread watcher_;
};

/// Returns a text such as "[####----] 3/6, 1.5 a second, 2 s left". The steps from `before` to `done` took
/// `seconds` in all, and the current step has run for `since` seconds.
std::string step_text(int64_t before, int64_t done, int64_t total, double seconds, double since);

}  // namespace minuet::tool
