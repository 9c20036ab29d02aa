#include "codegen/cache/kernel_cache.h"

#include <chrono>
#include <exception>

#include "codegen/base/arch.h"
#include "codegen/base/trace.h"
#include "codegen/compile/helper_compiler.h"

namespace minuet {
namespace {

using BinaryPointer = KernelCache::BinaryPointer;

/// Returns true for failures that may not occur again at the next attempt.
bool is_temporary(const StatusError& status) {
  return status.code() == StatusCode::ResourceExhausted || status.code() == StatusCode::Unavailable ||
         status.code() == StatusCode::Cancelled;
}

/// Checks that the kernel can be compiled for its architecture. `number` is the architecture's number, or 0
/// if the caller does not accept the architecture.
llvm::Error check_arch(const KernelRequest& request, int number) {
  if (number == 0) return not_an_arch(request.arch);
  const std::string missing = missing_arch(request.source, request.arch);
  if (missing.empty()) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented, "kernel {0} needs {1}, but the target is {2}",
                    request.source.display_name, missing, request.arch);
}

llvm::Expected<BinaryPointer> to_expected(const Outcome& outcome) {
  if (const auto* failure = std::get_if<StatusError>(&outcome))
    return llvm::make_error<StatusError>(*failure);
  return std::get<BinaryPointer>(outcome);
}

}  // namespace

// The functions that search for a kernel follow in the order in which they are called.

llvm::Expected<BinaryList> KernelCache::get_or_compile_all(const std::vector<KernelRequest>& requests,
                                                           const CancelToken* cancel) {
  BinaryList binaries(requests.size());
  std::vector<std::size_t> places;  // Holds the indices of the kernels that are not in memory.
  std::vector<KernelRequest> missing;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    binaries[i] = state_.find_landed(requests[i].key);
    if (binaries[i]) continue;
    places.push_back(i);
    missing.push_back(requests[i]);
  }
  if (missing.empty()) return binaries;  // If all kernels are in memory, no thread or process is started.
  HelperPoolOptions options;
  options.cancel = cancel;
  std::mutex mutex;
  std::optional<StatusError> failure;
  // Each thread compiles in its own helper process.
  const HelperPoolReport pool =
      for_each_with_helper(missing, options, [&](std::size_t index, const CompileControl& control) {
        llvm::Expected<BinaryPointer> binary = get_or_compile(missing[index], control);
        if (binary) {
          binaries[places[index]] = std::move(*binary);
          return true;
        }
        StatusError status = take_status(binary.takeError());
        const std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure.emplace(std::move(status));
        // If requests for missing kernels are recorded in a file, the search continues after a failure,
        // because only a complete list is useful.
        return record_.has_value();
      });
  if (failure) return llvm::make_error<StatusError>(std::move(*failure));
  if (pool.thrown) std::rethrow_exception(pool.thrown);  // get_or_compile() has thrown this.
  return binaries;
}

llvm::Expected<BinaryPointer> KernelCache::get_or_compile(const KernelRequest& request,
                                                          const CompileControl& control) {
  MINUET_TRY(check_arch(request, sm_number(request.arch)));
  // If compiling is forbidden, failures are not kept in memory, because a bundle that is added later may have
  // the kernel.
  const Keep keep = *options_.no_jit ? Keep::Binaries : Keep::All;
  return to_expected(share(request, control.cancel, request.key, nullptr, keep,
                           [&] { return find_or_build(request, control); }));
}

/// Lets one of the threads that need `key` do the work and gives its result to all of them. If `refused` is
/// not null, the result must not be that binary.
Outcome KernelCache::share(const KernelRequest& request, const CancelToken* cancel, const std::string& key,
                           const Binary* refused, Keep keep, Work work) {
  while (!is_cancelled(cancel)) {
    std::promise<Outcome> promise;
    bool ours = false;
    const PendingBuild flight = state_.claim(key, refused, promise, ours);
    if (ours) {
      land(key, promise, keep, work);
    } else {
      wait_for(flight, cancel);
      if (is_cancelled(cancel)) break;
    }
    const Outcome& outcome = flight.get();
    const auto* const failure = std::get_if<StatusError>(&outcome);
    // This thread tries again if another thread was doing the work and was cancelled or got the refused
    // binary.
    const bool again = failure != nullptr ? failure->code() == StatusCode::Cancelled
                                          : refused != nullptr && !has_another(flight, *refused);
    if (ours || !again) return outcome;
  }
  return StatusError(StatusCode::Cancelled, "compiling " + request.source.display_name + " was cancelled");
}

