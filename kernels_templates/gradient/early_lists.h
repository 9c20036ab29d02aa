// This file lets kernels read lists of pairs and their steps while the last launch still runs
// (core/early_loads.h), if launches before it have written them.
#pragma once

#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/programmatic.h"

namespace minuet {

/// Follows the last launch once, at first or later.
class LateFollower {
 public:
  MINUET_DEVICE explicit LateFollower(bool later) : waits_(later) {
    if (!later) follow_last_launch();
  }
  /// Every thread must call it before it accesses what the last launch writes, and before it writes.
  MINUET_DEVICE void follow() {
    if (waits_) follow_last_launch();
    waits_ = false;
  }

 private:
  bool waits_;
};

}  // namespace minuet
