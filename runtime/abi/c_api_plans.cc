// Implements the functions of the C ABI for plans of networks and of single ops, and for weights files.
#include <cmath>

#include "llvm/Support/FileSystem.h"
#include "runtime/abi/c_api_internal.h"
#include "runtime/network/shipped_network.h"
#include "runtime/network/weights_convert.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {

minuet_kernel_info kernel_info(const Binary& binary, BinaryOrigin origin) {
  minuet_kernel_info info{};
  info.struct_size = sizeof(info);
  info.name = binary.display_name.c_str();
  info.arch = binary.arch.c_str();
  info.origin = origin_name(origin);
  info.registers = binary.registers;
  info.shared_bytes = binary.shared_bytes;
  info.local_bytes = binary.local_bytes;
  info.cubin_bytes = static_cast<int64_t>(binary.cubin.size());
  info.compile_ms = binary.compile_ms;
  return info;
}

void visit_kernels(const BinaryList& binaries, const std::vector<CacheEvent>& events, std::size_t first_event,
                   minuet_kernel_visitor visit, void* user) {
  if (!visit) return;
  std::map<std::string, BinaryOrigin> origins;
  for (std::size_t i = first_event; i < events.size(); ++i) {
    origins.emplace(events[i].display_name + events[i].arch, events[i].origin);
  }
  for (const std::shared_ptr<const Binary>& binary : binaries) {
    const auto found = origins.find(binary->display_name + binary->arch);
    const BinaryOrigin origin = found == origins.end() ? BinaryOrigin::Memory : found->second;
    const minuet_kernel_info info = kernel_info(*binary, origin);
    visit(&info, user);
  }
}

namespace {

llvm::Expected<NetworkDescription> read_description(const minuet_network_options& given) {
  if ((given.name != nullptr) == (given.description != nullptr)) {
    return make_error(StatusCode::InvalidArgument, "name and description are both {0}: give one of them",
                      given.name ? "given" : "null");
  }
  if (given.description) return parse_network(given.description);
  MINUET_ASSIGN(const llvm::StringRef json, shipped_network(given.name));
  return parse_network(json);
}

llvm::Expected<WeightsOptions> read_weights_options(const minuet_network_options& given,
                                                    const NetworkDescription& description) {
  WeightsOptions options;
  options.order = description.weights_order;
  if (given.weights_order < 0 || given.weights_order > static_cast<i32>(kLastWeightsOrder)) {
    return make_error(StatusCode::InvalidArgument, "the option weights_order is {0}; it must be 0 to {1}",
                      given.weights_order, static_cast<i32>(kLastWeightsOrder));
  }
  options.order_given = given.weights_order != MINUET_WEIGHTS_AS_DESCRIBED;
  if (options.order_given) options.order = static_cast<WeightsOrder>(given.weights_order);
  options.allow_unused = given.allow_unused != 0;
  options.allow_non_finite = given.allow_non_finite_parameters != 0;
  if (given.weights_prefix) options.prefix = given.weights_prefix;
  if (given.weights_key) options.key = given.weights_key;
  if (given.weights_map) {
    MINUET_ASSIGN(options.names, parse_names(given.weights_map));
  } else if (const ShippedNetwork* const network = find_shipped_network(description.name);
             network && network->weights_map) {
    MINUET_ASSIGN(options.names, parse_names(network->weights_map));
    options.names_are_shipped = true;
  }
  return options;
}

llvm::Expected<std::shared_ptr<WeightsFile>> open_weights(const minuet_network_options& given,
                                                          const NetworkDescription& description) {
  MINUET_ASSIGN(WeightsOptions options, read_weights_options(given, description));
  MINUET_ASSIGN(WeightsFile file, WeightsFile::open(given.weights_path, std::move(options)));
  return std::make_shared<WeightsFile>(std::move(file));
}

llvm::Expected<ParameterSource> open_parameters(const minuet_network_options& given,
                                                const NetworkDescription& description) {
  MINUET_TRY(check_flags({{given.allow_unused, "allow_unused"},
                          {given.allow_non_finite_parameters, "allow_non_finite_parameters"},
                          {given.without_values, "without_values"}}));
  if (given.without_values != 0 && (given.weights_path || given.seed != 0)) {
    return make_error(StatusCode::InvalidArgument,
                      "without_values is set, so weights_path must be null and seed 0");
  }
  if (given.weights_path) {
    MINUET_ASSIGN(std::shared_ptr<WeightsFile> file, open_weights(given, description));
    return ParameterSource(std::move(file));
  }
  if (given.weights_order != 0 || given.weights_key || given.weights_prefix || given.weights_map ||
      given.allow_unused != 0 || given.allow_non_finite_parameters != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "weights_order, weights_key, weights_prefix, weights_map, allow_unused and "
        "allow_non_finite_parameters apply to a weights file, but weights_path is null: give it, or leave "
        "them out");
  }
  return given.without_values != 0 ? ParameterSource::without_values() : ParameterSource(given.seed);
}

