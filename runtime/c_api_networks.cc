// The C ABI: networks made from their options, and their weights files.
#include "llvm/Support/FileSystem.h"
#include "runtime/c_api_internal.h"
#include "runtime/weights_convert.h"

namespace minuet {
namespace {

llvm::Expected<NetworkDescription> read_description(const minuet_network_options& given) {
  if ((given.name != nullptr) == (given.description != nullptr)) {
    return make_error(StatusCode::InvalidArgument,
                      "give either the name of a shipped network or a description");
  }
  if (given.description) return parse_network(given.description);
  MINUET_ASSIGN(const llvm::StringRef json, shipped_network(given.name));
  return parse_network(json);
}

llvm::Expected<WeightsOptions> read_weights_options(const minuet_network_options& given,
                                                    WeightsOrder described) {
  WeightsOptions options;
  options.order = described;
  if (given.weights_order < 0 || given.weights_order > MINUET_WEIGHTS_SPCONV_XYZ) {
    return make_error(StatusCode::InvalidArgument, "the option weights_order is {0}; it must be 0 to {1}",
                      given.weights_order, static_cast<int>(MINUET_WEIGHTS_SPCONV_XYZ));
  }
  options.order_given = given.weights_order != MINUET_WEIGHTS_AS_DESCRIBED;
  if (options.order_given) options.order = static_cast<WeightsOrder>(given.weights_order);
  options.allow_unused = given.allow_unused != 0;
  if (given.weights_prefix) options.prefix = given.weights_prefix;
  if (given.weights_map) {
    MINUET_ASSIGN(options.names, parse_names(given.weights_map));
  }
  return options;
}

llvm::Expected<std::shared_ptr<const WeightsFile>> open_weights(const minuet_network_options& given,
                                                                const NetworkDescription& description) {
  MINUET_ASSIGN(WeightsOptions options, read_weights_options(given, description.weights_order));
  MINUET_ASSIGN(WeightsFile file, WeightsFile::open(given.weights_path, std::move(options)));
  return std::make_shared<const WeightsFile>(std::move(file));
}

llvm::Expected<ParameterSource> open_parameters(const minuet_network_options& given,
                                                const NetworkDescription& description) {
  if (given.weights_path) {
    MINUET_ASSIGN(std::shared_ptr<const WeightsFile> file, open_weights(given, description));
    return ParameterSource(std::move(file));
  }
  if (given.weights_order != 0 || given.weights_prefix || given.weights_map || given.allow_unused != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "weights_order, weights_prefix, weights_map and allow_unused say how a weights file is read, "
        "and none is given");
  }
  return ParameterSource(given.seed);
}

llvm::Expected<NetworkProblem> read_network(const minuet_network_options& given) {
  NetworkProblem problem;
  MINUET_ASSIGN(problem.description, read_description(given));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.ndim = given.ndim;
  if (given.channel_count < 0 || (given.channel_count > 0 && !given.channels)) {
    return make_error(StatusCode::InvalidArgument,
                      "channel_count is {0} and channels is {1}: give the widths and how many they are",
                      given.channel_count, given.channels ? "not null" : "null");
  }
  if (given.channels) problem.channels.assign(given.channels, given.channels + given.channel_count);
  return problem;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: the ABI's functions are global

extern "C" {

minuet_status minuet_network_create(minuet_context* context, const minuet_network_options* options,
                                    minuet_network** network) {
  return guarded("minuet_network_create", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_TRY(check_pointer(network, "network"));
    MINUET_ASSIGN(const minuet_network_options given,
                  read_options(options, minuet_network_options(MINUET_NETWORK_OPTIONS_INIT)));
    MINUET_ASSIGN(NetworkProblem problem, read_network(given));
    MINUET_ASSIGN(const ParameterSource parameters, open_parameters(given, problem.description));
    MINUET_ASSIGN(std::shared_ptr<const NetworkPlan> plan,
                  NetworkPlan::create(std::move(problem), parameters, context->context->tuning()));
    *network = new minuet_network{plan, std::make_shared<PlanResidence>(plan, context->context->cache())};
    return llvm::Error::success();
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
    MINUET_ASSIGN(const std::shared_ptr<const WeightsFile> file, open_weights(given, problem.description));
    // As create does it, so that it refuses what create refuses.
    MINUET_ASSIGN(const std::shared_ptr<const NetworkPlan> plan,
                  NetworkPlan::create(std::move(problem), ParameterSource(file), /*tuning=*/nullptr));
    MINUET_ASSIGN(const auto tensors, tensors_of(*file, plan->program));
    return write_safetensors_file(output_path, tensors,
                                  {{kWeightsOrderMark, weights_order_name(WeightsOrder::Minuet)}});
  });
}

}  // extern "C"
