// Implements the functions of the C ABI for compilation ahead of time.
#include <chrono>
#include <iterator>
#include <optional>

#include "codegen/ahead/precompile.h"
#include "codegen/base/own_thread.h"
#include "llvm/Support/MemoryBuffer.h"
#include "minuet/tuning.h"
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

constexpr auto kCancelPollInterval = std::chrono::milliseconds(100);

llvm::Expected<std::vector<std::string>> read_archs(const minuet_precompile_options& given) {
  std::vector<std::string> archs;
  MINUET_TRY(check_list(given.archs, "archs", given.arch_count, "arch_count"));
  for (int32_t i = 0; i < given.arch_count; ++i) {
    const std::string name = "archs[" + std::to_string(i) + "]";
    MINUET_ASSIGN(std::string arch, read_arch(given.archs[i], name));
    if (arch.empty()) {
      return make_error(StatusCode::InvalidArgument,
                        "{0} is cpu, and the CPU has no kernels to compile ahead: name GPUs, such as sm_90a",
                        name);
    }
    archs.push_back(std::move(arch));
  }
  return archs;
}

/// Adds the kernels that are listed in the file `path` to `requests`. Other processes recorded there which
/// kernels they needed. The kernels are compiled for `archs`, or for the recorded architectures if `archs` is
/// empty.
llvm::Error add_recorded(KernelCache& cache, const char* path, const std::vector<std::string>& archs,
                         std::vector<KernelRequest>& requests) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file) {
    return make_error(StatusCode::NotFound, "cannot read the recorded kernels of '{0}': {1}", path,
                      system_text(file.getError()));
  }
  std::vector<int> truncated_lines;
  llvm::Expected<std::vector<RecordedRequest>> recorded =
      read_requests((*file)->getBuffer(), &truncated_lines);
  if (!recorded) return annotate(recorded.takeError(), "'" + std::string(path) + "'");
  for (const int line : truncated_lines) {
    cache.warn("'" + std::string(path) + "': line " + std::to_string(line) +
               " is ignored, because it was not written completely");
  }
  for (const RecordedRequest& line : *recorded) {
    if (!line.is_same_version) {
      cache.warn("'" + std::string(path) +
                 "' was recorded by another version of Minuet: the kernels are compiled for this version, "
                 "and the other version cannot use them");
    }
    if (archs.empty()) requests.push_back(line.request);
    for (const std::string& arch : archs) requests.push_back({line.request.source, arch});
  }
  return llvm::Error::success();
}

/// Returns the kernels that given.plans and given.requests_path need. If `results` is not null, its tuning
/// results for the requested architectures are stored in `tuning` and decide which kernels the plans need.
llvm::Expected<std::vector<KernelRequest>> read_requests_of(KernelCache& cache,
                                                            const minuet_precompile_options& given,
                                                            TuningStore* results, ArchTuning& tuning) {
  MINUET_ASSIGN(const std::vector<std::string> archs, read_archs(given));
  MINUET_TRY(check_list(given.plans, "plans", given.plan_count, "plan_count"));
  if (given.plan_count > 0 && archs.empty())
    return make_error(StatusCode::InvalidArgument, "arch_count is 0: give an architecture such as sm_90a");
  if (given.plan_count == 0 && !given.requests_path) {
    return make_error(StatusCode::InvalidArgument, "nothing to compile: give plans or requests_path");
  }
  std::vector<KernelRequest> requests;
  if (results) {
    if (archs.empty()) {
      return make_error(
          StatusCode::InvalidArgument,
          "arch_count is 0, and tuning results belong to an architecture: give one such as sm_90a");
    }
    MINUET_ASSIGN(const NvrtcInfo compiler, cache.compiler_info());
    const auto warn = [&](const std::string& text) { cache.warn(text); };
    // Plans compute no gradients of weights, but a program that recorded its kernels may.
    const bool may_train = given.requests_path != nullptr;
    MINUET_ASSIGN(tuning, read_tuning_for(*results, archs, toolkit_of(compiler.id), may_train, warn));
    for (const auto& [arch, entries] : tuning) {
      std::vector<KernelRequest> kernels = weight_gradient_requests(entries, arch);
      std::move(kernels.begin(), kernels.end(), std::back_inserter(requests));
    }
  }
  for (int32_t i = 0; i < given.plan_count; ++i) {
    MINUET_TRY(check_pointer(given.plans[i], "a plan"));
    for (const std::string& arch : archs) {
      const auto tuned = tuning.find(arch);
      MINUET_ASSIGN(std::vector<KernelRequest> kernels,
                    requests_ahead(given.plans[i]->store->plan(), arch,
                                   tuned == tuning.end() ? std::vector<TuningEntry>() : tuned->second));
      std::move(kernels.begin(), kernels.end(), std::back_inserter(requests));
    }
  }
  if (given.requests_path) MINUET_TRY(add_recorded(cache, given.requests_path, archs, requests));
  return requests;
}