llvm::Expected<NetworkProblem> read_network(const minuet_network_options& given) {
  NetworkProblem problem;
  MINUET_ASSIGN(problem.description, read_description(given));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  MINUET_ASSIGN(problem.dataflow, read_dataflow(given.dataflow));
  problem.ndim = given.ndim;
  MINUET_TRY(check_list(given.channels, "channels", given.channel_count, "channel_count"));
  if (given.channels) problem.channels.assign(given.channels, given.channels + given.channel_count);
  MINUET_TRY(check_list(given.shape, "shape", given.shape_count, "shape_count"));
  if (given.shape) problem.shape.assign(given.shape, given.shape + given.shape_count);
  problem.in_channels = given.in_channels;
  return problem;
}

/// Reads the options that convolutions and poolings have in common.
template <class Options>
llvm::Error read_window(WindowProblem& problem, const Options& given) {
  MINUET_ASSIGN(const i32 ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  MINUET_ASSIGN(problem.stride, read_axes(given.stride, ndim, "stride"));
  return read_kernel(given, ndim, problem);
}

/// Returns the kind of an op that runs on a kernel map of the caller. The kind says how the op's output
/// coordinates follow from its input coordinates.
llvm::Expected<ConvolutionKind> read_kind(int32_t submanifold, int32_t transposed,
                                          const WindowProblem& problem) {
  MINUET_TRY(check_flags({{submanifold, "submanifold"}, {transposed, "transposed"}}));
  if (submanifold && transposed) {
    return make_error(StatusCode::InvalidArgument,
                      "submanifold and transposed are both set: an op can be only one of them");
  }
  if (submanifold) return ConvolutionKind::Submanifold;
  if (transposed) return ConvolutionKind::Transposed;
  const bool strided = problem.stride != AxisArray{1, 1, 1, 1} || problem.padding;
  return strided ? ConvolutionKind::Strided : ConvolutionKind::GivenOutputs;
}

llvm::Error read_activation(const minuet_convolution_options& given, ConvolutionProblem& problem) {
  if (!std::isfinite(given.negative_slope)) {
    return make_error(StatusCode::InvalidArgument, "negative_slope is {0}; it must be finite",
                      number_text(given.negative_slope));
  }
  if (given.activation < 0 || given.activation >= kActivations) {
    return make_error(StatusCode::InvalidArgument, "activation is {0}; it must be 0 to {1}", given.activation,
                      kActivations - 1);
  }
  const auto activation = static_cast<Activation>(given.activation);
  if (given.negative_slope != 0 && activation != Activation::LeakyReLU) {
    return make_error(
        StatusCode::InvalidArgument,
        "negative_slope belongs to a leaky ReLU, but activation is {0} ({1}): set activation to "
        "{2}",
        given.activation, kActivationNames[given.activation], static_cast<int>(MINUET_ACTIVATION_LEAKY_RELU));
  }
  problem.set_activation(activation, given.negative_slope);
  return llvm::Error::success();
}

/// Returns InvalidArgument unless `count` is `wanted`, or 0 if `values` is null. `of_what` tells in the
/// message why `wanted` values are required.
llvm::Error check_floats(const float* values, const char* name, int64_t count, i64 wanted,
                         const std::string& of_what) {
  if (count == (values ? wanted : 0)) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0}_count is {1}; it must be {2}, {3}", name, count,
                    values ? wanted : 0, values ? of_what : "because " + std::string(name) + " is null");
}

