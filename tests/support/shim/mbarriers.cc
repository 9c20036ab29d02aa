// Barriers that lie in shared memory and count bytes of copies too (PTX ISA, "mbarrier").
#include <algorithm>
#include <cstring>

#include "tests/support/shim/launch.h"

namespace minuet::shim {
namespace {

constexpr unsigned kMostCount = (1u << 20) - 1;  // arrivals, and bytes of one phase

/// What the barrier's 8 bytes hold: an overwritten barrier does not have it, nor one that was moved.
std::uint64_t mark_of(const void* barrier) {
  return 0x6d62617272696572ull ^ reinterpret_cast<std::uintptr_t>(barrier);
}

bool has_mark(const void* barrier) {
  std::uint64_t found = 0;
  std::memcpy(&found, barrier, sizeof found);
  return found == mark_of(barrier);
}

void arrive(Launch& launch, void* barrier, MBarrier& state) {
  if (state.pending == 0) fail("more arrivals at an mbarrier than its phase has");
  --state.pending;
  launch.settle(barrier, state);
}

/// Those of the running thread, and those of its warp that are behind its last meeting.
void check_reads(Launch& launch) {
  constexpr unsigned kWarp = 32;
  const unsigned threads = static_cast<unsigned>(launch.grid.threads);
  const unsigned first = launch.thread().index / kWarp * kWarp, end = std::min(first + kWarp, threads);
  bool has_reads = launch.thread().has_reads;
  for (unsigned t = first; t < end; ++t) has_reads = has_reads || launch.block().threads[t].met_with_reads;
  if (has_reads) {
    fail("an arrival at an mbarrier behind reads of shared memory that need a fence before it");
  }
}

void expect(MBarrier& state, unsigned bytes) {
  if (bytes > kMostCount) fail("more bytes than an mbarrier counts");
  state.bytes += bytes;
}

}  // namespace

MBarrier& Launch::mbarrier(const void* barrier) {
  const auto found = mbarriers.find(barrier);
  if (found == mbarriers.end()) fail("there is no mbarrier, or none yet");
  if (found->second.owner != running_->block) fail("the mbarrier is another block's");
  if (!has_mark(barrier)) fail("the mbarrier was overwritten");
  return found->second;
}

void Launch::settle(const void* barrier, MBarrier& state) {
  progress_ = true;
  if (state.pending != 0 || state.bytes != 0) return;
  state.pending = state.count;
  state.parity ^= 1;
  for (Thread& thread : threads) {
    if (thread.barrier == barrier && thread.parity != state.parity) make_ready(thread);
  }
}

void Launch::arrive_behind_copies(const Copy& arrival) {
  for (std::size_t i = copies.size(); i-- > 0;) {
    const Copy& copy = copies[i];
    if (copy.barrier == nullptr && copy.thread == arrival.thread && copy.number < arrival.number) land(i);
  }
  const auto found = mbarriers.find(arrival.barrier);
  if (found == mbarriers.end() || !has_mark(arrival.barrier) || found->second.pending == 0) {
    note("copies have landed, and their mbarrier is gone or awaits no arrival", arrival.thread);
    return;
  }
  --found->second.pending;
  settle(arrival.barrier, found->second);
}

void Launch::land(std::size_t index) {
  const Copy copy = copies[index];
  drop(index);
  if (copy.is_arrival) {
    arrive_behind_copies(copy);
    return;
  }
  if (copy.present) {
    std::memcpy(copy.shared, copy.global, copy.bytes);
  } else {
    std::memset(copy.shared, 0, copy.bytes);
  }
  progress_ = true;
  if (copy.barrier == nullptr) return;
  const auto found = mbarriers.find(copy.barrier);
  if (found == mbarriers.end() || !has_mark(copy.barrier)) {
    note("a bulk copy lands, and its mbarrier is gone", copy.thread);
    return;
  }
  found->second.bytes -= static_cast<long>(copy.bytes);
  settle(copy.barrier, found->second);
}

void mbarrier_init(void* barrier, unsigned count) {
  Launch& launch = *current;
  if (reinterpret_cast<std::uintptr_t>(barrier) % 8 != 0) fail("an mbarrier is aligned to 8 bytes");
  if (count == 0 || count > kMostCount) fail("a count that no mbarrier has");
  MBarrier state;
  state.count = state.pending = count;
  state.owner = &launch.block();
  state.unfenced = &launch.thread();
  if (!launch.mbarriers.emplace(barrier, state).second) fail("an mbarrier is initialised twice");
  const std::uint64_t mark = mark_of(barrier);
  std::memcpy(barrier, &mark, sizeof mark);
  launch.maybe_yield();
}

void mbarrier_init_fence() {
  for (auto& [barrier, state] : current->mbarriers) {
    if (state.unfenced == &current->thread()) state.unfenced = nullptr;
  }
}

void mbarrier_invalidate(void* barrier) {
  current->mbarrier(barrier);
  current->mbarriers.erase(barrier);
}

void mbarrier_expect(void* barrier, unsigned bytes) { expect(current->mbarrier(barrier), bytes); }

void note_shared_read() { current->thread().has_reads = true; }

void fence_shared_reads() { current->thread().has_reads = current->thread().met_with_reads = false; }

void mbarrier_arrive(void* barrier, unsigned bytes) {
  Launch& launch = *current;
  check_reads(launch);
  MBarrier& state = launch.mbarrier(barrier);
  expect(state, bytes);
  arrive(launch, barrier, state);
  launch.maybe_yield();
}

void mbarrier_arrive_remote(void* barrier, unsigned rank) {
  Launch& launch = *current;
  void* remote = map_shared(barrier, rank);
  const auto found = launch.mbarriers.find(remote);
  if (found == launch.mbarriers.end() || !has_mark(remote))
    fail("there is no mbarrier in the other block, or none yet");
  if (found->second.unfenced != nullptr && rank != launch.block().rank) {
    fail("an mbarrier that another block arrives at needs a fence after its initialisation");
  }
  arrive(launch, remote, found->second);
  launch.maybe_yield();
}

bool mbarrier_test(void* barrier, unsigned parity) {
  Launch& launch = *current;
  if (launch.mbarrier(barrier).parity != (parity & 1)) return true;
  launch.yield(false);
  return launch.mbarrier(barrier).parity != (parity & 1);
}

void mbarrier_wait(void* barrier, unsigned parity) {
  Launch& launch = *current;
  while (launch.mbarrier(barrier).parity == (parity & 1)) {
    launch.thread().barrier = barrier;
    launch.thread().parity = parity & 1;
    launch.wait("an mbarrier");
  }
}

}  // namespace minuet::shim
