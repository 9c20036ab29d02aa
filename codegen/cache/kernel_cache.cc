#include "codegen/cache/kernel_cache.h"

#include <chrono>

#include "codegen/arch.h"
#include "codegen/keys.h"
#include "codegen/trace.h"
#include "codegen/tuning/tuning_snapshot.h"

namespace minuet {
namespace {

using BinaryPointer = KernelCache::BinaryPointer;

/// Failures that another try may not have.
bool is_passing(const StatusError& status) {
  return status.code() == StatusCode::ResourceExhausted || status.code() == StatusCode::Unavailable ||
         status.code() == StatusCode::Cancelled;
}

llvm::Error check_arch(const KernelSource& source, llvm::StringRef arch) {
  if (sm_number(arch) == 0)
    return make_error(StatusCode::InvalidArgument, "'{0}' is no architecture such as sm_90a", arch);
  const std::string missing = missing_arch(source, arch);
  if (missing.empty()) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented, "kernel {0} needs {1}, and the target is {2}",
                    source.display_name, missing, arch);
}

llvm::Expected<BinaryPointer> answer(const Outcome& outcome) {
  if (const auto* failure = std::get_if<StatusError>(&outcome))
    return llvm::make_error<StatusError>(*failure);
  return std::get<BinaryPointer>(outcome);
}

}  // namespace

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

void KernelCache::open_store(const Environment& environment) {
  llvm::Expected<std::string> chosen = choose_cache_directory(options_.directory, environment);
  llvm::Error error = chosen ? llvm::Error::success() : chosen.takeError();
  if (!error) {
    StoreOptions store;
    if (options_.most_bytes != 0) store.limits.bytes = options_.most_bytes;
    store.read_only = *options_.no_jit;
    store_.emplace(
        *chosen, policy_, system_, [this](const std::string& text) { warn(text); }, store);
    tuned_.emplace(*chosen, tuning_folder_of_cache(), policy_, system_);
    error = store_->check();
  }
  if (!error) return;
  store_.reset();
  tuned_.reset();
  warn("kernels are kept in memory only: " + take_status(std::move(error)).message());
}

void KernelCache::warn(const std::string& text) {
  if (options_.warn && state_.is_news(text)) options_.warn(text);
}

/// May cost a process: only after memory and bundles.
llvm::Expected<NvrtcInfo> KernelCache::identify_compiler(const CancelToken* cancel) {
  if (compiler_ == nullptr) {
    return make_error(
        StatusCode::Unavailable,
        "there is no compiler: install CUDA 13, or run 'pip install nvidia-cuda-nvrtc', or name "
        "libnvrtc with MINUET_NVRTC");
  }
  const Trace::Span span(is_identified_ ? nullptr : trace(), "cache", "identify the compiler");
  llvm::Expected<NvrtcInfo> info = compiler_->identify(cancel);
  if (info) is_identified_ = true;
  return info;
}

/// For those that can do without one: empty where there is none. What may pass is an error, not an answer.
llvm::Expected<std::string> KernelCache::compiler_id_or_none(const CancelToken* cancel) {
  llvm::Expected<NvrtcInfo> info = identify_compiler(cancel);
  if (info) return std::move(info->id);
  StatusError why = take_status(info.takeError());
  if (why.code() == StatusCode::Unavailable) return "";
  return llvm::make_error<StatusError>(std::move(why));
}

/// For bundles that are to be of one of them: without JIT, those whose kernels the folder has, for no process
/// is started to ask.
llvm::Expected<std::vector<std::string>> KernelCache::compilers_to_compare_with(const CancelToken* cancel) {
  if (*options_.no_jit) return store_ ? store_->compilers() : std::vector<std::string>();
  MINUET_ASSIGN(const std::string id, compiler_id_or_none(cancel));
  return id.empty() ? std::vector<std::string>() : std::vector<std::string>{id};
}

Outcome KernelCache::found(Binary binary, BinaryOrigin origin) {
  state_.count(binary, origin);
  return std::make_shared<const Binary>(std::move(binary));
}

