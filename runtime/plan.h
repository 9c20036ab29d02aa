// A plan: program and parameters, of no architecture. Immutable.
//
// The road of a tensor starts here: program -> plan -> compiled plan -> loaded plan -> execution.
#pragma once

#include <memory>

#include "codegen/candidates.h"
#include "codegen/tuning/tuning_snapshot.h"
#include "runtime/network_description.h"
#include "runtime/parameters.h"

namespace minuet {

/// A network as the caller asks for it.
struct NetworkProblem {
  NetworkDescription description;
  DType dtype = DType::F16;
  std::vector<i32> channels;  // empty: as described
  i32 ndim = 0;               // 0: as described
  std::optional<Dataflow> dataflow;
};

struct Plan {
  Program program;
  std::vector<LayerParameters> parameters;       // by layer
  std::shared_ptr<const TuningSnapshot> tuning;  // what choices go by; may be null
  std::optional<Dataflow> dataflow;              // of all layers; else each has the one chosen for it

  /// With the channels that `problem` asks for and the heads that `source` has, checked against it.
  static llvm::Expected<std::shared_ptr<const Plan>> create(
      NetworkProblem problem, const ParameterSource& source,
      std::shared_ptr<const TuningSnapshot> tuning = {});
  /// One op. weight: fp32 [volume, in_channels, out_channels]; scale and shift as the problem says.
  /// InvalidArgument for what is not finite, or is not once it is rounded.
  static llvm::Expected<std::shared_ptr<const Plan>> create(const OpProblem& op, LayerParameters parameters,
                                                            std::shared_ptr<const TuningSnapshot> tuning = {},
                                                            std::optional<Dataflow> dataflow = {});
  i64 parameter_count() const;
};

}  // namespace minuet
