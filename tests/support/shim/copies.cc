// Asynchronous copies from global to shared memory: issued here, landed by the launch when it likes (PTX ISA,
// "cp.async" and "cp.async.bulk").
#include <cstring>

#include "tests/support/shim/launch.h"
#include "tests/support/shim/sanitizers.h"

namespace minuet::shim {
namespace {

bool aligned(const void* address, unsigned bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// That the copy may be made at all is said where it is issued: when it lands, nobody knows whose it is.
void check_range([[maybe_unused]] const void* begin, [[maybe_unused]] unsigned bytes) {
#ifdef MINUET_SHIM_ASAN
  if (__asan_region_is_poisoned(const_cast<void*>(begin), bytes) != nullptr) {
    fail("an asynchronous copy from or to memory that is not there");
  }
#endif
}

void issue(void* shared, const void* global, unsigned bytes, bool present, void* barrier) {
  Launch& launch = *current;
  const Block& block = launch.block();
  bool elsewhere = launch.grid.cluster > 1;  // what is in no dynamic shared memory may be static
  for (const Block& other : launch.blocks) elsewhere = elsewhere || other.shared->holds(shared, 0);
  if (elsewhere && !block.shared->holds(shared, bytes))
    fail("an asynchronous copy out of the block's shared memory");
  check_range(shared, bytes);
  if (present) check_range(global, bytes);
  // A read before the wait may see anything.
  std::memset(shared, kSharedPoison, bytes);
  const Thread& thread = launch.thread();
  launch.copies.push_back({.shared = shared,
                           .global = global,
                           .bytes = bytes,
                           .present = present,
                           .barrier = barrier,
                           .block = &block,
                           .thread = &thread,
                           .group = thread.copy_groups,
                           .number = launch.issued++});
  launch.maybe_yield();
}

}  // namespace

void bulk_copy(void* shared, const void* global, unsigned bytes, void* barrier) {
  if (!aligned(shared, 16) || !aligned(global, 16)) fail("a bulk copy is aligned to 16 bytes at both ends");
  if (bytes % 16 != 0) fail("a bulk copy is of a multiple of 16 bytes");
  if (current->mbarrier(barrier).unfenced != nullptr) {
    fail("an mbarrier that a bulk copy pays needs a fence after its initialisation");
  }
  issue(shared, global, bytes, true, barrier);
}

void async_copy(void* shared, const void* global, unsigned bytes, bool present) {
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("an asynchronous copy is of 4, 8 or 16 bytes");
  if (!aligned(shared, bytes) || !aligned(global, bytes)) fail("an asynchronous copy is aligned to its size");
  issue(shared, global, bytes, present, nullptr);
}

void async_copy_arrive(void* barrier) {
  Launch& launch = *current;
  launch.mbarrier(barrier);
  const Thread& thread = launch.thread();
  launch.copies.push_back({.shared = nullptr,
                           .global = nullptr,
                           .bytes = 0,
                           .present = false,
                           .barrier = barrier,
                           .block = &launch.block(),
                           .thread = &thread,
                           .group = thread.copy_groups,
                           .is_arrival = true,
                           .number = launch.issued++});
  launch.maybe_yield();
}

void async_copy_commit() { ++current->thread().copy_groups; }

void async_copy_wait(unsigned groups) {
  Launch& launch = *current;
  const Thread& own = launch.thread();
  for (std::size_t i = launch.copies.size(); i-- > 0;) {
    const Copy& copy = launch.copies[i];
    const bool awaited =
        copy.barrier == nullptr && copy.thread == &own && copy.group + groups < own.copy_groups;
    if (awaited) launch.land(i);
  }
}

}  // namespace minuet::shim