std::optional<Entry> KernelCache::load(const Request& request, const std::string& compiler_id) {
  const Trace::Span span(trace(), "disk", request.source.display_name);
  std::optional<Entry> entry = store_->load(build_key(request.request_key, compiler_id));
  // The build key stands for all of these; a difference would be a broken writer, not a wrong file.
  if (entry && (entry->request_key != request.request_key || entry->binary.arch != request.arch ||
                entry->name_expression != request.source.name_expression ||
                entry->binary.compiler_id != compiler_id)) {
    return std::nullopt;
  }
  if (entry) note(compiler_id);
  return entry;
}

void KernelCache::note(const std::string& compiler_id) {
  if (noted_compilers_.contains(compiler_id) || !store_->note_compiler(compiler_id)) return;
  noted_compilers_.insert(compiler_id);
}

std::optional<Entry> KernelCache::find_on_disk(const KernelSource& source, llvm::StringRef arch) {
  if (!store_) return std::nullopt;
  llvm::Expected<NvrtcInfo> compiler = identify_compiler(nullptr);
  if (compiler) return load(request_for(source, arch, nullptr), compiler->id);
  llvm::consumeError(compiler.takeError());
  return std::nullopt;
}

llvm::Expected<PackedEntry> KernelCache::compile(const Request& request, const std::string& compiler_id) {
  PackedEntry compiled;
  CompileControl control;
  control.cancel = request.cancel;
  control.packed = &compiled.bytes;
  const llvm::StringRef seed = llvm::StringRef(request.request_key).take_front(16);
  const Trace::Span span(trace(), "compile", request.source.display_name);
  Entry& entry = compiled.entry;
  MINUET_ASSIGN(entry.binary, compiler_->compile(request.source, request.arch, seed, control));
  entry.request_key = request.request_key;
  entry.build_key = build_key(request.request_key, compiler_id);
  entry.name_expression = request.source.name_expression;
  return compiled;
}

/// On disk where there is one, as the helper wrote it.
llvm::Expected<Entry> KernelCache::keep(llvm::Expected<PackedEntry> compiled, FileLock* lock) {
  if (!compiled) {
    state_.count_failure();
    return compiled.takeError();
  }
  Entry& entry = compiled->entry;
  if (store_) {
    const Trace::Span span(trace(), "publish", entry.binary.display_name);
    store_->publish(entry.build_key, compiled->bytes.empty() ? write_entry(entry) : compiled->bytes, lock);
    note(entry.binary.compiler_id);
  }
  return std::move(entry);
}

llvm::Expected<Entry> KernelCache::compile_alone(const KernelSource& source, llvm::StringRef arch,
                                                 const std::string& compiler_id, Compile compile,
                                                 BinaryOrigin& origin, const CancelToken* cancel) {
  return compile_alone(request_for(source, arch, cancel), compiler_id, compile, origin);
}

llvm::Expected<Entry> KernelCache::compile_alone(const Request& request, const std::string& compiler_id,
                                                 Compile compile, BinaryOrigin& origin) {
  origin = BinaryOrigin::Compiled;
  if (!store_) return keep(compile(), nullptr);
  FileLock lock =
      store_->lock(build_key(request.request_key, compiler_id), options_.lock_bound, request.cancel);
  if (lock.had_to_wait()) {
    state_.count_wait(static_cast<double>(lock.waited().count()),
                      lock.outcome() == FileLock::Outcome::TimedOut);
  }
  if (lock.outcome() == FileLock::Outcome::Cancelled)
    return make_error(StatusCode::Cancelled, "the compile was cancelled");
  if (std::optional<Entry> entry = load(request, compiler_id)) {
    origin = BinaryOrigin::Disk;
    return std::move(*entry);
  }
  return keep(compile(), &lock);
}

Outcome KernelCache::build_alone(const Request& request, const std::string& compiler_id) {
  BinaryOrigin origin;
  llvm::Expected<Entry> entry = compile_alone(
      request, compiler_id, [&] { return compile(request, compiler_id); }, origin);
  if (!entry) return take_status(entry.takeError());
  return found(std::move(entry->binary), origin);
}

