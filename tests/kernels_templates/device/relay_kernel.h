// Spec and Params of the test kernel that asks for everything that a row may ask for.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

struct RelaySpec {
  i32 shared_bytes = 64 << 10;  // of a block, more than it may have unasked
  i32 cluster = 2;
  i32 threads = 64;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("shared_bytes", shared_bytes), visitor("cluster", cluster), visitor("threads", threads);
  }
};
struct RelayParams {
  const i32* in;
  i32* out;
  i32 count;
  i32* neighbours;  // [blocks] the number of the block behind this one in its cluster
};

}  // namespace minuet
