#include "tests/support/shim/shim.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/support/random.h"

#if defined(__SANITIZE_ADDRESS__)
#define MINUET_SHIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MINUET_SHIM_ASAN 1
#endif
#endif
#ifdef MINUET_SHIM_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

ShimIndex threadIdx, blockIdx, blockDim, gridDim;

namespace minuet::shim {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;  // touched only as far as a kernel goes

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  void* fake_stack = nullptr;  // ASan's shadow of the stack
  bool finished = false;
};

struct Scheduler {
  ucontext_t context;
  void* fake_stack = nullptr;
  const void* stack_bottom = nullptr;
  std::size_t stack_bytes = 0;
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* running = nullptr;
  const std::function<void()>* body = nullptr;
  int votes = 0, last_votes = 0;  // of __syncthreads_count
};

Scheduler& scheduler() {
  static Scheduler instance;
  return instance;
}

// ASan must be told of every change of stack, before it and after it.
void before_switch([[maybe_unused]] void** save, [[maybe_unused]] const void* bottom,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef MINUET_SHIM_ASAN
  __sanitizer_start_switch_fiber(save, bottom, bytes);
#endif
}
void after_switch([[maybe_unused]] void* saved, [[maybe_unused]] const void** bottom,
                  [[maybe_unused]] std::size_t* bytes) {
#ifdef MINUET_SHIM_ASAN
  __sanitizer_finish_switch_fiber(saved, bottom, bytes);
#endif
}

void to_scheduler(Fiber& fiber) {
  Scheduler& s = scheduler();
  before_switch(fiber.finished ? nullptr : &fiber.fake_stack, s.stack_bottom, s.stack_bytes);
  swapcontext(&fiber.context, &s.context);
  after_switch(fiber.fake_stack, &s.stack_bottom, &s.stack_bytes);
}

void fiber_main() {
  Scheduler& s = scheduler();
  after_switch(nullptr, &s.stack_bottom, &s.stack_bytes);
  Fiber& fiber = *s.running;
  (*s.body)();
  fiber.finished = true;
  to_scheduler(fiber);
}

void to_fiber(Fiber& fiber) {
  Scheduler& s = scheduler();
  s.running = &fiber;
  before_switch(&s.fake_stack, fiber.stack.get(), kStackBytes);
  swapcontext(&s.context, &fiber.context);
  after_switch(s.fake_stack, nullptr, nullptr);
}

void start(Fiber& fiber) {
  fiber.finished = false;
  fiber.fake_stack = nullptr;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
}

void run_block(int threads, const std::vector<int>& order) {
  Scheduler& s = scheduler();
  for (int t = 0; t < threads; ++t) start(*s.fibers[t]);
  for (int finished = 0; finished == 0;) {
    s.votes = 0;
    for (const int t : order) {
      threadIdx.x = static_cast<unsigned>(t);
      to_fiber(*s.fibers[t]);
      finished += s.fibers[t]->finished;
    }
    s.last_votes = s.votes;
    if (finished != 0 && finished != threads) {
      throw std::logic_error("some threads of a block ended while others wait at a barrier");
    }
  }
}

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& thread_body) {
  Scheduler& s = scheduler();
  s.body = &thread_body;
  while (static_cast<int>(s.fibers.size()) < grid.threads) s.fibers.push_back(std::make_unique<Fiber>());
  std::vector<int> order(static_cast<std::size_t>(grid.threads));
  std::iota(order.begin(), order.end(), 0);
  if (grid.order == Order::Descending) std::reverse(order.begin(), order.end());
  Random random(static_cast<std::uint64_t>(grid.threads));
  gridDim = {static_cast<unsigned>(grid.blocks), 1, 1};
  blockDim = {static_cast<unsigned>(grid.threads), 1, 1};
  for (int block = 0; block < grid.blocks; ++block) {
    blockIdx.x = static_cast<unsigned>(block);
    if (grid.order == Order::Shuffled) {
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    }
    run_block(grid.threads, order);
  }
}

}  // namespace minuet::shim

void __syncthreads() { minuet::shim::to_scheduler(*minuet::shim::scheduler().running); }

int __syncthreads_count(int predicate) {
  minuet::shim::scheduler().votes += predicate != 0;
  __syncthreads();
  return minuet::shim::scheduler().last_votes;
}
