// Implements pointwise.h, plans of chains of pointwise steps.
#include <cmath>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/abi/c_api_internal.h"
#include "runtime/abi/element_array.h"

namespace minuet {
namespace {

// The size of a step in 0.3.0. It stays as it is when the struct grows.
constexpr std::size_t kFirstStepBytes = 24;
static_assert(sizeof(minuet_pointwise_step) >= kFirstStepBytes);

#define MINUET_SAME_KIND(name, kind) \
  static_assert(MINUET_POINTWISE_##name == static_cast<int>(PointwiseKind::kind))
MINUET_SAME_KIND(RELU, ReLU);
MINUET_SAME_KIND(LEAKY_RELU, LeakyReLU);
MINUET_SAME_KIND(GELU, Gelu);
MINUET_SAME_KIND(GELU_TANH, GeluTanh);
MINUET_SAME_KIND(SILU, Silu);
MINUET_SAME_KIND(SIGMOID, Sigmoid);
MINUET_SAME_KIND(TANH, Tanh);
MINUET_SAME_KIND(ADD, Add);
MINUET_SAME_KIND(MULTIPLY, Multiply);
MINUET_SAME_KIND(AFFINE, Affine);
MINUET_SAME_KIND(LAYER_NORM, LayerNorm);
MINUET_SAME_KIND(SOFTMAX, Softmax);
MINUET_SAME_KIND(ARGMAX, Argmax);
MINUET_SAME_KIND(RELU_GRADIENT, ReLUGradient);
MINUET_SAME_KIND(LEAKY_RELU_GRADIENT, LeakyReLUGradient);
MINUET_SAME_KIND(GELU_GRADIENT, GeluGradient);
MINUET_SAME_KIND(GELU_TANH_GRADIENT, GeluTanhGradient);
MINUET_SAME_KIND(SILU_GRADIENT, SiluGradient);
MINUET_SAME_KIND(SIGMOID_GRADIENT, SigmoidGradient);
MINUET_SAME_KIND(TANH_GRADIENT, TanhGradient);
MINUET_SAME_KIND(LAYER_NORM_GRADIENT, LayerNormGradient);
MINUET_SAME_KIND(SOFTMAX_GRADIENT, SoftmaxGradient);
#undef MINUET_SAME_KIND

/// Returns an error unless the step has only the fields that belong to its kind.
[[gnu::cold]] llvm::Error check_step(const minuet_pointwise_step& step, bool has_values) {
  if (step.kind < 1 || step.kind >= kPointwiseKinds) {
    return make_error(StatusCode::InvalidArgument, "kind is {0}; it must be 1 to {1}", step.kind,
                      kPointwiseKinds - 1);
  }
  const bool has_number = step.kind == MINUET_POINTWISE_LEAKY_RELU ||
                          step.kind == MINUET_POINTWISE_LEAKY_RELU_GRADIENT ||
                          has_epsilon(static_cast<PointwiseKind>(step.kind));
  if (!has_number && !(step.number == 0)) {
    return make_error(StatusCode::InvalidArgument, "number is {0}, but a {1} has none: leave it 0",
                      number_text(step.number), pointwise_name(static_cast<PointwiseKind>(step.kind)));
  }
  const bool may_have_values = step.kind == MINUET_POINTWISE_AFFINE && has_values;
  if (may_have_values || (step.scale == nullptr && step.shift == nullptr)) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "scale or shift is given, but {0}: leave both null",
                    has_values ? "only an affine step has them" : "without_values is set");
}

/// Returns the caller's steps, whose struct may be that of another version.
[[gnu::cold]] llvm::Expected<std::vector<minuet_pointwise_step>> read_steps(
    const minuet_pointwise_options& given) {
  MINUET_TRY(check_list(given.steps, "steps", given.step_count, "step_count"));
  if (given.step_count > kMostPointwiseSteps) {
    return make_error(StatusCode::InvalidArgument, "step_count is {0}; it must be 1 to {1}", given.step_count,
                      kMostPointwiseSteps);
  }
  ElementArray array{given.steps, given.step_bytes, kFirstStepBytes, "step_bytes"};
  MINUET_TRY(check_elements<minuet_pointwise_step>(array));
  std::vector<minuet_pointwise_step> steps;
  for (i32 i = 0; i < given.step_count; ++i) {
    auto step = read_element<minuet_pointwise_step>(array, i);
    if (!step) return annotate(step.takeError(), "steps[" + std::to_string(i) + "]");
    steps.push_back(*step);
  }
  return steps;
}

[[gnu::cold]] llvm::Expected<PointwiseProblem> read_problem(const minuet_pointwise_options& given) {
  PointwiseProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.channels = given.channels;
  MINUET_TRY(check_flags({{given.without_values, "without_values"},
                          {given.allow_non_finite_parameters, "allow_non_finite_parameters"}}));
  for (i32 i = 0; i < given.step_count; ++i) {
    const minuet_pointwise_step& step = given.steps[i];
    MINUET_TRY(annotate(check_step(step, given.without_values == 0), "steps[" + std::to_string(i) + "]"));
    problem.steps.push_back({static_cast<PointwiseKind>(step.kind), step.number});
  }
  MINUET_TRY(validate(problem));
  return problem;
}

/// Appends `count` numbers, or `where_null` as often if there are none.
void append(std::vector<float>& all, const float* numbers, std::size_t count, float where_null) {
  if (numbers != nullptr) {
    all.insert(all.end(), numbers, numbers + count);
  } else {
    all.insert(all.end(), count, where_null);
  }
}

[[gnu::cold]] llvm::Error check_numbers(i32 step, const char* name, const float* numbers, i32 count) {
  for (i32 c = 0; numbers != nullptr && c < count; ++c) {
    if (std::isfinite(numbers[c])) continue;
    return make_error(StatusCode::InvalidArgument, "steps[{0}].{1}[{2}] is {3}, but it must be finite{4}",
                      step, name, c, number_text(numbers[c]), kAllowNonFiniteHint);
  }
  return llvm::Error::success();
}

/// Returns the scales and shifts of all affine steps, one after the other.
[[gnu::cold]] llvm::Expected<LayerParameters> read_parameters(const minuet_pointwise_options& given) {
  LayerParameters parameters;
  const auto channels = static_cast<std::size_t>(given.channels);
  for (i32 i = 0; i < given.step_count; ++i) {
    const minuet_pointwise_step& step = given.steps[i];
    if (step.kind != MINUET_POINTWISE_AFFINE) continue;
    if (given.allow_non_finite_parameters == 0) {
      MINUET_TRY(check_numbers(i, "scale", step.scale, given.channels));
      MINUET_TRY(check_numbers(i, "shift", step.shift, given.channels));
    }
    append(parameters.scale, step.scale, channels, 1);
    append(parameters.shift, step.shift, channels, 0);
  }
  return parameters;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_plan_create_pointwise(minuet_context* context, const minuet_pointwise_options* options,
                                           minuet_plan** plan) {
  return guarded("minuet_plan_create_pointwise", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(minuet_pointwise_options given,
                  read_options(options, minuet_pointwise_options(MINUET_POINTWISE_OPTIONS_INIT)));
    MINUET_ASSIGN(const std::vector<minuet_pointwise_step> steps, read_steps(given));
    given.steps = steps.data();
    MINUET_ASSIGN(const PointwiseProblem problem, read_problem(given));
    Context& own = *context->context;
    std::shared_ptr<const Plan> made;
    if (given.without_values != 0) {
      MINUET_ASSIGN(made, Plan::create_without_values(problem, own.tuning()));
    } else {
      MINUET_ASSIGN(const LayerParameters parameters, read_parameters(given));
      MINUET_ASSIGN(made, Plan::create(problem, parameters, own.tuning(), /*allow_non_finite=*/true));
    }
    *plan = make_plan(std::move(made), own);
    return llvm::Error::success();
  });
}

}  // extern "C"
