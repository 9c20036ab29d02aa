#include "tools/minuet/progress.h"

#include <unistd.h>

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
}

void Progress::watch() {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  bool has_printed = false;
  while (!ended_.wait_for(lock, has_printed ? kPeriod : kSilence, [&] { return is_over_; })) {
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
    std::fprintf(stderr, "\r\x1b[Kminuet: %s, %lld s", what_.c_str(), static_cast<long long>(seconds));
    has_printed = true;
  }
  if (has_printed) std::fputs("\r\x1b[K", stderr);
}

}  // namespace minuet::tool