/// Checks the counts of a convolution without values, which say which parameters it has.
llvm::Error check_counts_alone(const minuet_convolution_options& given, i64 weights, i64 channels) {
  if (given.weight || given.scale || given.shift) {
    return make_error(StatusCode::InvalidArgument,
                      "without_values is set, so weight, scale and shift must be null");
  }
  if (given.weight_count != weights) {
    return make_error(StatusCode::InvalidArgument, "weight_count is {0}; it must be {1}", given.weight_count,
                      weights);
  }
  if (given.scale_count != given.shift_count || (given.scale_count != 0 && given.scale_count != channels)) {
    return make_error(
        StatusCode::InvalidArgument,
        "scale_count is {0} and shift_count is {1}; without values, both must be 0, or both {2}, one "
        "for each output channel: set the scale to 1 if there is only a bias",
        given.scale_count, given.shift_count, channels);
  }
  return llvm::Error::success();
}

llvm::Error check_counts(const minuet_convolution_options& given, const ConvolutionProblem& problem) {
  const i64 volume = kernel_volume(problem), in = problem.in_channels / problem.groups;
  const i64 out = problem.out_channels;
  if (given.without_values != 0) return check_counts_alone(given, volume * in * out, out);
  MINUET_TRY(check_pointer(given.weight, "weight"));
  const std::string weights = llvm::formatv(
      "for a kernel of {0} offsets, {1} input channels per group and {2} output channels", volume, in, out);
  MINUET_TRY(check_floats(given.weight, "weight", given.weight_count, volume * in * out, weights));
  const std::string channels = "one for each output channel";
  MINUET_TRY(check_floats(given.scale, "scale", given.scale_count, out, channels));
  return check_floats(given.shift, "shift", given.shift_count, out, channels);
}

/// Reads the parameters of a convolution. If only one of scale and shift is given, this function stores ones
/// for a missing scale or zeros for a missing shift in `beside`, and the result points into `beside`.
llvm::Expected<GivenParameters> read_parameters(const minuet_convolution_options& given,
                                                const ConvolutionProblem& problem, LayerParameters& beside) {
  MINUET_TRY(check_counts(given, problem));
  GivenParameters parameters;
  if (given.without_values != 0) return parameters;
  parameters.weight = {given.weight, static_cast<std::size_t>(given.weight_count)};
  if (!problem.scale_shift) return parameters;
  const auto channels = static_cast<std::size_t>(problem.out_channels);
  if (!given.scale) beside.scale.assign(channels, 1.0f);
  if (!given.shift) beside.shift.assign(channels, 0.0f);
  parameters.scale = {given.scale ? given.scale : beside.scale.data(), channels};
  parameters.shift = {given.shift ? given.shift : beside.shift.data(), channels};
  return parameters;
}

}  // namespace

llvm::Expected<ConvolutionProblem> read_convolution_problem(const minuet_convolution_options& given) {
  ConvolutionProblem problem;
  MINUET_TRY(read_window(problem, given));
  problem.in_channels = given.in_channels;
  problem.out_channels = given.out_channels;
  problem.groups = given.groups == 0 ? 1 : given.groups;
  MINUET_ASSIGN(problem.kind, read_kind(given.submanifold, given.transposed, problem));
  MINUET_TRY(read_activation(given, problem));
  MINUET_TRY(check_flags({{given.residual, "residual"},
                          {given.without_values, "without_values"},
                          {given.allow_non_finite_parameters, "allow_non_finite_parameters"}}));
  problem.residual = given.residual != 0;
  problem.scale_shift = given.scale_count != 0 || given.shift_count != 0;
  MINUET_TRY(validate(problem));
  return problem;
}

