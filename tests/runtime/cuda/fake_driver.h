// A CUDA driver of plain functions: it loads anything but what a test told it to refuse, and counts.
//
// The table has no room for a `this`, so the state is one a process; make a FakeDriver a test, one at a time.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/cuda/driver.h"

namespace minuet {

/// What a call answers for an image; by default CUDA_SUCCESS.
using Verdict = std::function<CUresult(const std::string& image)>;

class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const Driver& table() const { return table_; }
  /// Makes a context current to this thread: a number that stands for a device.
  static void set_context(int context);
  static constexpr int kMostShared = 227 << 10;  // dynamic, of a block

  // Set before the first call.
  Verdict on_load_data, on_get_kernel, on_get_function, on_func_load;

  // What happened; read where no call is under way.
  int loads = 0;             // of cuLibraryLoadData
  int unloads = 0;           // of cuLibraryUnload
  int most_of_one = 0;       // libraries of the same image at one time
  int wrong_handles = 0;     // calls with a library, kernel or function that there is none of (any more)
  int calls_after_exit = 0;  // made although the driver was gone
  /// (context, image) whose function was loaded; the second and later times are not new.
  std::set<std::pair<int, std::string>> functions;
  std::vector<std::tuple<int, std::string, int>> shared_bytes;  // (device, image, allowed a block), in order

  std::size_t open() const { return images_.size(); }
  /// From now on every call answers CUDA_ERROR_DEINITIALIZED.
  void deinitialize();
  /// Drops what is open, as the end of a process does.
  void forget() { images_.clear(); }

 private:
  friend struct FakeCalls;
  Driver table_;
  std::mutex mutex_;
  bool gone_ = false;
  std::map<std::size_t, std::string> images_;  // of the libraries that are open, by handle
  std::size_t next_ = 1;
};

}  // namespace minuet
