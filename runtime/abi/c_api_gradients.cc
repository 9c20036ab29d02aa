// Implements gradient.h: lists of pairs, and the gradients of parameters. Those of an affine step are in
// affine_gradients.cc.
#include "runtime/abi/affine_gradients.h"
#include "runtime/abi/single_op.h"
#include "runtime/engine/arena.h"
#include "runtime/weights/given_weight.h"

namespace minuet {

llvm::Error check_differentiable(const ConvolutionProblem& problem) {
  if (problem.activation != Activation::None) {
    return make_error(StatusCode::InvalidArgument,
                      "the convolution has the activation {0}: leave it out, and multiply the gradient of "
                      "the output by the derivative of the activation first",
                      kActivationNames[static_cast<std::size_t>(problem.activation)]);
  }
  if (!problem.residual) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "the convolution has a residual: leave it out, because the gradient of the residual is "
                    "that of the output");
}

llvm::Error check_gradients(minuet_gradient which, const char* weight, const char* bias, const char* input) {
  if (which >= 1 && (which & ~(MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS)) == 0) {
    return llvm::Error::success();
  }
  return make_error(StatusCode::InvalidArgument,
                    "the gradients are {0}; they must be 2 (of the {1}), 4 (of the {2}), or 6 (both). For 1, "
                    "the gradient of the input, use {3}",
                    which, weight, bias, input);
}

