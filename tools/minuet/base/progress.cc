#include "tools/minuet/base/progress.h"

#include "codegen/base/number_text.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace minuet::tool {
namespace {

constexpr std::chrono::seconds kSilence{2}, kPeriod{1};

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) != 0) watcher_ = std::thread([this] { watch(); });
}

Progress::~Progress() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_all();
  watcher_.join();
}

void Progress::say(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  what_ = std::move(what);
  total_ = 0;
}

void Progress::step(int64_t done, int64_t total) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (total_ == 0 || done < done_) {
    steps_start_ = Clock::now();
    first_ = done;
  }
  last_step_ = Clock::now();
  done_ = done;
  total_ = total;
}

void Progress::ends_within(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string Progress::line(Clock::time_point now) const {
  const auto whole = [](Clock::duration time) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count());
  };
  std::string line = "minuet: " + what_ + ", " + whole(now - start_) + " s";
  if (end_) line += ", at most " + whole(std::max(*end_ - now, Clock::duration())) + " s more";
  if (total_ == 0) return line;
  const std::chrono::duration<double> steps = last_step_ - steps_start_, since = now - last_step_;
  return line + " " + step_text(first_, done_, total_, steps.count(), since.count());
}

void Progress::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  bool has_printed = false;
  while (!ended_.wait_for(lock, has_printed ? kPeriod : kSilence, [&] { return is_over_; })) {
    std::fprintf(stderr, "\r\x1b[K%s", line(Clock::now()).c_str());
    has_printed = true;
  }
  if (has_printed) std::fputs("\r\x1b[K", stderr);
}

std::string step_text(int64_t before, int64_t done, int64_t total, double seconds, double since) {
  constexpr int64_t kWidth = 20;
  std::string bar(static_cast<size_t>(done * kWidth / total), '#');
  bar.resize(kWidth, '-');
  std::string text = "[" + bar + "] " + std::to_string(done) + "/" + std::to_string(total);
  if (done <= before || seconds <= 0) return text;  // No step has ended yet, so the rate is unknown.
  const double rate = static_cast<double>(done - before) / seconds;
  const double left = std::max(0.0, static_cast<double>(total - done) / rate - since);
  text += ", " + (rate >= 1 ? fixed_text(rate, 1) + " a second" : fixed_text(1 / rate, 1) + " s each");
  return text + ", " + fixed_text(left, 0) + " s left";
}

}  // namespace minuet::tool