/// Of every compiler whose kernels the folder has: to ask which one is here is to start a process.
Outcome KernelCache::find_without_jit(const Request& request, const std::string& nowhere) {
  if (!store_) return no_jit_error(request, nowhere);
  for (const std::string& compiler_id : store_->compilers()) {
    if (std::optional<Entry> entry = load(request, compiler_id))
      return found(std::move(entry->binary), BinaryOrigin::Disk);
  }
  return no_jit_error(request, nowhere + " and not in the cache folder");
}

/// `where`: "in no bundle"
StatusError KernelCache::no_jit_error(const Request& request, const std::string& where) {
  return StatusError(
      StatusCode::FailedPrecondition,
      llvm::formatv("kernel {0} for {1} is {2}, and MINUET_NO_JIT forbids compiling it (request key {3}): "
                    "run once with MINUET_RECORD=requests.jsonl, then `minuet precompile "
                    "--from requests.jsonl --arch {1} --output DIR`, and set MINUET_BUNDLE_PATH=DIR",
                    request.source.display_name, request.arch, where, request.request_key)
          .str());
}

Outcome KernelCache::build(const Request& request) {
  const std::string who = "kernel " + request.source.display_name + " for " + request.arch;
  std::string nowhere = "in no bundle";
  {
    const Trace::Span span(trace(), "bundle", request.source.display_name);
    // Only the policy Exact asks which compiler there is, which costs.
    std::vector<std::string> host;
    if (bundles_->policy() == BundlePolicy::Exact) {
      llvm::Expected<std::vector<std::string>> ids = compilers_to_compare_with(request.cancel);
      if (!ids) return take_status(annotate(ids.takeError(), who));
      host = std::move(*ids);
    }
    std::string why;
    std::optional<Entry> entry =
        bundles_->find([&](llvm::StringRef arch) { return key_of(request.source, arch); },
                       request.source.name_expression, request.arch, host, &why);
    if (entry) return found(std::move(entry->binary), BinaryOrigin::Bundle);
    if (!why.empty()) nowhere += " (" + why + ")";
  }
  if (record_) {
    if (llvm::Error error = record_->append({request.source, request.arch})) {
      warn(take_status(std::move(error)).message());
    }
  }
  if (*options_.no_jit) return find_without_jit(request, nowhere);
  llvm::Expected<NvrtcInfo> compiler = identify_compiler(request.cancel);
  if (!compiler) return take_status(annotate(compiler.takeError(), who + " must be compiled"));
  if (store_) {
    if (std::optional<Entry> entry = load(request, compiler->id))
      return found(std::move(entry->binary), BinaryOrigin::Disk);
  }
  return build_alone(request, compiler->id);
}

llvm::Expected<std::shared_ptr<const TuningSnapshot>> KernelCache::load_tuning(
    TuningEnvironment environment) {
  environment.toolkit.clear();
  if (!*options_.no_jit) {
    MINUET_ASSIGN(const std::string id, compiler_id_or_none(nullptr));
    environment.toolkit = toolkit_of(id);
  }
  std::vector<std::string> sections;
  for (const std::shared_ptr<const Bundle>& bundle : bundles_->bundles()) {
    llvm::Expected<std::string> section = bundle->tuning();
    if (!section) {
      warn(take_status(section.takeError()).message());
    } else if (!section->empty()) {
      sections.push_back(std::move(*section));
    }
  }
  return minuet::load_tuning(environment, tuned_ ? &*tuned_ : nullptr, sections,
                             [this](const std::string& trouble) { warn(trouble); });
}

/// Where a later try may do better, only who waits now gets what we got: forgotten first, so that what has
/// landed and is known is good, and that the flight forgotten is ours.
void KernelCache::land(const Request& request, std::promise<Outcome>& promise, bool keep_failures,
                       llvm::function_ref<Outcome()> work) {
  try {
    Outcome outcome = work();
    const StatusError* const failure = std::get_if<StatusError>(&outcome);
    if (failure != nullptr && (is_passing(*failure) || !keep_failures)) state_.forget(request.request_key);
    promise.set_value(std::move(outcome));
  } catch (...) {
    state_.forget(request.request_key);
    promise.set_exception(std::current_exception());
  }
}

