// Implements the functions of the C ABI for tuning.
#include "minuet/tuning.h"

#include <chrono>
#include <limits>

#include "codegen/choose/ops/parameter_gradient.h"
#include "llvm/Support/Path.h"
#include "runtime/abi/c_api_internal.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/tuning/tune_network.h"

namespace minuet {

llvm::Expected<std::string> read_tuning_directory(const char* directory) {
  if (!directory) return std::string();
  if (llvm::sys::path::is_absolute(directory)) return std::string(directory);
  return make_error(StatusCode::InvalidArgument,
                    "the directory '{0}' is not an absolute path: give one that is", directory);
}

llvm::Expected<TuningStore> open_tuning_store(Context& context, const char* directory) {
  MINUET_ASSIGN(const std::string folder, read_tuning_directory(directory));
  std::optional<TuningStore> store = context.tuning_store(folder);
  if (store) return std::move(*store);
  return make_error(StatusCode::FailedPrecondition,
                    "the context has no cache folder to keep tuning results in: name a directory");
}

namespace {

constexpr i32 kLeastRepeats = 3, kMostRepeats = 10000;
constexpr double kDefaultBudget = 120;

std::string config_text(const TuningConfig& config) {
  std::string text;
  for (const auto& [name, value] : config) {
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
  }
  return text;
}

llvm::Error check_tuning(const minuet_tuning_options& given) {
  if (given.cloud_count < 1 || !given.clouds) {
    return make_error(StatusCode::InvalidArgument,
                      "tuning needs at least one cloud to measure on: give clouds and cloud_count");
  }
  for (int32_t i = 0; i < given.cloud_count; ++i) {
    if (given.clouds[i].count < 1 || !given.clouds[i].coordinates) {
      return make_error(StatusCode::InvalidArgument,
                        "cloud {0} has no coordinates: give at least one, or leave the cloud out", i);
    }
    const std::string name = "the array of coordinates of cloud " + std::to_string(i);
    MINUET_TRY(check_alignment(given.clouds[i].coordinates, sizeof(int32_t), name.c_str()));
  }
  MINUET_TRY(check_flags({{given.exhaustive, "exhaustive"}}));
  if (given.training < 0 || given.training > 2) {
    return make_error(StatusCode::InvalidArgument, "training is {0}; it must be 0 to 2", given.training);
  }
  if (given.repeats != 0 && (given.repeats < kLeastRepeats || given.repeats > kMostRepeats)) {
    return make_error(StatusCode::InvalidArgument, "repeats is {0}; it must be 0, or {1} to {2}",
                      given.repeats, kLeastRepeats, kMostRepeats);
  }
  if (!(given.budget_seconds >= 0)) {
    return make_error(StatusCode::InvalidArgument, "budget_seconds is {0}; it must be 0 or more",
                      given.budget_seconds);
  }
  return llvm::Error::success();
}

void tell_progress(const minuet_tuning_options& given, const TuneProgress& progress) {
  minuet_tuning_progress told{};
  told.struct_size = sizeof(told);
  told.step = progress.step;
  told.rounds = progress.search.rounds;
  told.most_rounds = progress.search.most_rounds;
  told.seconds_left = progress.search.seconds_left;
  given.progress(&told, given.user);
}

[[gnu::cold]] TuneOptions tune_options(const minuet_tuning_options& given) {
  TuneOptions options;
  for (int32_t i = 0; i < given.cloud_count; ++i) {
    options.meter.clouds.push_back({given.clouds[i].coordinates, given.clouds[i].count});
  }
  options.meter.repeats = given.repeats;
  if (given.cancelled) options.meter.cancelled = [&given] { return given.cancelled(given.user) != 0; };
  options.budget_seconds = given.budget_seconds > 0 ? given.budget_seconds : kDefaultBudget;
  options.exhaustive = given.exhaustive != 0;
  options.scope = static_cast<TuneScope>(given.training);
  if (given.progress) {
    options.progress = [&given](const TuneProgress& progress) { tell_progress(given, progress); };
  }
  if (given.skipped) {
    options.skipped = [&given](const TuningBucket& bucket, const TuningConfig& config,
                               const std::string& reason) {
      const std::string text = config_text(config);
      const minuet_tuning_skip told{sizeof(told), operation_name(bucket.operation), text.c_str(),
                                    reason.c_str()};
      given.skipped(&told, given.user);
    };
  }
  return options;
}

[[gnu::cold]] void visit_result(const TunedResult& result, const std::string& layer,
                                const TuningBucket& bucket, minuet_tuned_visitor visit, void* user) {
  const std::string chosen = config_text(result.best.config), otherwise = config_text(result.default_config);
  const bool any_density = bucket.log4_density == kAnyDensity;
  minuet_tuned_choice told{};
  told.struct_size = sizeof(told);
  told.layer = layer.c_str();
  told.operation = operation_name(bucket.operation);
  told.chosen = chosen.c_str();
  told.otherwise = otherwise.c_str();
  told.origin = result.layer.c_str();
  told.least_rows = i64{1} << bucket.log2_rows;
  told.most_rows = 2 * told.least_rows - 1;
  told.chosen_ns = result.best.median_ns;
  told.default_ns = result.default_ns;
  told.least_density = any_density ? 0 : least_density_of(bucket.log4_density);
  told.most_density =
      any_density ? std::numeric_limits<double>::infinity() : least_density_of(bucket.log4_density + 1);
  visit(&told, user);
}

/// Visits all tuning results whose key (TuningBucket) equals `bucket` in everything but the number of rows
/// and the density.
[[gnu::cold]] void visit_bucket(const TuningSnapshot& tuning, const std::string& layer, TuningBucket bucket,
                                minuet_tuned_visitor visit, void* user) {
  constexpr i64 kMostLog2Rows = 30;
  const i64 densest =
      is_of_layer(bucket.operation) ? log4_of(static_cast<double>(bucket.volume)) : kAnyDensity;
  for (bucket.log2_rows = 0; bucket.log2_rows <= kMostLog2Rows; ++bucket.log2_rows) {
    for (bucket.log4_density = kAnyDensity; bucket.log4_density <= densest; ++bucket.log4_density) {
      const TunedResult* const result = tuning.find_exactly(bucket);
      if (result) visit_result(*result, layer, bucket, visit, user);
    }
  }
}

/// Returns the buckets in which the gradients of a layer may be tuned, without a number of rows. Layers
/// that are the gradient of an input themselves, and those with 8-bit tensors, have none.
std::vector<TuningBucket> buckets_of_gradients(const ConvolutionProblem& forward) {
  std::vector<TuningBucket> buckets;
  if (forward.gradient_of || has_integers(forward)) return buckets;
  if (is_gradient_tunable(forward)) buckets.push_back(weight_gradient_bucket(forward, 0));
  const ConvolutionProblem of_input = input_gradient_of(forward);
  if (is_tunable(of_input)) buckets.push_back(layer_bucket(Operation::Fused, of_input, 0));
  return buckets;
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_tune(minuet_context* context, minuet_plan* plan, minuet_device* device,
                          const minuet_tuning_options* options, minuet_tuning_result* result) {
  return guarded("minuet_tune", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(plan, "plan"));
    if (!plan->store->plan().has_values) {
      return make_error(
          StatusCode::FailedPrecondition,
          "the plan was created without values: tune the same plan with values, even random ones");
    }
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(options, "options"));
    if (result) MINUET_TRY(check_info(result, "result"));
    MINUET_ASSIGN(const minuet_tuning_options given,
                  read_options(options, minuet_tuning_options(MINUET_TUNING_OPTIONS_INIT)));
    MINUET_TRY(check_tuning(given));
    MINUET_ASSIGN(TuningStore store, open_tuning_store(*context->context, given.directory));
    Context& shared = *context->context;
    MINUET_ASSIGN(TuningEnvironment environment,
                  shared.tuning_environment_of(device->open->device()->info()));
    const auto start = std::chrono::steady_clock::now();
    MINUET_ASSIGN(const TuneSummary done,
                  tune_network(plan->store->shared_plan(), shared.cache(), std::move(environment),
                               device->open->device(), store, tune_options(given)));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (result) {
      minuet_tuning_result answer{};
      answer.tried = done.tried;
      answer.skipped = done.skipped;
      answer.decided = done.decided;
      answer.won = done.won;
      answer.untuned_ms = static_cast<double>(done.untuned_ns) * 1e-6;
      answer.tuned_ms = static_cast<double>(done.tuned_ns) * 1e-6;
      answer.seconds = seconds.count();
      MINUET_TRY(write_info(answer, result, "result"));
    }
    if (!done.stopped) return llvm::Error::success();
    return make_error(StatusCode::Cancelled, "stopped after {0} candidates; {1} results are kept", done.tried,
                      done.decided);
  });
}