void report_step(const minuet_precompile_options& given, const PrecompileStep& step) {
  if (!given.step) return;
  minuet_kernel_info kernel{};
  if (step.binary) kernel = kernel_info(*step.binary, step.origin);
  minuet_precompile_step told{};
  told.struct_size = sizeof(told);
  told.done = static_cast<int64_t>(step.done);
  told.total = static_cast<int64_t>(step.total);
  told.name = step.request.source.display_name.c_str();
  told.arch = step.request.arch.c_str();
  told.kernel = step.binary ? &kernel : nullptr;
  const std::string text = step.failure ? step.failure->message() : "";
  told.error = step.failure ? text.c_str() : nullptr;
  const HostSignals signals;
  given.step(&told, given.user);
}

void tell_bundles(const minuet_precompile_options& given, const std::vector<BundleReport>& bundles) {
  if (!given.bundle) return;
  for (const BundleReport& bundle : bundles) {
    const minuet_bundle_info info{sizeof(info),          bundle.arch.c_str(), bundle.path.c_str(),
                                  bundle.sha256.c_str(), bundle.bytes,        bundle.kernels};
    given.bundle(&info, given.user);
  }
}

/// Compiles on another thread, so that this thread can call given.cancelled() repeatedly to ask whether to
/// stop.
llvm::Expected<PrecompileResult> precompile_watched(KernelCache& cache,
                                                    const std::vector<KernelRequest>& requests,
                                                    ArchTuning tuning,
                                                    const minuet_precompile_options& given) {
  PrecompileOptions options;
  options.tuning = std::move(tuning);
  if (given.output_directory) options.output = given.output_directory;
  options.jobs = given.jobs;
  options.step = [&given](const PrecompileStep& step) { report_step(given, step); };
  std::optional<PrecompileResult> result;
  auto work = [&](const CancelToken& cancel) -> llvm::Error {
    options.cancel = &cancel;
    MINUET_ASSIGN(result, precompile(cache, requests, options));
    return llvm::Error::success();
  };
  std::unique_ptr<BackgroundJob> job;
  MINUET_TRY(
      BackgroundJob::start(work, [&](std::unique_ptr<BackgroundJob> begun) { job = std::move(begun); }));
  while (!job->wait_for(kCancelPollInterval)) {
    if (given.cancelled && given.cancelled(given.user) != 0) job->cancel();
  }
  MINUET_TRY(job->wait());
  return std::move(*result);
}

/// Returns Cancelled if the compilation was cancelled. Otherwise returns the first failure with the number of
/// failures, or success.
llvm::Error verdict(const PrecompileResult& result) {
  if (result.cancelled) {
    return make_error(StatusCode::Cancelled, "stopped after {0} of {1} kernels",
                      result.compiled + result.found, result.kernels);
  }
  if (!result.first_failure) return llvm::Error::success();
  llvm::Error error = llvm::make_error<StatusError>(*result.first_failure);
  if (result.failed == 0) return error;
  return annotate(
      std::move(error),
      llvm::formatv("{0} of {1} kernels failed, the first one", result.failed, result.kernels).str());
}

[[gnu::cold]] llvm::Error precompile_for(minuet_context* context, const minuet_precompile_options* options,
                                         std::optional<TuningStore> results,
                                         minuet_precompile_result* result) {
  MINUET_TRY(check_pointer(context, "context"));
  MINUET_TRY(check_pointer(options, "options"));
  if (result) MINUET_TRY(check_info(result, "result"));
  MINUET_ASSIGN(const minuet_precompile_options given,
                read_options(options, minuet_precompile_options(MINUET_PRECOMPILE_OPTIONS_INIT)));
  if (given.jobs < 0) {
    return make_error(StatusCode::InvalidArgument, "jobs is {0}; it must be 0 or more", given.jobs);
  }
  KernelCache& cache = *context->context->cache();
  ArchTuning tuning;
  MINUET_ASSIGN(const std::vector<KernelRequest> requests,
                read_requests_of(cache, given, results ? &*results : nullptr, tuning));
  MINUET_ASSIGN(const PrecompileResult done, precompile_watched(cache, requests, std::move(tuning), given));
  tell_bundles(given, done.bundles);
  if (result) {
    MINUET_TRY(write_info(minuet_precompile_result{0, done.kernels, done.compiled, done.found, done.failed,
                                                   done.bytes, done.seconds},
                          result, "result"));
  }
  return verdict(done);
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_precompile(minuet_context* context, const minuet_precompile_options* options,
                                minuet_precompile_result* result) {
  return guarded("minuet_precompile",
                 [&] { return precompile_for(context, options, /*results=*/std::nullopt, result); });
}

minuet_status minuet_precompile_tuned(minuet_context* context, const minuet_precompile_options* options,
                                      const char* directory, minuet_precompile_result* result) {
  return guarded("minuet_precompile_tuned", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_ASSIGN(TuningStore results, open_tuning_store(*context->context, directory));
    return precompile_for(context, options, std::move(results), result);
  });
}
}
