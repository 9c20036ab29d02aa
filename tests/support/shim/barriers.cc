// Where threads of a block, a warp or a cluster wait for each other.
#include "tests/support/shim/launch.h"

namespace minuet::shim {
namespace {

constexpr const char* kClusterBarrier = "the cluster's barrier";

bool completes(unsigned present, unsigned mask) { return (present & mask) == mask; }

}  // namespace

void warp_meet(unsigned mask, bool whole, WarpCombine combine, void* mine) {
  Launch& launch = *current;
  Thread& own = launch.thread();
  const unsigned first = own.index & ~31u, lane = own.index & 31u;
  const unsigned lanes_there = static_cast<unsigned>(launch.grid.threads) - first;
  if (lanes_there < 32) {
    if (whole) fail("the last warp of the block is not whole, and this operation needs all 32 threads");
    mask &= (1u << lanes_there) - 1;
  }
  if ((mask >> lane & 1) == 0) fail("a thread is not in the mask of its own warp operation");
  Thread* warp = launch.block().threads + first;
  own.meeting = {mask, combine, mine};
  warp->warp_arrived |= 1u << lane;
  if (!completes(warp->warp_arrived, mask)) {
    launch.wait("a warp operation");
    return;
  }
  void* lanes[32] = {};
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (warp[i].meeting.mask != mask || warp[i].meeting.combine != combine) {
      fail("threads of a warp are at different operations, or name different masks");
    }
    lanes[i] = warp[i].meeting.mine;
    warp[i].met_with_reads = warp[i].has_reads;
  }
  combine(lanes);
  warp->warp_arrived &= ~mask;
  for (unsigned i = 0; i < 32; ++i) {
    if (lanes[i] != nullptr && i != lane) launch.make_ready(warp[i]);
  }
}

unsigned cluster_rank() { return current->block().rank; }

unsigned cluster_size() { return static_cast<unsigned>(current->grid.cluster); }

void cluster_arrive() {
  Launch& launch = *current;
  Thread& own = launch.thread();
  if (own.arrived_at_cluster) fail("a thread arrives at the cluster's barrier twice and has not waited");
  own.arrived_at_cluster = true;
  own.cluster_arrival = launch.cluster_barriers;
  if (++launch.arrived_at_cluster == static_cast<int>(launch.threads.size())) {
    launch.arrived_at_cluster = 0;
    ++launch.cluster_barriers;
    for (Thread& thread : launch.threads) {
      const bool waits = thread.state == Thread::State::Waiting && thread.waits_for == kClusterBarrier;
      if (waits) launch.make_ready(thread);
    }
  }
  launch.maybe_yield();
}

void cluster_wait() {
  Launch& launch = *current;
  Thread& own = launch.thread();
  if (!own.arrived_at_cluster) fail("a thread waits at the cluster's barrier and has not arrived");
  own.arrived_at_cluster = false;
  if (own.cluster_arrival == launch.cluster_barriers) {
    launch.wait(kClusterBarrier);
  } else {
    launch.yield(true);
  }
}

void* map_shared(const void* own, unsigned rank) {
  Launch& launch = *current;
  const Block& block = launch.block();
  if (rank >= cluster_size()) fail("a rank that the cluster does not have");
  if (!block.shared->holds(own, 0)) fail("only the block's own dynamic shared memory is mapped to another's");
  const Block& other = launch.blocks[rank];
  if (!other.started) fail("shared memory of a block that may not run yet: a cluster barrier comes first");
  if (other.ended == launch.grid.threads)
    fail("shared memory of a block that has ended: a cluster barrier keeps it");
  return other.shared->data() + (static_cast<const char*>(own) - block.shared->data());
}

}  // namespace minuet::shim

void __syncthreads() { __syncthreads_count(0); }

int __syncthreads_count(int predicate) {
  minuet::shim::Launch& launch = *minuet::shim::current;
  minuet::shim::Block& block = launch.block();
  block.votes += predicate != 0;
  if (++block.arrived < launch.grid.threads) {
    launch.wait("__syncthreads");
    return block.last_votes;
  }
  block.last_votes = block.votes;
  block.arrived = block.votes = 0;
  for (int t = 0; t < launch.grid.threads; ++t) launch.make_ready(block.threads[t]);
  launch.yield(true);
  return block.last_votes;
}
