// Serializes a plan with its parameters and the kernels that it needs, and makes the plan of such bytes.
// Needs no GPU.
#pragma once

#include <string>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "runtime/plan/plan.h"

namespace minuet {

/// Returns the plan as bytes (plan_format.h), with all kernels that any candidate may need on each of
/// `archs`, and the values of its parameters if it has any and `with_values` is true. Kernels that are
/// missing are compiled. The bytes depend on the plan, the kernels, the set of `archs` and the version of the
/// library. The empty string, which stands for the CPU, adds no kernels.
llvm::Expected<std::string> serialize_plan(const Plan& plan, KernelCache& cache,
                                           const std::vector<std::string>& archs, bool with_values = true);

/// Holds what read_plan() returns.
struct ReadPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<BundleBytes> bundles;  // They point into the bytes that were read.
};
/// Reads a serialized plan, which may come from an untrusted source. Returns FailedPrecondition if another
/// version of the library wrote it, and InvalidArgument if it is damaged or is something else. Does not check
/// the contents of the bundles.
llvm::Expected<ReadPlan> read_plan(llvm::StringRef bytes);

/// Does the same and adds the plan's kernels to `cache`. After an error, `cache` is unchanged.
llvm::Expected<std::shared_ptr<const Plan>> deserialize_plan(llvm::StringRef bytes, KernelCache& cache);

}  // namespace minuet
