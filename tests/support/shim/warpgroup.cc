// Asynchronous products of a warpgroup (PTX ISA, "wgmma"): made as late as can be, when all threads wait.
#include "tests/support/shim/launch.h"

namespace minuet::shim {
namespace {

constexpr unsigned kWarpgroup = 128;

void multiply_all(Thread* group) {
  for (std::size_t i = 0; i < group->products.size(); ++i) {
    const WarpgroupProduct& first = group->products[i];
    float* sums[kWarpgroup];
    const unsigned* a[kWarpgroup];
    for (unsigned t = 0; t < kWarpgroup; ++t) {
      if (group[t].products.size() != group->products.size())
        fail("threads of a warpgroup made other products");
      const WarpgroupProduct& product = group[t].products[i];
      if (product.multiply != first.multiply || product.b != first.b)
        fail("threads of a warpgroup name different operands");
      sums[t] = product.sums;
      a[t] = product.a;
    }
    first.multiply(sums, a, first.b);
  }
  for (unsigned t = 0; t < kWarpgroup; ++t) group[t].products.clear();
}

}  // namespace

float add_products(float sum, const float* a, const float* b, int count) {
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void wgmma_fence() { current->thread().fenced = true; }

void wgmma(WarpgroupMultiply multiply, float* sums, const unsigned* a, unsigned long long b) {
  Thread& own = current->thread();
  if (!own.fenced) fail("a product of a warpgroup whose operands were touched since the last fence");
  own.products.push_back({multiply, sums, a, b});
  own.committed = false;
  current->maybe_yield();
}

void wgmma_commit() { current->thread().committed = true; }

void wgmma_wait() {
  Launch& launch = *current;
  Thread& own = launch.thread();
  if (!own.committed) fail("products of a warpgroup that are waited for and were not committed");
  const unsigned first = own.index & ~(kWarpgroup - 1);
  if (first + kWarpgroup > static_cast<unsigned>(launch.grid.threads))
    fail("the last warpgroup is not whole");
  own.fenced = false;
  Thread* group = launch.block().threads + first;
  if (++group->warpgroup_arrived < kWarpgroup) {
    launch.wait("products of a warpgroup");
    return;
  }
  group->warpgroup_arrived = 0;
  multiply_all(group);
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    if (group + t != &own) launch.make_ready(group[t]);
  }
}

}  // namespace minuet::shim