minuet_status minuet_context_load_tuning(minuet_context* context, minuet_device* device,
                                         const char* directory, int64_t* results) {
  return guarded("minuet_context_load_tuning", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_ASSIGN(const std::string folder, read_tuning_directory(directory));
    MINUET_ASSIGN(const std::size_t count,
                  context->context->load_tuning(device->open->device()->info(), folder));
    if (results) *results = static_cast<int64_t>(count);
    return llvm::Error::success();
  });
}

minuet_status minuet_plan_visit_tuning(minuet_plan* plan, minuet_tuned_visitor visit, void* user) {
  return guarded("minuet_plan_visit_tuning", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_TRY(check_pointer(reinterpret_cast<const void*>(visit), "visit"));
    const Plan& own = plan->store->plan();
    if (!own.tuning) return llvm::Error::success();
    for (const ProgramLayer& layer : own.program.layers) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      if (problem == nullptr) continue;
      for (const TuningBucket& bucket : buckets_of_layer(*problem, 0)) {
        visit_bucket(*own.tuning, layer.name, bucket, visit, user);
      }
      for (const TuningBucket& bucket : buckets_of_gradients(*problem)) {
        visit_bucket(*own.tuning, layer.name, bucket, visit, user);
      }
    }
    for (const TuningBucket& bucket : buckets_of_network(own.program)) {
      visit_bucket(*own.tuning, "", bucket, visit, user);
    }
    return llvm::Error::success();
  });
}
}
