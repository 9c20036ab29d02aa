// What a launch knows: its threads, who waits for what, which copies are under way. The shim's own; kernels
// see device.h.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/shim/fiber.h"
#include "tests/support/shim/shared_memory.h"
#include "tests/support/shim/shim.h"

namespace minuet::shim {

struct Block;

/// What a thread has in a product of its warpgroup.
struct WarpgroupProduct {
  WarpgroupMultiply multiply;  // or null, and then
  WarpgroupSharedMultiply multiply_shared;
  float* sums;
  const unsigned* a;            // of `multiply`
  unsigned long long shared_a;  // of `multiply_shared`
  unsigned long long b;
  bool adds;
  unsigned group;
  /// What all threads of a warpgroup must agree about.
  bool is_same(const WarpgroupProduct& other) const {
    return multiply == other.multiply && multiply_shared == other.multiply_shared &&
           shared_a == other.shared_a && b == other.b && adds == other.adds && group == other.group;
  }
};

struct Thread {
  enum class State { Fresh, Ready, Waiting, Ended };
  State state = State::Fresh;
  unsigned index = 0;  // in its block
  Block* block = nullptr;
  std::unique_ptr<Fiber> fiber;       // from its start to its end
  const char* waits_for = nullptr;    // for reports
  const void* barrier = nullptr;      // the mbarrier it waits for,
  unsigned parity = 0;                // and the phase
  bool arrived_at_cluster = false;    // and has not waited yet
  unsigned long cluster_arrival = 0;  // at which of the cluster's barriers
  unsigned copy_groups = 0;           // committed
  bool has_reads = false;             // of shared memory since the last fence,
  bool met_with_reads = false;        // and before its warp met last
  struct {
    unsigned mask = 0;
    WarpCombine combine = nullptr;
    void* mine = nullptr;
  } meeting;
  unsigned warp_arrived = 0;               // of the first lane: who of the warp is at a meeting
  std::vector<WarpgroupProduct> products;  // under way
  bool fenced = false, committed = true;   // them
  unsigned product_groups = 0;             // committed
  unsigned warpgroup_arrived = 0;          // of the first thread: how many wait for them
};

struct Block {
  unsigned index = 0, rank = 0;
  Thread* threads = nullptr;
  int arrived = 0, ended = 0;
  int votes = 0, last_votes = 0;  // of __syncthreads_count
  bool started = false;
  SharedMemory* shared = nullptr;
};

struct MBarrier {
  unsigned count = 0;    // arrivals of a phase
  unsigned pending = 0;  // of this one
  long bytes = 0;        // of copies that it waits for
  unsigned parity = 0;
  const Block* owner = nullptr;
  const Thread* unfenced = nullptr;  // who initialised it, until its fence
};

/// An asynchronous copy under way.
struct Copy {
  void* shared;
  const void* global;
  std::size_t bytes;
  bool present;        // else zeros
  void* barrier;       // of a bulk copy, else null
  const Block* block;  // whose memory it writes
  const Thread* thread;
  unsigned group;
  /// No copy, but an arrival at the barrier behind all copies of the thread with a lower number.
  bool is_arrival = false;
  unsigned long number = 0;
};

class Launch {
 public:
  Launch(const Grid& grid, const std::function<void()>& body);
  ~Launch();
  void run();

  /// The running thread.
  Thread& thread() { return *running_; }
  Block& block() { return *running_->block; }
  /// The running thread waits until somebody makes it ready.
  void wait(const char* what);
  /// The others come first. `progress`: whether this brought the launch on; if not for long, it hangs.
  void yield(bool progress);
  /// Another order of what threads do to each other, now and then.
  void maybe_yield();
  void make_ready(Thread& thread);
  [[noreturn]] void fail(const char* what);

  Grid grid;
  Random random;
  std::vector<Block> blocks;    // of the cluster
  std::vector<Thread> threads;  // of all of them, block by block
  int arrived_at_cluster = 0;
  unsigned long cluster_barriers = 0;  // passed
  std::unordered_map<const void*, MBarrier> mbarriers;
  std::vector<Copy> copies;  // in no order
  unsigned long issued = 0;  // of them, so far

  /// Lands one of the copies under way.
  void land(std::size_t copy);
  /// The mbarrier at this address of the running thread's block, or fails.
  MBarrier& mbarrier(const void* barrier);
  /// Ends the phase where nothing is awaited any more.
  void settle(const void* barrier, MBarrier& state);

 private:
  static void fiber_main();
  void drop(std::size_t copy);
  void arrive_behind_copies(const Copy& arrival);
  void run_cluster(unsigned first_block);
  void run(Thread& thread);
  Thread* next();
  void choose_slow();
  bool new_round();
  void end(Thread& thread);
  void end_block(Block& block);
  void show(const Thread& thread);
  std::string stuck() const;
  void note(const std::string& error, const Thread* thread);
  void leave();
  bool is_over() const { return exception_ || !error_.empty(); }
  void rethrow();

  const std::function<void()>& body_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;
  std::vector<unsigned> order_;
  std::size_t position_ = 0;  // in the order
  Thread* running_ = nullptr;
  Thread* chosen_ = nullptr;  // to run next
  int ended_ = 0;
  bool progress_ = false;
  int idle_rounds_ = 0;
  unsigned slow_begin_ = 0, slow_end_ = 0;  // threads that run when no other can
  bool slow_turn_ = false;
  std::string error_;
  std::exception_ptr exception_;
};

/// Of the launch that runs, or null.
extern Launch* current;

}  // namespace minuet::shim
