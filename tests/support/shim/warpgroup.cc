// Asynchronous products of a warpgroup (PTX ISA, "wgmma"): made as late as can be, when all threads wait.
#include <algorithm>

#include "tests/support/shim/launch.h"

namespace minuet::shim {
namespace {

constexpr unsigned kWarpgroup = 128;

std::ptrdiff_t awaited(const Thread& thread, unsigned groups) {
  return std::count_if(thread.products.begin(), thread.products.end(), [&](const WarpgroupProduct& product) {
    return product.group + groups < thread.product_groups;
  });
}

/// Makes the products of all but the last `groups` groups, which are the first ones.
void multiply_all(Thread* group, unsigned groups) {
  const std::ptrdiff_t count = awaited(*group, groups);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const WarpgroupProduct& first = group->products[static_cast<std::size_t>(i)];
    float* sums[kWarpgroup];
    const unsigned* a[kWarpgroup];
    for (unsigned t = 0; t < kWarpgroup; ++t) {
      if (awaited(group[t], groups) != count) fail("threads of a warpgroup made other products");
      const WarpgroupProduct& product = group[t].products[static_cast<std::size_t>(i)];
      if (!product.is_same(first)) fail("threads of a warpgroup name different operands");
      sums[t] = product.sums;
      a[t] = product.a;
    }
    if (first.multiply) {
      first.multiply(sums, a, first.b);
    } else {
      first.multiply_shared(sums, first.shared_a, first.b, first.adds);
    }
  }
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    group[t].products.erase(group[t].products.begin(), group[t].products.begin() + count);
  }
}

void add_product(const WarpgroupProduct& product) {
  Thread& own = current->thread();
  if (!own.fenced) fail("a product of a warpgroup whose operands were touched since the last fence");
  own.products.push_back(product);
  own.products.back().group = own.product_groups;
  own.committed = false;
  current->maybe_yield();
}

}  // namespace

float add_products(float sum, const float* a, const float* b, int count) {
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void wgmma_fence() { current->thread().fenced = true; }

void wgmma(WarpgroupMultiply multiply, float* sums, const unsigned* a, unsigned long long b) {
  add_product({multiply, nullptr, sums, a, 0, b, true, 0});
}

void wgmma_shared(WarpgroupSharedMultiply multiply, float* sums, unsigned long long a, unsigned long long b,
                  bool adds) {
  add_product({nullptr, multiply, sums, nullptr, a, b, adds, 0});
}

void wgmma_commit() {
  Thread& own = current->thread();
  ++own.product_groups;
  own.committed = true;
}

void wgmma_wait(unsigned groups) {
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
  multiply_all(group, groups);
  for (unsigned t = 0; t < kWarpgroup; ++t) {
    if (group + t != &own) launch.make_ready(group[t]);
  }
}

}  // namespace minuet::shim
