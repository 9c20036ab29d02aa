// Runs a kernel on the CPU: blocks one after another, the threads of a block as fibers with barriers.
//
//   shim::launch(&pack<PackSpec{...}>, params, {.blocks = 3, .threads = 256});
//
// Not thread-safe: one launch at a time. A block whose threads disagree about a barrier throws
// std::logic_error, where a GPU would hang.
#pragma once

#include <functional>

#include "tests/support/shim/device.h"

namespace minuet::shim {

/// In which order the threads of a block run between two barriers.
enum class Order { Ascending, Descending, Shuffled };

struct Grid {
  int blocks = 1;
  int threads = 1;  // of a block
  Order order = Order::Ascending;
};

void run_grid(const Grid& grid, const std::function<void()>& thread_body);

template <class Params>
void launch(void (*kernel)(const Params), const Params& params, const Grid& grid) {
  run_grid(grid, [&] { kernel(params); });
}

/// Grids that a kernel for any grid must give the same result on.
inline Grid small_grid(int variant, int threads) {
  constexpr int kBlocks[] = {1, 2, 5};
  return {kBlocks[variant % 3], threads, static_cast<Order>(variant % 3)};
}
constexpr int kGridVariants = 3;

}  // namespace minuet::shim
