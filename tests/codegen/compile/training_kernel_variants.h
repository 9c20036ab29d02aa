// The Specs of the kernels of gradients and batch norms that kernels_compile_test compiles beside the default
// ones, by row of kernels.inc.
#pragma once

#include <vector>

#include "codegen/choose/ops/affine_gradient.h"
#include "codegen/choose/ops/batch_norm.h"
#include "codegen/choose/ops/parameter_gradient.h"

namespace minuet {

inline std::vector<ListStepsSpec> variants(const ListStepsSpec&) { return {}; }
/// Channels of every tile, groups, and vectors of every width.
inline std::vector<ParameterGradientChoice> gradient_choices() {
  std::vector<ParameterGradientChoice> all;
  for (const DType dtype : kDTypes) {
    for (const auto& [in, out, groups] : std::vector<std::array<i32, 3>>{{64, 64, 1},
                                                                         {96, 128, 1},
                                                                         {256, 256, 1},
                                                                         {4, 32, 1},
                                                                         {6, 10, 1},
                                                                         {3, 5, 1},
                                                                         {32, 32, 32},
                                                                         {32, 64, 2}}) {
      ParameterGradientProblem problem;
      problem.forward.dtype = dtype;
      problem.forward.in_channels = in, problem.forward.out_channels = out;
      problem.forward.groups = groups;
      all.push_back(choose_parameter_gradient(problem));
    }
  }
  return all;
}
template <class Spec>
std::vector<Spec> gradient_specs() {
  std::vector<Spec> specs;
  for (const ParameterGradientChoice& choice : gradient_choices()) {
    for (const WeightGradientCandidate& candidate : choice.candidates) {
      if (const Spec* const spec = std::get_if<Spec>(&candidate.spec)) specs.push_back(*spec);
    }
  }
  return specs;
}
inline std::vector<WeightGradientSpec> variants(const WeightGradientSpec&) {
  return gradient_specs<WeightGradientSpec>();
}
inline std::vector<WarpgroupGradientSpec> variants(const WarpgroupGradientSpec&) {
  return gradient_specs<WarpgroupGradientSpec>();
}
inline std::vector<WeightGradientScalarSpec> variants(const WeightGradientScalarSpec&) {
  return gradient_specs<WeightGradientScalarSpec>();
}
inline std::vector<AddPartsSpec> variants(const AddPartsSpec&) { return {{.vector = 4}}; }
inline std::vector<SumRowsSpec> variants(const SumRowsSpec&) {
  return {{.io = DType::F32}, {.io = DType::BF16}};
}
inline std::vector<AddRowSumsSpec> variants(const AddRowSumsSpec&) { return {}; }
inline std::vector<MeasureRowsSpec> variants(const MeasureRowsSpec&) {
  return {{.io = DType::F32}, {.io = DType::BF16}};
}
inline std::vector<SumProductsSpec> variants(const SumProductsSpec&) {
  return {{.io = DType::F32, .normalizes = true}, {.io = DType::BF16}};
}

/// Vectors and lanes of every width.
inline std::vector<BatchNormChoice> batch_norm_choices() {
  std::vector<BatchNormChoice> all;
  for (const DType dtype : kDTypes) {
    for (const i32 channels : {64, 40, 6, 3, 1}) {
      for (const bool has_residual : {false, true}) {
        BatchNormProblem problem;
        problem.dtype = dtype, problem.channels = channels;
        problem.has_residual = has_residual, problem.has_relu = channels != 40;
        all.push_back(choose_batch_norm(problem));
      }
    }
  }
  return all;
}
inline std::vector<SumMomentsSpec> variants(const SumMomentsSpec&) {
  std::vector<SumMomentsSpec> specs;
  for (const BatchNormChoice& choice : batch_norm_choices()) specs.push_back(choice.sum);
  return specs;
}
inline std::vector<FinishMomentsSpec> variants(const FinishMomentsSpec&) { return {}; }
inline std::vector<NormalizeSpec> variants(const NormalizeSpec&) {
  std::vector<NormalizeSpec> specs;
  for (const BatchNormChoice& choice : batch_norm_choices()) specs.push_back(choice.normalize);
  return specs;
}
inline std::vector<SumNormGradientsSpec> variants(const SumNormGradientsSpec&) {
  std::vector<SumNormGradientsSpec> specs;
  for (const BatchNormChoice& choice : batch_norm_choices()) specs.push_back(choice.sum_gradients);
  return specs;
}
inline std::vector<FinishNormGradientsSpec> variants(const FinishNormGradientsSpec&) { return {}; }
inline std::vector<NormalizeGradientsSpec> variants(const NormalizeGradientsSpec&) {
  std::vector<NormalizeGradientsSpec> specs;
  for (const BatchNormChoice& choice : batch_norm_choices()) specs.push_back(choice.normalize_gradients);
  return specs;
}

inline std::vector<KeyEntriesSpec> variants(const KeyEntriesSpec&) { return {}; }
inline std::vector<FindEntriesSpec> variants(const FindEntriesSpec&) { return {}; }
inline std::vector<SumEntriesSpec> variants(const SumEntriesSpec&) {
  std::vector<SumEntriesSpec> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const bool weighs : {false, true}) {
      for (const i32 bytes : {dtype_bytes(io), 8, 16})
        specs.push_back({.io = io, .weighs = weighs, .vector_bytes = bytes});
    }
  }
  return specs;
}
inline std::vector<CombineGroupsSpec> variants(const CombineGroupsSpec&) {
  std::vector<CombineGroupsSpec> specs = {{.reduction = PointReduction::First}};
  for (const DType io : {DType::F32, DType::F16, DType::BF16})
    specs.push_back({.io = io, .reduction = PointReduction::Max});
  return specs;
}
inline std::vector<SpreadGroupsSpec> variants(const SpreadGroupsSpec&) {
  std::vector<SpreadGroupsSpec> specs;
  for (const DType io : {DType::F32, DType::F16, DType::BF16}) {
    for (const PointReduction reduction :
         {PointReduction::Mean, PointReduction::Max, PointReduction::Sum, PointReduction::First}) {
      for (const i32 bytes : {4, 16})
        specs.push_back({.io = io, .out = DType::F32, .reduction = reduction, .vector_bytes = bytes});
      specs.push_back({.io = io, .out = io, .reduction = reduction, .vector_bytes = dtype_bytes(io)});
      specs.push_back({.io = io, .out = io, .reduction = reduction, .vector_bytes = 16});
    }
  }
  return specs;
}

}  // namespace minuet
