// A plan: program and parameters, of no architecture. Immutable.
//
// The road of a tensor starts here: program -> plan -> compiled plan -> loaded plan -> execution.
#pragma once

#include <memory>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"
#include "runtime/network/network_description.h"
#include "runtime/plan/parameters.h"

namespace minuet {

/// A network as the caller asks for it.
struct NetworkProblem {
  NetworkDescription description;
  DType dtype = DType::F16;
  std::vector<i32> channels;         // empty: as described
  i32 ndim = 0;                      // 0: as described
  std::optional<Dataflow> dataflow;  // of every convolution
};

/// One op's parameters where its caller has them: weight as fp32 [volume, in_channels, out_channels], scale
/// and shift [out_channels] or empty, as the problem says. Points into the caller's memory, which must
/// outlive it.
struct GivenParameters {
  GivenParameters() = default;
  GivenParameters(const LayerParameters& layer)  // NOLINT: those of a layer are given, too
      : weight(layer.weight), scale(layer.scale), shift(layer.shift) {}
  GivenParameters(const LayerParameters&&) = delete;  // a temporary ends before its parameters are read
  llvm::ArrayRef<float> weight, scale, shift;
};

struct Plan {
  Program program;
  std::vector<LayerParameters> parameters;       // by layer
  std::shared_ptr<const TuningSnapshot> tuning;  // what choices go by; may be null

  /// With the channels that `problem` asks for and the heads that `source` has, checked against it.
  static llvm::Expected<std::shared_ptr<const Plan>> create(
      NetworkProblem problem, const ParameterSource& source,
      std::shared_ptr<const TuningSnapshot> tuning = {});
  /// One op. Copies the parameters.
  /// Unless `allow_non_finite`, InvalidArgument for a parameter that is infinite or NaN, or is once it is
  /// rounded.
  static llvm::Expected<std::shared_ptr<const Plan>> create(const OpProblem& op,
                                                            const GivenParameters& parameters,
                                                            std::shared_ptr<const TuningSnapshot> tuning = {},
                                                            bool allow_non_finite = false);
  i64 parameter_count() const;
};

}  // namespace minuet
