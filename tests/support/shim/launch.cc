#include "tests/support/shim/launch.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <stdexcept>

ShimIndex threadIdx, blockIdx, blockDim, gridDim;

namespace minuet::shim {

Launch* current = nullptr;

namespace {

constexpr int kMostThreads = 1024, kMostCluster = 8, kMostShared = 227 * 1024;
constexpr int kIdleRounds = 1000;  // of polling alone, until it is for ever

/// Stacks that wait for a thread to run, over launches. Each stands at the end of fiber_main's loop.
std::vector<std::unique_ptr<Fiber>>& idle_fibers() {
  static std::vector<std::unique_ptr<Fiber>> fibers;
  return fibers;
}

/// One in how many chances to land a copy is taken; 0: none.
unsigned chance_to_land(std::uint64_t seed) {
  constexpr unsigned kChances[] = {2, 8, 64};
  return seed == 0 ? 0 : kChances[seed % 3];
}

void check(const Grid& grid) {
  if (grid.threads < 1 || grid.threads > kMostThreads || grid.blocks < 0 || grid.cluster < 1 ||
      grid.cluster > kMostCluster || grid.blocks % grid.cluster != 0 || grid.shared_bytes < 0 ||
      grid.shared_bytes > kMostShared) {
    throw std::invalid_argument("a GPU would refuse a launch of this size");
  }
}

template <class T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

}  // namespace

Launch::Launch(const Grid& launch_grid, const std::function<void()>& body)
    : grid(launch_grid),
      random(launch_grid.seed * 4096 + static_cast<std::uint64_t>(launch_grid.threads)),
      body_(body) {
  check(grid);
  if (current != nullptr) throw std::logic_error("the shim runs one launch at a time");
  for (int b = 0; b < grid.cluster; ++b) {
    shared_.push_back(std::make_unique<SharedMemory>(static_cast<std::size_t>(grid.shared_bytes)));
  }
  order_.resize(static_cast<std::size_t>(grid.cluster * grid.threads));
  threads = std::vector<Thread>(order_.size());
  blocks = std::vector<Block>(shared_.size());
  current = this;
}

Launch::~Launch() { current = nullptr; }

void Launch::run() {
  gridDim = {static_cast<unsigned>(grid.blocks), 1, 1};
  blockDim = {static_cast<unsigned>(grid.threads), 1, 1};
  std::vector<unsigned> clusters(static_cast<std::size_t>(grid.blocks / grid.cluster));
  std::iota(clusters.begin(), clusters.end(), 0u);
  if (grid.order == Order::Shuffled) shuffle(clusters, random);
  if (grid.order == Order::Descending) std::reverse(clusters.begin(), clusters.end());
  for (const unsigned cluster : clusters) run_cluster(cluster * static_cast<unsigned>(grid.cluster));
}

void Launch::run_cluster(unsigned first_block) {
  const auto per_block = static_cast<std::size_t>(grid.threads);
  for (Thread& thread : threads) thread = {};
  for (Block& block : blocks) block = {};
  for (unsigned rank = 0; rank < blocks.size(); ++rank) {
    Block& block = blocks[rank];
    block.index = first_block + rank;
    block.rank = rank;
    block.threads = &threads[rank * per_block];
    block.shared = shared_[rank].get();
    block.shared->open();
    for (unsigned t = 0; t < per_block; ++t) {
      block.threads[t].index = t;
      block.threads[t].block = &block;
    }
  }
  std::iota(order_.begin(), order_.end(), 0u);
  if (grid.order == Order::Descending) std::reverse(order_.begin(), order_.end());
  position_ = order_.size();
  ended_ = arrived_at_cluster = 0;
  progress_ = true;
  choose_slow();
  while (new_round()) {
    rethrow();
    while (Thread* thread = chosen_ != nullptr ? chosen_ : next()) {
      chosen_ = nullptr;
      run(*thread);
      rethrow();
    }
  }
}

/// A warp or a block that falls behind as far as barriers let it: what they do not hold shows.
void Launch::choose_slow() {
  slow_begin_ = slow_end_ = 0;
  slow_turn_ = false;
  if (grid.order != Order::Shuffled) return;
  const auto all = static_cast<unsigned>(threads.size()), block = static_cast<unsigned>(grid.threads);
  const unsigned unit = grid.cluster > 1 && random.below(3) == 0 ? block : 32u;
  slow_begin_ = static_cast<unsigned>(random.below(all / unit + 1)) * unit;
  slow_end_ = std::min(slow_begin_ + unit, all);
}

bool Launch::new_round() {
  if (ended_ == static_cast<int>(threads.size())) return false;
  if (progress_) {
    idle_rounds_ = 0;
    slow_turn_ = false;
  } else if (slow_begin_ < slow_end_ && !slow_turn_) {
    slow_turn_ = true;
  } else if (!copies.empty()) {
    land(random.below(copies.size()));
    slow_turn_ = false;
  } else {
    const bool polls = std::any_of(threads.begin(), threads.end(),
                                   [](const Thread& t) { return t.state == Thread::State::Ready; });
    if (!polls || ++idle_rounds_ > kIdleRounds) note("where a GPU would hang: " + stuck(), nullptr);
  }
  progress_ = false;
  position_ = 0;
  if (grid.order == Order::Shuffled) shuffle(order_, random);
  return true;
}

Thread* Launch::next() {
  const unsigned chance = copies.empty() ? 0 : chance_to_land(grid.seed);
  if (chance != 0 && random.below(chance) == 0) land(random.below(copies.size()));
  while (position_ < order_.size()) {
    const unsigned number = order_[position_++];
    if (!slow_turn_ && number >= slow_begin_ && number < slow_end_) continue;
    Thread& thread = threads[number];
    if (thread.state == Thread::State::Fresh || thread.state == Thread::State::Ready) return &thread;
  }
  return nullptr;
}

void Launch::show(const Thread& thread) {
  threadIdx.x = thread.index;
  blockIdx.x = thread.block->index;
}

void Launch::run(Thread& thread) {
  if (!thread.fiber) {
    std::vector<std::unique_ptr<Fiber>>& idle = idle_fibers();
    if (idle.empty()) idle.push_back(std::make_unique<Fiber>(fiber_main));
    thread.fiber = std::move(idle.back());
    idle.pop_back();
  }
  running_ = &thread;
  show(thread);
  Fiber& fiber = *thread.fiber;
  fiber.resume();
  Thread& last = *running_;  // the stack may have gone on to others
  if (last.state == Thread::State::Ended && last.fiber) idle_fibers().push_back(std::move(last.fiber));
}

/// Threads one after another: what waits nowhere costs no switch.
void Launch::fiber_main() {
  for (;;) {
    Launch& launch = *current;
    Thread* thread = launch.running_;
    thread->block->started = launch.progress_ = true;
    try {
      launch.body_();
    } catch (...) {
      launch.exception_ = std::current_exception();
    }
    launch.end(*thread);
    Thread* next = launch.is_over() ? nullptr : launch.next();
    if (next != nullptr && next->state == Thread::State::Fresh) {
      next->fiber = std::move(thread->fiber);
      launch.running_ = next;
      launch.show(*next);
      continue;
    }
    launch.chosen_ = next;
    Fiber& fiber = *thread->fiber;
    fiber.suspend();
  }
}

void Launch::end(Thread& thread) {
  thread.state = Thread::State::Ended;
  progress_ = true;
  ++ended_;
  if (!thread.products.empty())
    note("a thread ended while products of its warpgroup were under way", &thread);
  if (++thread.block->ended == grid.threads) end_block(*thread.block);
}

void Launch::drop(std::size_t copy) {
  copies[copy] = copies.back();
  copies.pop_back();
}

void Launch::end_block(Block& block) {
  for (std::size_t i = copies.size(); i-- > 0;) {
    if (copies[i].block != &block) continue;
    if (copies[i].barrier != nullptr)
      note("the block ended while a bulk copy to its memory was under way", nullptr);
    drop(i);
  }
  for (auto barrier = mbarriers.begin(); barrier != mbarriers.end();) {
    barrier = barrier->second.owner == &block ? mbarriers.erase(barrier) : std::next(barrier);
  }
  if (!block.shared->close()) note("the block wrote beside its dynamic shared memory", nullptr);
}

void Launch::wait(const char* what) {
  running_->state = Thread::State::Waiting;
  running_->waits_for = what;
  progress_ = true;
  leave();
}

void Launch::yield(bool progress) {
  running_->state = Thread::State::Ready;
  progress_ = progress_ || progress;
  leave();
}

/// To the next thread, by way of run() where that has no stack yet.
void Launch::leave() {
  Fiber& own = *running_->fiber;
  Thread* const thread = is_over() ? nullptr : next();
  if (thread == nullptr || thread->fiber == nullptr) {
    chosen_ = thread;
    return own.suspend();
  }
  running_ = thread;
  show(*thread);
  own.suspend(thread->fiber.get());
}

void Launch::maybe_yield() {
  progress_ = true;
  if (grid.order == Order::Shuffled && random.below(4) == 0) yield(true);
}

void Launch::make_ready(Thread& thread) {
  thread.state = Thread::State::Ready;
  thread.barrier = nullptr;
}

void Launch::note(const std::string& error, const Thread* thread) {
  if (!error_.empty()) return;
  error_ = error;
  if (thread == nullptr) return;
  error_ +=
      " (thread " + std::to_string(thread->index) + " of block " + std::to_string(thread->block->index) + ")";
}

void Launch::fail(const char* what) {
  note(what, running_);
  running_->fiber->suspend();  // for ever: the launch is over, and nothing on this stack is destroyed
  std::abort();
}

void Launch::rethrow() {
  if (exception_) std::rethrow_exception(exception_);
  if (!error_.empty()) throw std::logic_error(error_);
}

std::string Launch::stuck() const {
  std::string text;
  for (const Block& block : blocks) {
    std::map<std::string, int> counts;
    for (int t = 0; t < grid.threads; ++t) {
      const Thread& thread = block.threads[t];
      if (thread.state == Thread::State::Waiting) ++counts[std::string("wait at ") + thread.waits_for];
      if (thread.state == Thread::State::Ready) ++counts["poll an mbarrier"];
      if (thread.state == Thread::State::Ended) ++counts["have ended"];
    }
    text += (text.empty() ? "of block " : "; of block ") + std::to_string(block.index);
    for (const auto& [what, count] : counts) text += ", " + std::to_string(count) + " threads " + what;
  }
  return text;
}

void run_grid(const Grid& grid, const std::function<void()>& thread_body) { Launch(grid, thread_body).run(); }

void fail(const char* what) { current->fail(what); }

void note_static_shared_memory() {
  if (current->grid.cluster > 1) {
    fail("static shared memory in a cluster: the shim has one copy for all blocks; use dynamic_shared()");
  }
}

void* dynamic_shared() { return current->block().shared->data(); }

}  // namespace minuet::shim
