// Says what is being waited for, on a terminal, where it takes long.
#pragma once

#include <condition_variable>
#include <mutex>
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

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable ended_;
  std::string what_;
  bool is_over_ = false;
  std::thread watcher_;
};

}  // namespace minuet::tool