llvm::Expected<PoolingProblem> read_pooling_problem(const minuet_pooling_options& given) {
  PoolingProblem problem;
  MINUET_TRY(read_window(problem, given));
  problem.channels = given.channels;
  if (given.reduction < MINUET_REDUCE_MAX || given.reduction > MINUET_REDUCE_SUM) {
    return make_error(StatusCode::InvalidArgument, "reduction is {0}; it must be 0 to {1}", given.reduction,
                      static_cast<int>(MINUET_REDUCE_SUM));
  }
  problem.reduction = static_cast<Reduction>(given.reduction);
  MINUET_TRY(check_flags({{given.winners, "winners"}}));
  problem.winners = given.winners != 0;
  MINUET_ASSIGN(problem.kind, read_kind(given.submanifold, given.transposed, problem));
  return problem;
}

minuet_plan* make_plan(std::shared_ptr<const Plan> plan, const Context& context) {
  auto made = std::make_unique<minuet_plan>();
  made->parameters = plan->parameter_list();
  made->cpu_threads = context.cpu_threads();
  made->store = std::make_shared<PlanStore>(std::move(plan), context.cache());
  return made.release();
}

namespace {

/// Checks the pointer arguments that all functions that create a plan have in common.
llvm::Error check_create(const minuet_context* context, const void* options, minuet_plan* const* plan) {
  MINUET_TRY(check_pointer(context, "context"));
  MINUET_TRY(check_pointer(options, "options"));
  return check_pointer(plan, "plan");
}

/// Creates a plan of a single op that is given no parameters.
llvm::Error make_plan(const OpProblem& op, const Context& context, minuet_plan** plan) {
  MINUET_ASSIGN(std::shared_ptr<const Plan> made, Plan::create(op, {}, context.tuning()));
  *plan = make_plan(std::move(made), context);
  return llvm::Error::success();
}

llvm::Expected<minuet_convolution_options> read_convolution(const minuet_convolution_options* options) {
  return read_options(options, minuet_convolution_options(MINUET_CONVOLUTION_OPTIONS_INIT));
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_query_shipped_network(int32_t index, minuet_shipped_network_info* info) {
  return guarded("minuet_query_shipped_network", [&]() -> llvm::Error {
    MINUET_TRY(check_info(info, "info"));
    const llvm::ArrayRef<ShippedNetwork> networks = shipped_networks();
    if (index < 0 || static_cast<std::size_t>(index) >= networks.size()) {
      return make_error(StatusCode::OutOfRange, "index is {0}, but there are {1} shipped networks", index,
                        networks.size());
    }
    const ShippedNetwork& network = networks[static_cast<std::size_t>(index)];
    minuet_shipped_network_info answer{};
    answer.name = network.name;
    answer.summary = network.summary;
    answer.description = network.json;
    answer.weights_map = network.weights_map;
    for (int axis = 0; axis < 3; ++axis) {
      answer.range_low[axis] = network.grid.range[axis];
      answer.range_high[axis] = network.grid.range[3 + axis];
      answer.voxel_size[axis] = network.grid.voxel_size[axis];
      answer.extra_cells[axis] = network.grid.extra_cells[axis];
    }
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_plan_create_network(minuet_context* context, const minuet_network_options* options,
                                         minuet_plan** plan) {
  return guarded("minuet_plan_create_network", [&]() -> llvm::Error {
    MINUET_TRY(check_create(context, options, plan));
    MINUET_ASSIGN(const minuet_network_options given,
                  read_options(options, minuet_network_options(MINUET_NETWORK_OPTIONS_INIT)));
    const Trace::Span span(context->context->cache()->trace(), "plan", "create");
    MINUET_ASSIGN(NetworkProblem problem, read_network(given));
    MINUET_ASSIGN(const ParameterSource parameters, open_parameters(given, problem.description));
    MINUET_ASSIGN(std::shared_ptr<const Plan> made,
                  Plan::create(std::move(problem), parameters, context->context->tuning()));
    *plan = make_plan(std::move(made), *context->context);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_create_convolution(minuet_context* context,
                                             const minuet_convolution_options* options, minuet_plan** plan) {
  return guarded("minuet_plan_create_convolution", [&]() -> llvm::Error {
    MINUET_TRY(check_create(context, options, plan));
    MINUET_ASSIGN(const minuet_convolution_options given, read_convolution(options));
    MINUET_ASSIGN(ConvolutionProblem problem, read_convolution_problem(given));
    MINUET_ASSIGN(problem.dataflow, read_dataflow(given.dataflow));
    LayerParameters beside;
    MINUET_ASSIGN(const GivenParameters parameters, read_parameters(given, problem, beside));
    Context& own = *context->context;
    std::shared_ptr<const Plan> made;
    if (given.without_values != 0) {
      MINUET_ASSIGN(made, Plan::create_without_values(problem, own.tuning()));
    } else {
      MINUET_ASSIGN(made,
                    Plan::create(problem, parameters, own.tuning(), given.allow_non_finite_parameters != 0));
    }
    *plan = make_plan(std::move(made), own);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_create_convolution_gradient(minuet_context* context,
                                                      const minuet_convolution_options* options,
                                                      minuet_gradient which, minuet_plan** plan) {
  return guarded("minuet_plan_create_convolution_gradient", [&]() -> llvm::Error {
    MINUET_TRY(check_create(context, options, plan));
    MINUET_ASSIGN(const minuet_convolution_options given, read_convolution(options));
    MINUET_ASSIGN(ConvolutionProblem forward, read_convolution_problem(given));
    if (which < 1 || which > (MINUET_GRADIENT_INPUT | MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS)) {
      return make_error(StatusCode::InvalidArgument,
                        "the gradients are {0}; they must be 1 (of the input), 2 (of the weight), 4 (of the "
                        "bias), or several of them, or-ed",
                        which);
    }
    if (which != MINUET_GRADIENT_INPUT) {
      return make_error(StatusCode::Unimplemented,
                        "a plan computes the gradient of the input alone: use minuet_gradient_create for "
                        "those of the weight and the bias");
    }
    MINUET_TRY(check_differentiable(forward));
    MINUET_ASSIGN(forward.dataflow, read_dataflow(given.dataflow));
    MINUET_TRY(check_counts(given, forward));
    const ConvolutionProblem problem = input_gradient_of(forward);
    MINUET_TRY(validate(problem));
    GivenParameters parameters;
    parameters.weight = {given.weight, static_cast<std::size_t>(given.weight_count)};
    Context& own = *context->context;
    std::shared_ptr<const Plan> made;
    if (given.without_values != 0) {
      MINUET_ASSIGN(made, Plan::create_without_values(problem, own.tuning()));
    } else {
      MINUET_ASSIGN(made,
                    Plan::create(problem, parameters, own.tuning(), given.allow_non_finite_parameters != 0));
    }
    *plan = make_plan(std::move(made), own);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_create_pooling(minuet_context* context, const minuet_pooling_options* options,
                                         minuet_plan** plan) {
  return guarded("minuet_plan_create_pooling", [&]() -> llvm::Error {
    MINUET_TRY(check_create(context, options, plan));
    MINUET_ASSIGN(const minuet_pooling_options given,
                  read_options(options, minuet_pooling_options(MINUET_POOLING_OPTIONS_INIT)));
    MINUET_ASSIGN(const PoolingProblem problem, read_pooling_problem(given));
    return make_plan(problem, *context->context, plan);
  });
}

void minuet_plan_destroy(minuet_plan* plan) { delete plan; }

minuet_status minuet_plan_compile(minuet_plan* plan, const char* arch, minuet_kernel_visitor visit,
                                  void* user) {
  return guarded("minuet_plan_compile", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(const std::string known, read_arch(arch));
    const KernelCache& cache = plan->store->cache();
    // The cache records an event for each kernel, except those that it finds in memory. The events from this
    // number on belong to compile().
    const std::size_t first_event = cache.events().size();
    MINUET_ASSIGN(const BinaryList binaries, plan->store->compile(known));
    visit_kernels(binaries, cache.events(), first_event, visit, user);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_load(minuet_plan* plan, minuet_device* device) {
  return guarded("minuet_plan_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(device, "device"));
    const Trace::Span span(device->open->trace(), "plan", "load onto the device");
    return plan->store->load(device->open->device());
  });
}

minuet_status minuet_plan_query(minuet_plan* plan, minuet_plan_info* info) {
  return guarded("minuet_plan_query", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    const Program& program = plan->store->plan().program;
    minuet_plan_info answer{};
    answer.name = program.name.c_str();
    answer.dtype = static_cast<minuet_dtype>(program.dtype);
    answer.ndim = program.ndim;
    answer.in_channels = program.tensors[program.inputs[0]].channels;
    answer.out_channels = program.tensors[program.outputs[0]].channels;
    answer.levels = static_cast<int32_t>(program.levels.size());
    answer.layers = static_cast<int32_t>(program.layers.size());
    answer.output_level = program.tensors[program.outputs[0]].level;
    answer.inputs = static_cast<int32_t>(program.inputs.size());
    answer.outputs = program.output_count();
    answer.maps = program.takes_maps ? static_cast<int32_t>(program.maps.size()) : 0;
    answer.missing_head = program.is_head_missing ? 1 : 0;
    answer.parameter_tensors = static_cast<int32_t>(plan->parameters.size());
    answer.parameters = plan->store->plan().parameter_count();
    for (const ProgramLayer& layer : program.layers) {
      answer.convolutions += convolution_of(layer) != nullptr ? 1 : 0;
      answer.int8_convolutions += layer.is_int8 ? 1 : 0;
    }
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_plan_query_parameter(minuet_plan* plan, int32_t parameter, minuet_parameter_info* info) {
  return guarded("minuet_plan_query_parameter", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_parameter_number(parameter, plan->parameters.size()));
    const PlanParameter& name = plan->parameters[parameter];
    minuet_parameter_info answer{};
    answer.name = name.name.c_str();
    answer.rank = static_cast<int32_t>(name.shape.size());
    std::copy(name.shape.begin(), name.shape.end(), answer.shape);
    return write_info(answer, info, "info");
  });
}

minuet_status minuet_weights_convert(const minuet_network_options* options, const char* output_path) {
  return guarded("minuet_weights_convert", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(output_path, "output_path"));
    MINUET_ASSIGN(const minuet_network_options given,
                  read_options(options, minuet_network_options(MINUET_NETWORK_OPTIONS_INIT)));
    MINUET_TRY(check_pointer(given.weights_path, "weights_path"));
    if (llvm::sys::fs::equivalent(given.weights_path, output_path)) {
      return make_error(StatusCode::InvalidArgument, "{0} is the weights file itself: name another output",
                        output_path);
    }
    MINUET_ASSIGN(NetworkProblem problem, read_network(given));
    MINUET_ASSIGN(const std::shared_ptr<WeightsFile> file, open_weights(given, problem.description));
    // Plan::create() checks the weights as in minuet_plan_create_network(), so the errors are the same.
    MINUET_ASSIGN(const std::shared_ptr<const Plan> plan,
                  Plan::create(std::move(problem), ParameterSource(file)));
    MINUET_ASSIGN(const auto tensors, tensors_of(*file, plan->program));
    return write_safetensors_file(output_path, tensors,
                                  {{kWeightsOrderMark, weights_order_name(WeightsOrder::Minuet)}});
  });
}
}
