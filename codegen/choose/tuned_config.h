// Named numbers of a tuning entry <-> the choices they stand for. A name that the code no longer has, one
// that is missing and a value that no kernel can be made with are errors, to a lookup a miss (R34). Pure.
#pragma once

#include <optional>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_entry.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

TuningConfig config_of(const SearchChoice& search);      // source_block, query_block, threads
TuningConfig config_of(const GroupingChoice& grouping);  // padding_percent, height_step, streams
TuningConfig tile_config(i32 tile);                      // tile, of a gather or a scatter
TuningConfig config_of(const GemmChoice& gemm);          // algorithm
TuningConfig config_of(const FusedSpec& fused);          // step, columns, ... unit, early_loads
TuningConfig config_of(Dataflow dataflow);               // dataflow
TuningConfig config_of(const OrderChoice& order);        // order

llvm::Error read_config(const TuningConfig& config, SearchChoice& search);
llvm::Error read_config(const TuningConfig& config, GroupingChoice& grouping);
llvm::Error read_config(const TuningConfig& config, i32& tile);
llvm::Error read_config(const TuningConfig& config, GemmChoice& gemm);
/// What follows from the problem stays as it is.
llvm::Error read_config(const TuningConfig& config, FusedSpec& fused);
llvm::Error read_config(const TuningConfig& config, Dataflow& dataflow);
llvm::Error read_config(const TuningConfig& config, OrderChoice& order);

/// What was measured for the bucket, if anything (null); `choice` becomes it. `tuning` may be null.
template <class Choice>
const TunedResult* find_tuned(const TuningSnapshot* tuning, const TuningBucket& bucket, Choice& choice) {
  const TunedResult* const result = tuning != nullptr ? tuning->find(bucket) : nullptr;
  if (!result) return nullptr;
  Choice tuned = choice;
  // A snapshot holds valid results only; were one not, the default stays.
  if (llvm::errorToBool(read_config(result->best.config, tuned))) return nullptr;
  choice = tuned;
  return result;
}

/// Whether today's code can make the kernels of `config` for every problem of the bucket.
llvm::Error validate_config(const TuningBucket& bucket, const TuningConfig& config);

}  // namespace minuet
