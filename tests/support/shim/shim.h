// Runs a kernel on the CPU: clusters one after another, the threads of a cluster as fibers with barriers.
//
//   shim::launch(&pack<PackSpec{...}>, params, {.blocks = 3, .threads = 256});
//
// One launch at a time, from any OS thread. Where a GPU would hang, or nobody could say what it does, the
// launch throws std::logic_error: threads that disagree about a barrier, a copy off its alignment.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/support/shim/device.h"

namespace minuet::shim {

/// In which order threads run between two places where they wait; shuffled anew each time round.
enum class Order { Ascending, Descending, Shuffled };

struct Grid {
  int blocks = 1;
  int threads = 1;  // of a block
  Order order = Order::Ascending;
  int cluster = 1;       // blocks of a cluster; divides blocks
  int shared_bytes = 0;  // dynamic shared memory of a block
  /// Of shuffles, and of how late asynchronous copies land: 0 is as late as can be.
  std::uint64_t seed = 0;
};

void run_grid(const Grid& grid, const std::function<void()>& thread_body);

template <class Params>
void launch(void (*kernel)(const Params&), const Params& params, const Grid& grid) {
  run_grid(grid, [&] { kernel(params); });
}

/// Grids that a kernel for any grid must give the same result on.
inline Grid small_grid(int variant, int threads) {
  constexpr int kBlocks[] = {1, 2, 5};
  return {kBlocks[variant % 3], threads, static_cast<Order>(variant % 3)};
}
constexpr int kGridVariants = 3;

}  // namespace minuet::shim
