#include "codegen/choose/ops/convolution_integers.h"

#include <algorithm>
#include <cmath>

namespace minuet {

llvm::Error check_integers(const ConvolutionProblem& problem) {
  if (!has_integers(problem)) return llvm::Error::success();
  for (const std::optional<DType>& type : {problem.input_type, problem.output_type, problem.residual_type,
                                           problem.second_type, problem.shortcut_type}) {
    if (!type || is_integer(*type)) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "a tensor of the convolution has the type {0}: name only types of 8-bit integers, because "
        "the other tensors have the type of the plan",
        kDTypeNames[static_cast<int>(*type)]);
  }
  if ((problem.residual_type && !problem.residual) || (problem.second_type && !problem.second_output) ||
      (problem.shortcut_type && !problem.shortcut)) {
    return make_error(
        StatusCode::InvalidArgument,
        "the convolution names the type of a residual, a second output or a shortcut that it does not have");
  }
  if (problem.residual && problem.residual_type.has_value() != problem.input_type.has_value()) {
    return make_error(StatusCode::Unimplemented,
                      "the input has the type {0} and the residual {1}: both must have 8-bit elements, or "
                      "neither",
                      kDTypeNames[static_cast<int>(input_type_of(problem))],
                      kDTypeNames[static_cast<int>(residual_type_of(problem))]);
  }
  for (const float factor : {problem.output_factor, problem.second_factor}) {
    if (std::isfinite(factor) && factor > 0) continue;
    return make_error(StatusCode::InvalidArgument,
                      "the factor of an 8-bit output is {0:g6}; it must be finite and above 0", factor);
  }
  const char* const hindrance = problem.groups > 1    ? "have groups"
                                : problem.gradient_of ? "compute a gradient"
                                : problem.dataflow == Dataflow::GatherGemmScatter
                                    ? "run by gather-gemm-scatter"
                                    : nullptr;
  if (hindrance == nullptr) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented,
                    "a convolution with 8-bit tensors cannot {0}: keep its tensors in the type of the plan",
                    hindrance);
}

namespace {

FusedType fused_type(DType type, DType input) {
  if (type == input) return FusedType::OfInput;
  switch (type) {
    case DType::F32:
    case DType::TF32:
      return FusedType::F32;
    case DType::F16:
      return FusedType::F16;
    case DType::BF16:
      return FusedType::BF16;
    case DType::U8:
      return FusedType::U8;
    case DType::S8:
      return FusedType::S8;
  }
  return FusedType::OfInput;
}

}  // namespace

void set_output_types(FusedSpec& spec, const ConvolutionProblem& problem) {
  i32 elements = kWidestAccess;
  const auto add = [&](DType type, const Columns& columns) {
    const i32 bytes = dtype_bytes(type);
    elements = std::min(elements, widest_vector(bytes, spec.out_channels, {columns}) / bytes);
    return fused_type(type, spec.io);
  };
  spec.output_type = add(output_type_of(problem), problem.output);
  if (problem.residual) spec.residual_type = add(residual_type_of(problem), problem.residual_input);
  if (spec.shortcut)
    spec.shortcut_type = add(problem.shortcut_type.value_or(problem.dtype), problem.covered_output);
  if (problem.second_output) spec.second_type = add(second_type_of(problem), problem.covered_output);
  spec.output_bytes = elements * dtype_bytes(output_type_of(problem));
}

}  // namespace minuet