namespace {

llvm::Expected<ParameterGradientProblem> read_problem(const minuet_convolution_options& given,
                                                      minuet_gradient which) {
  ParameterGradientProblem problem;
  MINUET_ASSIGN(problem.forward, read_convolution_problem(given));
  MINUET_TRY(check_differentiable(problem.forward));
  MINUET_TRY(check_gradients(which, "weight", "bias", "minuet_plan_create_convolution_gradient"));
  problem.weight = (which & MINUET_GRADIENT_WEIGHT) != 0;
  problem.bias = (which & MINUET_GRADIENT_BIAS) != 0;
  MINUET_TRY(validate(problem));
  return problem;
}

/// Reads where the gradient of the weight is stored, and adds its memory to `written`.
llvm::Error read_weight_gradient(const ConvolutionProblem& forward, const minuet_gradient_arguments& given,
                                 bool on_gpu, ParameterGradientRequest& request,
                                 std::vector<NamedMemory>& written) {
  MINUET_TRY(check_pointer(given.weight_gradient, "weight_gradient"));
  MINUET_ASSIGN(const GivenArray array, read_array(*given.weight_gradient, ArrayUse::Parameter));
  if (array.element != ElementType::F32) {
    return make_error(StatusCode::InvalidArgument, "its element is {0}; gradients of weights are f32 (0)",
                      element_name(array.element));
  }
  if (array.on_host && on_gpu) {
    return make_error(StatusCode::InvalidArgument, "it is on the host: give device memory");
  }
  MINUET_TRY(check_distinct(array));
  MINUET_TRY(check_choice(given.weights_order, static_cast<i32>(kLastWeightsOrder), "weights_order"));
  const auto order = given.weights_order == MINUET_WEIGHTS_AS_DESCRIBED
                         ? WeightsOrder::Minuet
                         : static_cast<WeightsOrder>(given.weights_order);
  MINUET_ASSIGN(const GivenWeight weight, find_weight(array, order, forward, "weight"));
  request.weight_gradient = static_cast<float*>(array.data);
  std::copy_n(weight.strides.begin(), forward.ndim, request.offset_strides);
  request.input_stride = weight.strides[forward.ndim];
  request.output_stride = weight.strides[forward.ndim + 1];
  written.push_back({"weight_gradient", memory_of(array.data, spanned_bytes(array))});
  return llvm::Error::success();
}

/// Reads what the gradient of the weight needs besides the gradient of the output.
llvm::Error read_weight_arguments(const ConvolutionProblem& forward, const minuet_gradient_arguments& given,
                                  bool on_gpu, ParameterGradientRequest& request,
                                  std::vector<NamedMemory>& written, std::vector<NamedMemory>& read) {
  MINUET_TRY(check_amount(given.most_pairs, "most_pairs"));
  MINUET_TRY(check_array(given.pairs, given.most_pairs, "pairs"));
  MINUET_TRY(check_alignment(given.pair_count, kWordBytes, "pair_count"));
  request.list = {given.pairs, given.pair_count, given.most_pairs};
  request.is_swapped = given.swapped != 0;
  MINUET_ASSIGN(const Tensor input, read_matrix(given.input, "input", forward.in_channels, forward.dtype));
  request.input = input.data, request.input_rows = input.rows, request.input_ld = input.ld;
  if (llvm::Error error = read_weight_gradient(forward, given, on_gpu, request, written)) {
    return annotate(std::move(error), "weight_gradient");
  }
  read.push_back({"pairs", memory_of(given.pairs, given.most_pairs * 3 * kWordBytes)});
  read.push_back(optional_memory("pair_count", given.pair_count, kWordBytes));
  read.push_back({"input", memory_of(input)});
  return llvm::Error::success();
}

/// Returns the number of axes of the engine that runs the op. Affine steps have none, so any engine serves.
i32 ndim_of(const minuet_gradient_op& op) {
  const auto* const choice = std::get_if<ParameterGradientChoice>(&op.choice);
  return choice ? choice->problem.forward.ndim : kAffineGradientNdim;
}

llvm::Error refuse_weight_arguments(const minuet_gradient_arguments& given) {
  MINUET_TRY(refuse_without_gradient(given.pairs || given.most_pairs != 0 || given.pair_count,
                                     "pairs, most_pairs or pair_count", "weight"));
  MINUET_TRY(refuse_without_gradient(is_given(given.input), "input", "weight"));
  MINUET_TRY(refuse_without_gradient(given.swapped != 0, "swapped", "weight"));
  return refuse_without_gradient(given.weight_gradient || given.weights_order != 0,
                                 "weight_gradient or weights_order", "weight");
}

llvm::Error compute(const ParameterGradientChoice& choice, const minuet_device& device,
                    const minuet_gradient_arguments& given, void* stream) {
  const ParameterGradientProblem& problem = choice.problem;
  const ConvolutionProblem& forward = problem.forward;
  ParameterGradientRequest request;
  request.choice = &choice;
  std::vector<NamedMemory> written, read;
  const bool on_gpu = !device.open->device()->info().arch.empty();
  MINUET_TRY(check_flags({{given.accumulate, "accumulate"}, {given.swapped, "swapped"}}));
  MINUET_TRY(check_reserved(given.reserved));
  MINUET_ASSIGN(const Tensor gradient,
                read_matrix(given.out_gradient, "out_gradient", forward.out_channels, forward.dtype));
  if (problem.weight) {
    MINUET_TRY(read_weight_arguments(forward, given, on_gpu, request, written, read));
  } else {
    MINUET_TRY(refuse_weight_arguments(given));
  }
  if (problem.bias) {
    MINUET_TRY(check_pointer(given.bias_gradient, "bias_gradient"));
    MINUET_TRY(check_alignment(given.bias_gradient, kWordBytes, "bias_gradient"));
    MINUET_TRY(check_alignment(given.row_count, kWordBytes, "row_count"));
    written.push_back({"bias_gradient", memory_of(given.bias_gradient, forward.out_channels * kWordBytes)});
    read.push_back(optional_memory("row_count", given.row_count, kWordBytes));
  } else {
    MINUET_TRY(refuse_without_gradient(given.bias_gradient || given.row_count, "bias_gradient or row_count",
                                       "bias"));
  }
  request.gradient = gradient.data, request.gradient_rows = gradient.rows, request.gradient_ld = gradient.ld;
  request.gradient_count = given.row_count;
  request.bias_gradient = given.bias_gradient;
  request.adds = given.accumulate != 0;
  request.workspace = given.workspace;
  read.push_back({"out_gradient", memory_of(gradient)});
  return with_loaded_engine(
      device, forward.ndim, "minuet_gradient_op_load", stream, [&](Engine& engine) -> llvm::Error {
        const i64 bytes = engine.gradients().workspace_bytes(choice, given.most_pairs, gradient.rows);
        MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes));
        written.push_back({"workspace", memory_of(given.workspace, bytes)});
        MINUET_TRY(check_apart(written, read));
        return engine.gradients().compute(request);
      });
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_kernel_map_list_pairs(minuet_kernel_map* map, int32_t* pairs, int64_t capacity,
                                           int32_t* count, void* stream) {
  return guarded("minuet_kernel_map_list_pairs", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(map, "map"));
    MINUET_TRY(check_amount(capacity, "capacity"));
    MINUET_TRY(check_array(pairs, capacity, "pairs"));
    MINUET_TRY(check_pointer(count, "count"));
    MINUET_TRY(check_alignment(count, kWordBytes, "count"));
    const NamedMemory written[] = {{"pairs", memory_of(pairs, capacity * 3 * kWordBytes)},
                                   {"count", memory_of(count, kWordBytes)}};
    MINUET_TRY(check_apart(written, {}));
    MINUET_ASSIGN(const auto locked, lock_queue(map->map->queue()));
    return map->map->list_pairs(pairs, capacity, count, stream);
  });
}

