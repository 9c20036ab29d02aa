// A plan: a program with its parameters, independent of architecture. Immutable.
//
// It is the first of these stages: plan -> compiled plan -> loaded plan -> execution.
#pragma once

#include <memory>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"
#include "runtime/network/network_description.h"
#include "runtime/plan/parameters.h"

namespace minuet {

/// The network that a caller requests.
struct NetworkProblem {
  NetworkDescription description;
  DType dtype = DType::F16;
  std::vector<i32> channels;         // empty: as in the description
  i32 ndim = 0;                      // 0: as in the description
  std::optional<Dataflow> dataflow;  // of every convolution; none: chosen for each
};

/// Parameters of one op in the caller's memory, which must outlive this object: weight in fp32 [volume,
/// in_channels, out_channels], scale and shift [out_channels], or empty if the problem has none.
struct GivenParameters {
  GivenParameters() = default;
  GivenParameters(const LayerParameters& layer)  // NOLINT: implicit on purpose
      : weight(layer.weight), scale(layer.scale), shift(layer.shift) {}
  GivenParameters(const LayerParameters&&) = delete;  // a temporary would not outlive this object
  llvm::ArrayRef<float> weight, scale, shift;
};

struct Plan {
  Program program;
  std::vector<LayerParameters> parameters;       // by layer
  std::shared_ptr<const TuningSnapshot> tuning;  // tuning results that the choices use; may be null

  /// Creates the plan of a network with the channels that `problem` requires and the heads that `source` has,
  /// and checks the parameters.
  static llvm::Expected<std::shared_ptr<const Plan>> create(
      NetworkProblem problem, const ParameterSource& source,
      std::shared_ptr<const TuningSnapshot> tuning = {});
  /// Creates the plan of one op and copies its parameters. Unless `allow_non_finite` is set, returns
  /// InvalidArgument if a parameter is infinite or NaN, or becomes so when rounded.
  static llvm::Expected<std::shared_ptr<const Plan>> create(const OpProblem& op,
                                                            const GivenParameters& parameters,
                                                            std::shared_ptr<const TuningSnapshot> tuning = {},
                                                            bool allow_non_finite = false);
  i64 parameter_count() const;
};

}  // namespace minuet
