// Converts between choices and the named numbers of a tuning entry (TuningConfig). Reading fails for an
// unknown name, a missing name, and a value out of range. A lookup then behaves as if there were no result.
// All functions are pure.
#pragma once

#include <optional>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/ops/parameter_gradient.h"
#include "codegen/choose/tuning_entry.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

// The following functions return a choice as named numbers. The names are those of the choice's members,
// except that padding_percent is padding_threshold in percent.
TuningConfig config_of(const SearchChoice& search);
TuningConfig config_of(const GroupingChoice& grouping);
/// Returns the tile size `tile` of the gather or the scatter kernel as a TuningConfig.
TuningConfig tile_config(i32 tile);
TuningConfig config_of(const GemmChoice& gemm);
TuningConfig config_of(const FusedSpec& fused);
TuningConfig config_of(Dataflow dataflow);
TuningConfig config_of(const OrderChoice& order);
/// Returns the configuration of a kernel by tensor cores. It has the fields of both kinds of Specs. Fields
/// that the kind of `spec` does not have are 0.
TuningConfig gradient_config(const WeightGradientCandidate::Spec& spec);

llvm::Error read_config(const TuningConfig& config, SearchChoice& search);
llvm::Error read_config(const TuningConfig& config, GroupingChoice& grouping);
llvm::Error read_config(const TuningConfig& config, i32& tile);
llvm::Error read_config(const TuningConfig& config, GemmChoice& gemm);
/// Sets the fields of `fused` that tuning may change, and leaves those that follow from the problem.
llvm::Error read_config(const TuningConfig& config, FusedSpec& fused);
llvm::Error read_config(const TuningConfig& config, Dataflow& dataflow);
llvm::Error read_config(const TuningConfig& config, OrderChoice& order);
/// Sets `spec` to a kernel for the problems of a bucket of Operation::WeightGradient. Returns an error if the
/// kernel cannot compute their gradients.
llvm::Error read_gradient_config(const TuningBucket& bucket, const TuningConfig& config,
                                 WeightGradientCandidate::Spec& spec);

/// Sets `choice` to the result that was measured for the problems of the bucket, and returns the result. If
/// there is none, returns null and leaves `choice` unchanged. `tuning` may be null.
template <class Choice>
const TunedResult* find_tuned(const TuningSnapshot* tuning, const TuningBucket& bucket, Choice& choice) {
  const TunedResult* const result = tuning != nullptr ? tuning->find(bucket) : nullptr;
  if (!result) return nullptr;
  Choice tuned = choice;
  // The results of a snapshot can always be read. If one could not, `choice` would keep its default.
  if (llvm::errorToBool(read_config(result->best.config, tuned))) return nullptr;
  choice = tuned;
  return result;
}

/// Returns the configuration that this version of the library chooses without tuning for every problem of the
/// bucket. Returns nothing for an invalid bucket. It also returns nothing for the fused kernel and the
/// kernels of gradients, whose defaults depend on parts of the problem that the bucket does not have, such as
/// the exact number of rows or pairs, a residual and the stride.
std::optional<TuningConfig> default_config_of(const TuningBucket& bucket, bool is_cpu);

/// Returns an error if this version of the library cannot make the kernels of `config` for every problem of
/// the bucket.
llvm::Error validate_config(const TuningBucket& bucket, const TuningConfig& config);

}  // namespace minuet
