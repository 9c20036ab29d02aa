// Many kernels at once, just in time and ahead: in as many helpers as cores and memory allow, and which
// thread takes which (R16, R19).
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/helper/helper_compiler.h"
#include "codegen/helper/protocol.h"
#include "codegen/helper/resources.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

struct HelperPoolOptions {
  int jobs = 0;                         // most helpers at a time; 0: one a core
  bool pch = false;                     // precompiled headers, where enough requests share them (R30)
  std::int64_t memory_budget = 0;       // bytes for all helpers; 0: what there is
  const CancelToken* cancel = nullptr;  // goes into each control
};

struct HelperPoolReport : HelperReport {
  int helpers = 0;  // at a time
};

/// How many: as asked (or one a core), no more than jobs, and half a GiB for each, at least one.
int count_helpers(int asked, const Resources& resources, std::size_t jobs);

/// Does what is to be done for one request; where it compiles, with `control`, which has its thread's helper.
/// False: the requests that nobody has begun are left.
using HelperWork = llvm::function_ref<bool(std::size_t index, const CompileControl& control)>;

/// Calls `work` once for every request, from several threads at once, and returns when each is done: those
/// that can share a precompiled header one after the other in one helper. This thread is one of them. Where
/// the host runs out of memory, or `work` throws, some requests are never done.
HelperPoolReport run_in_helpers(const std::vector<KernelRequest>& requests, const HelperPoolOptions& options,
                                HelperWork work);

}  // namespace minuet
