#include "runtime/plan/ops/convolution.h"

#include "codegen/choose/tuning_key.h"

namespace minuet {
namespace {

constexpr Dataflow kDataflows[] = {Dataflow::GatherGemmScatter, Dataflow::Fused};
constexpr const char* kAutoDataflow = "auto";

}  // namespace

const char* requested_dataflow_name(std::optional<Dataflow> dataflow) {
  return dataflow ? dataflow_name(*dataflow) : kAutoDataflow;
}

std::optional<Dataflow> read_requested_dataflow(FieldReader& fields, llvm::StringRef name) {
  const std::string text = fields.text(name);
  for (const Dataflow dataflow : kDataflows) {
    if (text == dataflow_name(dataflow)) return dataflow;
  }
  if (text != kAutoDataflow) fields.fail(name);
  return std::nullopt;
}

// The members for columns are left out, because they follow from the program of the op.
llvm::json::Object write_convolution(const OpProblem& op) {
  const auto& problem = op.get<ConvolutionProblem>();
  llvm::json::Object fields = window_fields(problem);
  fields["in_channels"] = problem.in_channels;
  fields["out_channels"] = problem.out_channels;
  fields["groups"] = problem.groups;
  fields["scale_shift"] = problem.scale_shift;
  fields["residual"] = problem.residual;
  fields["activation"] = kActivationNames[static_cast<int>(problem.activation)];
  fields["slope"] = static_cast<double>(problem.slope);
  fields["dataflow"] = requested_dataflow_name(problem.dataflow);
  if (problem.gradient_of) fields["gradient_of"] = tuning_text(*problem.gradient_of);
  return fields;
}

OpProblem read_convolution(FieldReader& fields) {
  ConvolutionProblem problem;
  read_window_fields(fields, problem);
  problem.in_channels = fields.integer32("in_channels", 1, kMostChannels);
  problem.out_channels = fields.integer32("out_channels", 1, kMostChannels);
  problem.groups = fields.integer32("groups", 1, kMostChannels);
  problem.scale_shift = fields.flag("scale_shift");
  problem.residual = fields.flag("residual");
  const auto activation = fields.choice<Activation>("activation", kActivationNames);
  problem.set_activation(activation, fields.real("slope"));
  problem.dataflow = read_requested_dataflow(fields, "dataflow");
  // Plans of other convolutions, and of earlier versions, do not have the field.
  if (fields.has("gradient_of")) {
    problem.gradient_of = ConvolutionKind::Submanifold;
    if (llvm::errorToBool(read_tuning_text(fields.text("gradient_of"), *problem.gradient_of))) {
      fields.fail("gradient_of");
    }
  }
  return problem;
}

}  // namespace minuet