minuet_status minuet_plan_create_pooling_gradient(minuet_context* context,
                                                  const minuet_pooling_options* options, minuet_plan** plan) {
  return guarded("minuet_plan_create_pooling_gradient", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(const minuet_pooling_options given,
                  read_options(options, minuet_pooling_options(MINUET_POOLING_OPTIONS_INIT)));
    MINUET_ASSIGN(const PoolingProblem forward, read_pooling_problem(given));
    if (forward.winners) {
      return make_error(StatusCode::InvalidArgument,
                        "winners is set, but the gradient of a pooling writes none: leave it 0. The gradient "
                        "of a maximum reads them in any case");
    }
    MINUET_TRY(validate(forward));
    const PoolingGradientProblem problem = input_gradient_of(forward);
    MINUET_TRY(validate(problem));
    Context& own = *context->context;
    MINUET_ASSIGN(std::shared_ptr<const Plan> made, Plan::create(problem, GivenParameters(), own.tuning()));
    *plan = make_plan(std::move(made), own);
    return llvm::Error::success();
  });
}

minuet_status minuet_gradient_create(minuet_context* context, const minuet_convolution_options* convolution,
                                     minuet_gradient which, minuet_gradient_op** op) {
  return guarded("minuet_gradient_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(convolution, "convolution"));
    return create_single_op(
        context, convolution, minuet_convolution_options(MINUET_CONVOLUTION_OPTIONS_INIT),
        [context, which](const minuet_convolution_options& given) -> llvm::Expected<ParameterGradientChoice> {
          MINUET_ASSIGN(const ParameterGradientProblem problem, read_problem(given, which));
          return choose_parameter_gradient(problem, context->context->tuning().get());
        },
        op);
  });
}

minuet_status minuet_gradient_create_affine(minuet_context* context,
                                            const minuet_affine_gradient_options* affine,
                                            minuet_gradient which, minuet_gradient_op** op) {
  return guarded("minuet_gradient_create_affine", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(affine, "affine"));
    return create_single_op(
        context, affine, minuet_affine_gradient_options(MINUET_AFFINE_GRADIENT_OPTIONS_INIT),
        [which](const minuet_affine_gradient_options& given) { return read_affine_gradient(given, which); },
        op);
  });
}

void minuet_gradient_op_destroy(minuet_gradient_op* op) { delete op; }

minuet_status minuet_gradient_op_load(minuet_gradient_op* op, minuet_device* device) {
  return guarded("minuet_gradient_op_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(device, "device"));
    SourceList kernels;
    const std::string& arch = device->open->device()->info().arch;
    std::visit(
        [&](const auto& choice) {
          if constexpr (std::is_same_v<std::decay_t<decltype(choice)>, ParameterGradientChoice>) {
            add_sources(kernels, choice, arch);
          } else {
            add_sources(kernels, choice);
          }
        },
        op->choice);
    return load_single_op(device, ndim_of(*op), kernels);
  });
}

minuet_status minuet_gradient_bytes(minuet_gradient_op* op, const char* arch, int64_t most_pairs,
                                    int64_t most_rows, int64_t* workspace_bytes) {
  return guarded("minuet_gradient_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_amount(most_pairs, "most_pairs"));
    MINUET_TRY(check_amount(most_rows, "most_rows"));
    return with_measured_engine(*op->context, ndim_of(*op), arch, [&](Engine& engine) {
      const GradientOperations& gradients = engine.gradients();
      const auto* const affine = std::get_if<AffineGradientChoice>(&op->choice);
      *workspace_bytes = affine ? gradients.workspace_bytes(*affine, most_rows)
                                : gradients.workspace_bytes(std::get<ParameterGradientChoice>(op->choice),
                                                            most_pairs, most_rows);
    });
  });
}

minuet_status minuet_gradient_compute(minuet_gradient_op* op, minuet_device* device,
                                      const minuet_gradient_arguments* arguments, void* stream) {
  return guarded("minuet_gradient_compute", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_gradient_arguments given,
                  read_options(arguments, minuet_gradient_arguments(MINUET_GRADIENT_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "gradient");
    if (const auto* const affine = std::get_if<AffineGradientChoice>(&op->choice)) {
      return compute_affine_gradient(*affine, *device, given, stream);
    }
    return compute(std::get<ParameterGradientChoice>(op->choice), *device, given, stream);
  });
}

}  // extern "C"
