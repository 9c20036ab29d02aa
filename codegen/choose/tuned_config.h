// Converts between the named numbers of a tuning entry and choices. A name that this code does not have, a
// missing name and a value with which no kernel can be made are errors; lookups treat them as misses. All
// functions are pure.
#pragma once

#include <optional>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_entry.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

TuningConfig config_of(const SearchChoice& search);      // source_block, query_block, threads
TuningConfig config_of(const GroupingChoice& grouping);  // padding_percent, height_step, streams
TuningConfig tile_config(i32 tile);                      // tile of a gather or a scatter
TuningConfig config_of(const GemmChoice& gemm);          // algorithm
TuningConfig config_of(const FusedSpec& fused);          // step, columns, ..., unit, early_loads
TuningConfig config_of(Dataflow dataflow);               // dataflow
TuningConfig config_of(const OrderChoice& order);        // order

llvm::Error read_config(const TuningConfig& config, SearchChoice& search);
llvm::Error read_config(const TuningConfig& config, GroupingChoice& grouping);
llvm::Error read_config(const TuningConfig& config, i32& tile);
llvm::Error read_config(const TuningConfig& config, GemmChoice& gemm);
/// Leaves the fields that follow from the problem unchanged.
llvm::Error read_config(const TuningConfig& config, FusedSpec& fused);
llvm::Error read_config(const TuningConfig& config, Dataflow& dataflow);
llvm::Error read_config(const TuningConfig& config, OrderChoice& order);

/// Sets `choice` to the result measured for the bucket and returns the result. Returns null and leaves
/// `choice` unchanged if there is none. `tuning` may be null.
template <class Choice>
const TunedResult* find_tuned(const TuningSnapshot* tuning, const TuningBucket& bucket, Choice& choice) {
  const TunedResult* const result = tuning != nullptr ? tuning->find(bucket) : nullptr;
  if (!result) return nullptr;
  Choice tuned = choice;
  // Cannot fail, because a snapshot holds valid results only; if it did, the default would remain.
  if (llvm::errorToBool(read_config(result->best.config, tuned))) return nullptr;
  choice = tuned;
  return result;
}

/// Returns the configuration that this code chooses without tuning for every problem of the bucket. Returns
/// nothing for an invalid bucket and for the kernel of a whole layer, whose default also depends on parts of
/// the problem that the bucket does not have, such as the exact rows, a residual and the stride.
std::optional<TuningConfig> default_config_of(const TuningBucket& bucket, bool is_cpu);

/// Returns an error if this code cannot make the kernels of `config` for every problem of the bucket.
llvm::Error validate_config(const TuningBucket& bucket, const TuningConfig& config);

}  // namespace minuet