/// Does the work and sets its result in `promise`. A result that `keep` does not include goes only to the
/// threads that already wait for it: `key` is removed from the state before the result is set, so that no
/// later request finds the result, and so that the removal cannot hit a newer build of another thread.
void KernelCache::land(const std::string& key, std::promise<Outcome>& promise, Keep keep, Work work) {
  try {
    Outcome outcome = work();
    const StatusError* const failure = std::get_if<StatusError>(&outcome);
    const bool is_kept =
        failure == nullptr ? keep != Keep::Nothing : keep == Keep::All && !is_temporary(*failure);
    if (!is_kept) state_.invalidate(key);
    promise.set_value(std::move(outcome));
  } catch (...) {
    state_.invalidate(key);
    promise.set_exception(std::current_exception());
  }
}

void KernelCache::wait_for(const PendingBuild& flight, const CancelToken* cancel) {
  if (flight.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return;
  const Trace::Span span(trace(), "wait", "another thread's compile");
  const auto start = std::chrono::steady_clock::now();
  minuet::wait_for(flight, cancel);
  const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - start;
  state_.count_wait(waited.count(), /*timed_out=*/false);
}

Outcome KernelCache::find_or_build(const KernelRequest& request, const CompileControl& control) {
  const std::string who = "kernel " + request.source.display_name + " for " + request.arch;
  std::string nowhere;
  std::optional<Entry> entry = find_in_bundles(request, nowhere);
  if (entry) return found(std::move(entry->binary), BinaryOrigin::Bundle);
  if (record_) {
    if (llvm::Error error = record_->append(request)) warn(take_status(std::move(error)).message());
  }
  if (*options_.no_jit) return find_without_jit(request, nowhere);
  llvm::Expected<NvrtcInfo> compiler = compiler_info(control);
  if (!compiler) return take_status(annotate(compiler.takeError(), who + " must be compiled"));
  BinaryOrigin origin;
  return build_once(Order(request, control, compiler->id), origin);
}

/// Looks for the kernel in the bundles. Sets `nowhere` to a phrase for error messages, which says that no
/// bundle has the kernel and why.
std::optional<Entry> KernelCache::find_in_bundles(const KernelRequest& request, std::string& nowhere) {
  const Trace::Span span(trace(), "bundle", request.source.display_name);
  std::string why;
  std::optional<Entry> entry = bundles_->find(request, &why);
  nowhere = why.empty() ? "in no bundle" : "in no bundle (" + why + ")";
  return entry;
}

/// Looks on disk for a binary of the kernel, no matter which compiler has made it. The function does not
/// identify the present compiler, because that would start a process.
Outcome KernelCache::find_without_jit(const KernelRequest& request, const std::string& nowhere) {
  if (!store_) return no_jit_error(request, nowhere);
  for (const std::string& compiler_id : store_->compilers()) {
    if (std::optional<Entry> entry = find_on_disk(Order(request, {}, compiler_id)))
      return found(std::move(entry->binary), BinaryOrigin::Disk);
  }
  return no_jit_error(request, nowhere + " and not in the cache folder");
}

/// Finds the kernel on disk or compiles it, in one thread of this process and in one process at a time. Other
/// threads get the same result, and other processes read the published entry from the disk.
Outcome KernelCache::build_once(const Order& order, BinaryOrigin& origin) {
  const CancelToken* const cancel = order.control.cancel;
  const auto find = [&]() -> std::optional<Outcome> {
    std::optional<Entry> entry = find_on_disk(order);
    if (!entry) return std::nullopt;
    origin = BinaryOrigin::Disk;
    return found(std::move(entry->binary), origin);
  };
  origin = BinaryOrigin::Memory;
  return share(order.request, cancel, order.build_key, nullptr, Keep::Nothing, [&]() -> Outcome {
    origin = BinaryOrigin::Compiled;
    if (!store_) return build(order, /*keep=*/false, nullptr);
    if (std::optional<Outcome> there = find()) return std::move(*there);
    FileLock lock = store_->lock(order.build_key, options_.lock_bound, cancel);
    if (lock.had_to_wait()) {
      state_.count_wait(static_cast<double>(lock.waited().count()),
                        lock.outcome() == FileLock::Outcome::TimedOut);
    }
    if (lock.outcome() == FileLock::Outcome::Cancelled)
      return StatusError(StatusCode::Cancelled, "waiting for another process's compile was cancelled");
    if (std::optional<Outcome> there = find()) return std::move(*there);
    return build(order, /*keep=*/true, &lock);
  });
}

std::optional<Entry> KernelCache::find_on_disk(const Order& order) {
  const KernelRequest& request = order.request;
  const Trace::Span span(trace(), "disk", request.source.display_name);
  std::optional<Entry> entry = store_->find(order.build_key);
  // The build key is a digest of these fields, so a difference means that the program that wrote the entry
  // was faulty.
  if (entry && (entry->request_key != request.key || entry->binary.arch != request.arch ||
                entry->name_expression != request.source.name_expression ||
                entry->binary.compiler_id != order.compiler_id)) {
    return std::nullopt;
  }
  if (entry) note(order.compiler_id);
  return entry;
}

/// Compiles the kernel. If `keep` is true, writes the binary to the store on disk and releases `lock`, which
/// may be null.
Outcome KernelCache::build(const Order& order, bool keep, FileLock* lock) {
  const KernelRequest& request = order.request;
  std::string bytes;
  CompileControl control = order.control;
  control.packed = &bytes;
  llvm::Expected<Binary> binary = [&] {
    const Trace::Span span(trace(), "compile", request.source.display_name);
    // This usually calls HelperCompiler of compile/helper_compiler.cc.
    return compiler_->compile(request, control);
  }();
  if (!binary) {
    state_.count_failure();
    return take_status(binary.takeError());
  }
  if (store_ && keep) {
    const Trace::Span span(trace(), "publish", request.source.display_name);
    if (bytes.empty())
      bytes = write_entry({request.key, order.build_key, request.source.name_expression, *binary});
    store_->publish(order.build_key, bytes, lock);
    state_.note_published(order.build_key);
    note(order.compiler_id);
  }
  return found(std::move(*binary), BinaryOrigin::Compiled);
}

Outcome KernelCache::found(Binary binary, BinaryOrigin origin) {
  state_.count(binary, origin);
  return std::make_shared<const Binary>(std::move(binary));
}

// The following functions are the other entry points of the cache and the functions that they call.

llvm::Expected<BinaryPointer> KernelCache::get_exactly(const KernelRequest& request,
                                                       const CompileControl& control, BinaryOrigin& origin) {
  MINUET_TRY(check_arch(request, capability(request.arch)));
  MINUET_ASSIGN(const NvrtcInfo compiler, compiler_info(control));
  return to_expected(build_once(Order(request, control, compiler.id), origin));
}

/// If several threads need the same kernel, only one compiles it, as in get_or_compile(), because several
/// devices may refuse the same binary at the same time.
llvm::Expected<BinaryPointer> KernelCache::replace(const KernelRequest& request, const Binary& refused) {
  bundles_->reject(key_of(request.source, refused.arch));
  // Failures are not kept in memory, because another device of this architecture may load the stored binary.
  return to_expected(share(request, nullptr, request.key, &refused, Keep::Binaries, [&]() -> Outcome {
    if (*options_.no_jit) return no_jit_error(request, "refused by the driver in its stored form");
    warn("the driver refuses a stored kernel, which is compiled again (" + refused.display_name + ")");
    llvm::Expected<NvrtcInfo> compiler = compiler_info();
    if (!compiler) return take_status(annotate(compiler.takeError(), refused.display_name));
    return build(Order(request, {}, compiler->id), /*keep=*/true, nullptr);
  }));
}

llvm::Expected<KernelCache::BinaryPointer> KernelCache::replace(llvm::ArrayRef<KernelRequest> requests,
                                                                const Binary& refused) {
  for (const KernelRequest& request : requests) {
    if (request.source.display_name == refused.display_name) return replace(request, refused);
  }
  return make_error(StatusCode::Internal, "kernel {0} is not one of the requested kernels",
                    refused.display_name);
}

/// May start a process, so find_or_build() calls this function only after the search in memory and bundles.
llvm::Expected<NvrtcInfo> KernelCache::compiler_info(const CompileControl& control) {
  if (compiler_ == nullptr) {
    return make_error(
        StatusCode::Unavailable,
        "there is no compiler: install CUDA 13, or run 'pip install nvidia-cuda-nvrtc', or name "
        "libnvrtc with MINUET_NVRTC");
  }
  const Trace::Span span(is_identified_ ? nullptr : trace(), "cache", "identify the compiler");
  llvm::Expected<NvrtcInfo> info = compiler_->info(control);
  if (info) is_identified_ = true;
  return info;
}

llvm::Expected<std::string> KernelCache::compiler_id_or_none(const CompileControl& control) {
  if (*options_.no_jit) return "";
  llvm::Expected<NvrtcInfo> info = compiler_info(control);
  if (info) return std::move(info->id);
  StatusError why = take_status(info.takeError());
  if (why.code() == StatusCode::Unavailable) return "";
  return llvm::make_error<StatusError>(std::move(why));
}

/// Returns the error for a kernel that was not found and may not be compiled. `where` is a phrase such as "in
/// no bundle".
StatusError KernelCache::no_jit_error(const KernelRequest& request, const std::string& where) {
  return StatusError(
      StatusCode::FailedPrecondition,
      llvm::formatv("kernel {0} for {1} is {2}, and MINUET_NO_JIT forbids compiling it (request key {3}): "
                    "run once with MINUET_RECORD=requests.jsonl, then `minuet precompile "
                    "--from requests.jsonl --arch {1} --output DIR`, and set MINUET_BUNDLE_PATH=DIR",
                    request.source.display_name, request.arch, where, request.key)
          .str());
}

void KernelCache::note(const std::string& compiler_id) {
  if (noted_compilers_.contains(compiler_id) || !store_->note_compiler(compiler_id)) return;
  noted_compilers_.insert(compiler_id);
}

void KernelCache::warn(const std::string& text) {
  if (options_.warn && state_.is_first_of_kind(text)) options_.warn(text);
}

llvm::Expected<std::unique_ptr<KernelCache>> KernelCache::create(CacheOptions options,
                                                                 std::shared_ptr<Compiler> compiler,
                                                                 const Environment& environment,
                                                                 FileSystem& system) {
  MINUET_ASSIGN(CacheOptions whole, with_environment(std::move(options), environment));
  return std::unique_ptr<KernelCache>(
      new KernelCache(std::move(whole), std::move(compiler), environment, system));
}

KernelCache::KernelCache(CacheOptions options, std::shared_ptr<Compiler> compiler,
                         const Environment& environment, FileSystem& system)
    : options_(std::move(options)),
      compiler_(std::move(compiler)),
      system_(system),
      policy_(process_policy(environment)) {
  policy_.shared = *options_.shared;
  const Trace::Span span(trace(), "cache", "open bundles and cache folder");
  BundleOptions bundles;
  bundles.places = options_.bundles;
  bundles.search_path = *options_.bundle_path;
  bundles.library_folder = options_.library_folder;
  bundles.policy = *options_.policy;
  bundles.ptx = options_.ptx;
  bundles.trust = policy_;
  bundles.warn = [this](const std::string& text) { warn(text); };
  bundles_.emplace(std::move(bundles));
  if (options_.use_disk) open_store(environment);
  if (!options_.record->empty()) record_.emplace(*options_.record);
}

/// Prunes the cache folder, but does not warn if that fails, because the host program may not expect calls of
/// its warning callback at this time.
KernelCache::~KernelCache() {
  try {
    const std::string last = state_.last_published();
    if (store_ && !last.empty()) llvm::consumeError(store_->keep_limits(last));
  } catch (...) {
    // An exception means that memory is exhausted. The next cache that opens the folder prunes it.
  }
}

void KernelCache::open_store(const Environment& environment) {
  llvm::Expected<std::string> chosen = choose_cache_directory(options_.directory, environment);
  llvm::Error error = chosen ? llvm::Error::success() : chosen.takeError();
  if (!error) {
    StoreOptions store;
    if (options_.most_bytes != 0) store.limits.bytes = options_.most_bytes;
    store.read_only = *options_.no_jit;
    store_.emplace(
        *chosen, policy_, system_, [this](const std::string& text) { warn(text); }, store);
    error = store_->check();
  }
  if (!error) {
    // The folder may exceed this cache's limits if another process was killed or had larger limits.
    if (llvm::Error pruned = store_->keep_limits()) {
      store_->warn_not_pruned(std::move(pruned));
    }
    return;
  }
  store_.reset();
  warn("kernels are kept in memory only: " + take_status(std::move(error)).message());
}

}  // namespace minuet
