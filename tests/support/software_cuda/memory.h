// Memory of the software device: apart from the host's, poisoned, with guards around every allocation.
//
// An allocation has pages of its own between two that nobody may touch, and ends where the last of them ends
// (but for its alignment), so that most overruns are caught at once; the rest of its pages is filled with a
// pattern that is looked at when it is freed. The host cannot read or write any of it: the pages are open
// only while the device works. Under AddressSanitizer what is left of the pages is poisoned too. Not
// thread-safe: the driver's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "tests/support/poison.h"

namespace minuet::software_cuda {

/// Fills [memory, memory + bytes) with kPoison.
void poison(void* memory, std::size_t bytes);

class Memory {
 public:
  struct Allocation {
    std::size_t bytes = 0;
    char* pages = nullptr;  // null: pinned memory of the host's, without pages of its own
    std::size_t page_bytes = 0;
    const void* owner = nullptr;  // the context
    bool open = false;
  };

  /// Null where `limit` bytes would be passed.
  void* allocate(std::size_t bytes, const void* owner);
  void* allocate_pinned(std::size_t bytes, const void* owner);
  /// What was found wrong, or nothing; false in `known` where there is no such allocation.
  std::string release(void* memory, bool pinned, bool& known);
  /// All that belongs to a context that ends.
  void release_all(const void* owner);

  /// The allocation that holds all of [memory, memory + bytes).
  const Allocation* find(const void* memory, std::size_t bytes) const;
  bool is_pinned(const void* memory) const;
  /// What is wrong with the guards, or nothing: of the allocations that are open, for nobody writes to
  /// others.
  std::string check();

  /// Opening pages costs much, so they stay open from the first work to the end of the wait that leaves it
  /// idle, and what touches one allocation opens no other.
  void open();
  void open(const void* memory);
  void close();

  std::size_t limit = std::size_t{4} << 30;
  std::size_t count() const { return allocations_.size(); }

 private:
  static std::string check(const char* memory, const Allocation& allocation);
  static void set_open(Allocation& allocation, bool open);
  /// Its addresses are not in use again soon: who comes late meets no memory.
  void quarantine(const Allocation& allocation);

  std::map<char*, Allocation> allocations_;
  std::deque<std::pair<void*, std::size_t>> quarantine_;  // freed pages that keep their addresses a while
  std::size_t used_ = 0;
};

}  // namespace minuet::software_cuda
