// Declares a plan, which is a program with its parameters. It is immutable and does not depend on an
// architecture.
//
// A plan is compiled for an architecture, then loaded on a device, and then an execution runs it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"
#include "runtime/network/network_description.h"
#include "runtime/network/precisions.h"
#include "runtime/network/weights_check.h"
#include "runtime/plan/parameters.h"

namespace minuet {

/// Describes the network that a caller requests.
struct NetworkProblem {
  NetworkDescription description;
  DType dtype = DType::F16;
  std::vector<i32> channels;         // If this is empty, the description's channels are used.
  i32 ndim = 0;                      // If this is not 0, it must be the number of axes in the description.
  std::vector<i32> shape;            // If this is empty, the description's shape is used.
  i32 in_channels = 0;               // If this is 0, the description's number is used.
  std::optional<Dataflow> dataflow;  // If this is set, every convolution runs with this dataflow.
};

/// Points to the parameters of one op in the caller's memory, which must outlive this object. The weight has
/// shape [volume, in_channels / groups, out_channels] in fp32. Scale and shift have [out_channels] elements,
/// or none if the problem has no scale and shift.
struct GivenParameters {
  GivenParameters() = default;
  GivenParameters(const LayerParameters& layer)  // NOLINT: The conversion is implicit on purpose.
      : weight(layer.weight), scale(layer.scale), shift(layer.shift) {}
  GivenParameters(const LayerParameters&&) = delete;  // A temporary would not outlive this object.
  llvm::ArrayRef<float> weight, scale, shift;
};

/// Names a parameter of a plan, and the layer that has it.
struct PlanParameter : ParameterName {
  i32 layer = 0;
};

/// Returns Unimplemented if a convolution of the program computes in 8 bits. Its parameters are computed from
/// the values with which a plan is created, so that no others can be set.
llvm::Error check_takes_values(const Program& program);

/// Returns OutOfRange if a plan with `count` parameters has none of this number.
llvm::Error check_parameter_number(i32 number, std::size_t count);

/// Holds all that a network's program was built from, so that a serialized plan can build it again.
struct NetworkRecord {
  NetworkProblem problem;
  /// Maps the name of each head whose description does not give its number of channels to that number, or to
  /// 0 if the head was omitted.
  std::map<std::string, i32> head_channels;
};

/// Builds and checks the program of a network that was recorded. Returns InvalidArgument if the record does
/// not describe a network, because it may come from an untrusted source.
llvm::Expected<Program> rebuild_program(NetworkRecord& record);

struct Plan;
/// Returns the convolutions of `quantized`, a program of the plan's network with other precisions, that
/// cannot compute in 8 bits because a sum of 32-bit integers could overflow, or because fp32 cannot hold a
/// factor. Returns InvalidArgument, with the name of the convolution, if one of them has a number that is not
/// finite. Creating a plan of `quantized` decides by the numbers in the weights file, which a plan of fp32
/// has, and others have rounded to their dtype. A plan without values, and one in which the convolution
/// itself computes in 8 bits, has no numbers to decide by.
llvm::Expected<std::vector<PrecisionFault>> find_weight_faults(const Plan& plan, const Program& quantized);

struct Plan {
  Program program;
  /// Holds what the program was built from, or nothing if the plan is of a single op.
  std::optional<NetworkRecord> network;
  std::vector<LayerParameters> parameters;  // There is one element per layer.
  /// Says whether `parameters` holds values. A plan without values runs with those of a ParameterSet.
  bool has_values = true;
  /// Holds the tuning results that the choices use. It may be null.
  std::shared_ptr<const TuningSnapshot> tuning;

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
  /// Returns the plan of one op without values. Its convolution has the parameters that `op` says.
  static llvm::Expected<std::shared_ptr<const Plan>> create_without_values(
      const OpProblem& op, std::shared_ptr<const TuningSnapshot> tuning = {});
  /// Returns the number of all elements of the parameters that kernels read.
  i64 parameter_count() const;
  /// Returns the parameters that the plan's values come from, layer by layer.
  std::vector<PlanParameter> parameter_list() const;
};

}  // namespace minuet
