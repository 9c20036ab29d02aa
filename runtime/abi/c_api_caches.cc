// Implements the functions of the C ABI for bundles, traces and background compilation.
#include "codegen/base/own_thread.h"
#include "codegen/base/trace.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

/// Returns the digest, which is empty if `sha256` is null. Returns InvalidArgument for what is no digest.
llvm::Expected<std::string> read_sha256(const char* sha256) {
  constexpr std::size_t kDigits = 64;
  const llvm::StringRef given(sha256);
  if (!sha256 || (given.size() == kDigits && llvm::all_of(given, llvm::isHexDigit))) return given.str();
  return make_error(StatusCode::InvalidArgument, "sha256 is '{0}'; it must be {1} hexadecimal digits", given,
                    kDigits);
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_context_add_bundle(minuet_context* context, const char* path, const char* sha256) {
  return guarded("minuet_context_add_bundle", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(path, "path"));
    MINUET_ASSIGN(const std::string digest, read_sha256(sha256));
    return context->context->cache()->add_bundle({path, digest});
  });
}

minuet_status minuet_context_add_bundle_memory(minuet_context* context, const void* bytes, size_t size,
                                               const char* sha256) {
  return guarded("minuet_context_add_bundle_memory", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(bytes, "bytes"));
    const llvm::StringRef bundle(static_cast<const char*>(bytes), size);
    MINUET_ASSIGN(const std::string digest, read_sha256(sha256));
    return context->context->cache()->add_bundle_memory({{bundle, digest}});
  });
}

minuet_status minuet_context_write_trace(minuet_context* context, const char* path) {
  return guarded("minuet_context_write_trace", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(context, "context"));
    MINUET_TRY(check_pointer(path, "path"));
    const Trace* const trace = context->context->cache()->trace();
    if (trace) return trace->write(path);
    return make_error(StatusCode::FailedPrecondition,
                      "the context was created without `trace`: set it in minuet_context_options");
  });
}

minuet_status minuet_plan_compile_async(minuet_plan* plan, const char* arch, minuet_job_callback done,
                                        void* user, minuet_job** job) {
  return guarded("minuet_plan_compile_async", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(plan, "plan"));
    MINUET_ASSIGN(std::string known, read_arch(arch));
    MINUET_TRY(check_pointer(job, "job"));
    auto work = [store = plan->store, known = std::move(known), done,
                 user](const CancelToken& cancel) -> llvm::Error {
      llvm::Expected<BinaryList> binaries = store->compile(known, &cancel);
      StatusError result(StatusCode::Ok, "");
      if (!binaries) result = take_status(annotate(binaries.takeError(), "minuet_plan_compile_async"));
      if (done) {  // The callback comes last, because it may destroy the job.
        const bool good = result.code() == StatusCode::Ok;
        const HostSignals signals;
        done(good ? MINUET_OK : set_last_error(llvm::make_error<StatusError>(result)), user);
      }
      if (result.code() == StatusCode::Ok) return llvm::Error::success();
      return llvm::make_error<StatusError>(std::move(result));
    };
    auto made = std::make_unique<minuet_job>();
    return BackgroundJob::start(std::move(work), [&](std::unique_ptr<BackgroundJob> begun) {
      made->job = std::move(begun);
      *job = made.release();
    });
  });
}

void minuet_job_cancel(minuet_job* job) {
  if (job) job->job->cancel();
}

int32_t minuet_job_done(const minuet_job* job) { return job && job->job->done() ? 1 : 0; }

minuet_status minuet_job_wait(minuet_job* job) {
  return guarded("minuet_job_wait", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(job, "job"));
    return job->job->wait();
  });
}

void minuet_job_destroy(minuet_job* job) { delete job; }
}