void KernelCache::wait_for(const Flight& flight, const CancelToken* cancel) {
  if (flight.wait_for(std::chrono::seconds(0)) == std::future_status::ready) return;
  const Trace::Span span(trace(), "wait", "another thread's compile");
  const auto start = std::chrono::steady_clock::now();
  minuet::wait_for(flight, cancel);
  const std::chrono::duration<double, std::milli> waited = std::chrono::steady_clock::now() - start;
  state_.count_wait(waited.count(), /*timed_out=*/false);
}

llvm::Expected<BinaryPointer> KernelCache::get_or_compile(const KernelSource& source, llvm::StringRef arch,
                                                          const CancelToken* cancel) {
  MINUET_TRY(check_arch(source, arch));
  const Request request = request_for(source, arch, cancel);
  while (!is_cancelled(cancel)) {
    std::promise<Outcome> promise;
    bool ours = false;
    const Flight flight = state_.claim(request.request_key, promise, ours);
    if (ours) {
      // Without JIT a bundle that comes later may have it.
      land(request, promise, /*keep_failures=*/!*options_.no_jit, [&] { return build(request); });
    } else {
      wait_for(flight, cancel);
      if (is_cancelled(cancel)) break;
    }
    const Outcome& outcome = flight.get();
    const auto* failure = std::get_if<StatusError>(&outcome);
    // Whoever ordered that compile has cancelled it; we have not.
    if (!ours && failure != nullptr && failure->code() == StatusCode::Cancelled) continue;
    return answer(outcome);
  }
  return make_error(StatusCode::Cancelled, "compiling {0} was cancelled", source.display_name);
}

Outcome KernelCache::build_anew(const Request& request, const Binary& refused) {
  if (*options_.no_jit) return no_jit_error(request, "refused by the driver as it was found");
  warn("a kernel of the cache is refused by the driver and compiled again (" + refused.display_name + ")");
  llvm::Expected<NvrtcInfo> compiler = identify_compiler(nullptr);
  if (!compiler) return take_status(annotate(compiler.takeError(), refused.display_name));
  llvm::Expected<Entry> entry = keep(compile(request, compiler->id), nullptr);
  if (!entry) return take_status(entry.takeError());
  return found(std::move(entry->binary), BinaryOrigin::Compiled);
}

/// As get_or_compile; several devices may refuse the same binary at once.
llvm::Expected<BinaryPointer> KernelCache::replace(const KernelSource& source, llvm::StringRef arch,
                                                   const Binary& refused) {
  const Request request = request_for(source, arch, nullptr);
  bundles_->reject(key_of(source, refused.arch));
  for (;;) {
    std::promise<Outcome> promise;
    bool ours = false;
    const Flight flight = state_.claim_instead_of(refused, request.request_key, promise, ours);
    if (ours) {
      // The failure is this device's: another one of that architecture may do with what was found.
      land(request, promise, /*keep_failures=*/false, [&] { return build_anew(request, refused); });
    } else {
      wait_for(flight, nullptr);
    }
    const Outcome& outcome = flight.get();
    const auto* const failure = std::get_if<StatusError>(&outcome);
    // What another thread did may have been something else than a compile.
    const bool again = failure != nullptr ? failure->code() == StatusCode::Cancelled
                                          : std::get<BinaryPointer>(outcome).get() == &refused;
    if (ours || !again) return answer(outcome);
  }
}

const char* origin_name(BinaryOrigin origin) {
  static constexpr const char* kNames[] = {"memory", "bundle", "disk", "compiled"};
  return kNames[static_cast<int>(origin)];
}

llvm::Expected<std::unique_ptr<KernelCache>> KernelCache::create(CacheOptions options,
                                                                 std::shared_ptr<Compiler> compiler,
                                                                 const Environment& environment,
                                                                 FileSystem& system) {
  MINUET_ASSIGN(CacheOptions whole, with_environment(std::move(options), environment));
  return std::unique_ptr<KernelCache>(
      new KernelCache(std::move(whole), std::move(compiler), environment, system));
}

}  // namespace minuet
