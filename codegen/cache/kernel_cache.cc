#include "codegen/cache/kernel_cache.h"

#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <variant>

#include "codegen/cache/entry.h"
#include "codegen/cache/kernel_cache_parts.h"
#include "codegen/cache/store.h"
#include "codegen/keys.h"

namespace minuet {
namespace {

using BinaryPointer = std::shared_ptr<const Binary>;
/// What a build gave: the binary, or why there is none. Copied to all who wait.
using Outcome = std::variant<BinaryPointer, StatusError>;

/// Failures that another try may not have.
bool is_passing(const StatusError& status) {
  return status.code() == StatusCode::ResourceExhausted || status.code() == StatusCode::Unavailable ||
         status.code() == StatusCode::Cancelled;
}

/// 80 of "sm_80", 90 of "sm_90a"; 0 of anything else.
int sm_number(llvm::StringRef arch) {
  int number = 0;
  if (!arch.consume_front("sm_") || arch.consumeInteger(10, number)) return 0;
  return arch.empty() || arch == "a" || arch == "f" ? number : 0;
}

llvm::Error check_arch(const KernelSource& source, llvm::StringRef arch) {
  const int sm = sm_number(arch);
  if (sm == 0)
    return make_error(StatusCode::InvalidArgument, "'{0}' is no architecture such as sm_90a", arch);
  if (sm >= source.least_sm) return llvm::Error::success();
  return make_error(StatusCode::Unimplemented, "kernel {0} needs sm_{1} or newer, and the target is {2}",
                    source.display_name, source.least_sm, arch);
}

/// Says each kind of trouble once. The text up to the first parenthesis or colon is its kind.
class Warner {
 public:
  explicit Warner(std::function<void(const std::string&)> warn) : warn_(std::move(warn)) {}
  void operator()(const std::string& text) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!warn_ || !seen_.insert(text.substr(0, text.find_first_of("(:"))).second) return;
    }
    warn_(text);
  }

 private:
  std::function<void(const std::string&)> warn_;
  std::mutex mutex_;
  std::set<std::string> seen_;
};

class KernelCacheImpl : public KernelCache {
 public:
  KernelCacheImpl(CacheOptions options, std::shared_ptr<Compiler> compiler, const Environment& environment,
                  FileSystem& system)
      : compiler_(std::move(compiler)), warn_(std::move(options.warn)) {
    if (options.use_disk) open_store(options.directory, environment, system);
  }

  llvm::Expected<BinaryPointer> get_or_compile(const KernelSource& source, llvm::StringRef arch) override;
  llvm::Expected<BinaryPointer> replace(const KernelSource& source, llvm::StringRef arch,
                                        const Binary& refused) override;
  CacheStats stats() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
  }
  std::vector<CacheEvent> events() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return events_;
  }
  std::string directory() const override { return store_ ? store_->directory() : ""; }

 private:
  struct Request {
    const KernelSource& source;
    std::string arch;
    std::string request_key;
    std::string build_key;
  };

  llvm::Expected<Request> request_for(const KernelSource& source, llvm::StringRef arch);
  void open_store(const std::string& directory, const Environment& environment, FileSystem& system);
  /// The future of a key, and whether it is the caller who has to fulfil it.
  std::shared_future<Outcome> claim(const std::string& build_key, std::promise<Outcome>& promise, bool& ours);
  void fulfil(const Request& request, std::promise<Outcome>& promise);
  Outcome build(const Request& request);
  std::optional<Binary> load(const Request& request);
  Outcome compile(const Request& request);
  void note(const Binary& binary, BinaryOrigin origin);

  const std::shared_ptr<Compiler> compiler_;
  Warner warn_;
  std::optional<Store> store_;
  std::once_flag identity_once_;
  std::string compiler_id_, header_digest_;

  mutable std::mutex mutex_;  // never held while compiling, reading or writing
  std::map<std::string, std::shared_future<Outcome>> slots_;
  CacheStats stats_;
  std::vector<CacheEvent> events_;
};

void KernelCacheImpl::open_store(const std::string& directory, const Environment& environment,
                                 FileSystem& system) {
  llvm::Expected<std::string> chosen = choose_cache_directory(directory, environment);
  llvm::Error error = chosen ? llvm::Error::success() : chosen.takeError();
  if (!error) {
    store_.emplace(*chosen, process_policy(environment), system,
                   [this](const std::string& text) { warn_(text); });
    error = store_->check();
  }
  if (!error) return;
  store_.reset();
  warn_("kernels are kept in memory only: " + take_status(std::move(error)).message());
}

void KernelCacheImpl::note(const Binary& binary, BinaryOrigin origin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back({binary.display_name, binary.arch, origin});
  if (origin == BinaryOrigin::Disk) {
    ++stats_.disk_hits;
  } else {
    ++stats_.compiled;
    stats_.compile_ms += binary.compile_ms;
  }
}

std::optional<Binary> KernelCacheImpl::load(const Request& request) {
  if (!store_) return std::nullopt;
  std::optional<Entry> entry = store_->load(request.build_key);
  // The build key stands for all of these; a difference would be a broken writer, not a wrong file.
  if (!entry || entry->request_key != request.request_key || entry->binary.arch != request.arch ||
      entry->name_expression != request.source.name_expression) {
    return std::nullopt;
  }
  return std::move(entry->binary);
}

Outcome KernelCacheImpl::compile(const Request& request) {
  llvm::Expected<Binary> binary = compiler_->compile(request.source, request.arch,
                                                     llvm::StringRef(request.request_key).take_front(16), {});
  if (!binary) return take_status(binary.takeError());
  note(*binary, BinaryOrigin::Compiled);
  Entry entry{request.request_key, request.build_key, request.source.name_expression, std::move(*binary)};
  if (store_) store_->publish(request.build_key, write_entry(entry));
  return std::make_shared<const Binary>(std::move(entry.binary));
}

Outcome KernelCacheImpl::build(const Request& request) {
  if (std::optional<Binary> binary = load(request)) {
    note(*binary, BinaryOrigin::Disk);
    return std::make_shared<const Binary>(std::move(*binary));
  }
  return compile(request);
}

std::shared_future<Outcome> KernelCacheImpl::claim(const std::string& build_key,
                                                   std::promise<Outcome>& promise, bool& ours) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [slot, added] = slots_.try_emplace(build_key);
  if (added) slot->second = promise.get_future().share();
  ours = added;
  if (!ours) ++stats_.memory_hits;
  return slot->second;
}

void KernelCacheImpl::fulfil(const Request& request, std::promise<Outcome>& promise) {
  bool keep = false;
  try {
    Outcome outcome = build(request);
    const StatusError* const failure = std::get_if<StatusError>(&outcome);
    keep = failure == nullptr || !is_passing(*failure);
    promise.set_value(std::move(outcome));
  } catch (...) {
    promise.set_exception(std::current_exception());
  }
  if (keep) return;
  // Who waits got what we got; the next one tries again.
  const std::lock_guard<std::mutex> lock(mutex_);
  slots_.erase(request.build_key);
}

llvm::Expected<KernelCacheImpl::Request> KernelCacheImpl::request_for(const KernelSource& source,
                                                                      llvm::StringRef arch) {
  MINUET_TRY(check_arch(source, arch));
  if (compiler_ == nullptr) {
    return make_error(
        StatusCode::Unavailable,
        "kernel {0} for {1} must be compiled, and there is no compiler: install CUDA 13, or run 'pip "
        "install nvidia-cuda-nvrtc', or name libnvrtc with MINUET_NVRTC",
        source.display_name, arch);
  }
  std::call_once(identity_once_, [this] {
    compiler_id_ = compiler_->id();
    header_digest_ = compiler_->header_digest();
  });
  Request request{source, arch.str(), request_key(source, header_digest_, compiler_->options(arch), arch),
                  ""};
  request.build_key = build_key(request.request_key, compiler_id_);
  return request;
}

llvm::Expected<BinaryPointer> KernelCacheImpl::replace(const KernelSource& source, llvm::StringRef arch,
                                                       const Binary& refused) {
  MINUET_ASSIGN(const Request request, request_for(source, arch));
  warn_("a kernel of the cache is refused by the driver and compiled again (" + refused.display_name + ")");
  const Outcome outcome = compile(request);
  if (const auto* failure = std::get_if<StatusError>(&outcome))
    return llvm::make_error<StatusError>(*failure);
  std::promise<Outcome> promise;
  promise.set_value(outcome);
  const std::lock_guard<std::mutex> lock(mutex_);
  slots_.insert_or_assign(request.build_key, promise.get_future().share());
  return std::get<BinaryPointer>(outcome);
}

llvm::Expected<BinaryPointer> KernelCacheImpl::get_or_compile(const KernelSource& source,
                                                              llvm::StringRef arch) {
  MINUET_ASSIGN(const Request request, request_for(source, arch));
  std::promise<Outcome> promise;
  bool ours = false;
  const std::shared_future<Outcome> future = claim(request.build_key, promise, ours);
  if (ours) fulfil(request, promise);
  const Outcome& outcome = future.get();
  if (const auto* failure = std::get_if<StatusError>(&outcome))
    return llvm::make_error<StatusError>(*failure);
  return std::get<BinaryPointer>(outcome);
}

}  // namespace

llvm::Expected<std::unique_ptr<KernelCache>> make_kernel_cache(CacheOptions options,
                                                               std::shared_ptr<Compiler> compiler,
                                                               const Environment& environment,
                                                               FileSystem& system) {
  return std::make_unique<KernelCacheImpl>(std::move(options), std::move(compiler), environment, system);
}

llvm::Expected<std::unique_ptr<KernelCache>> KernelCache::create(CacheOptions options,
                                                                 std::shared_ptr<Compiler> compiler) {
  return make_kernel_cache(std::move(options), std::move(compiler), process_environment(),
                           real_file_system());
}

}  // namespace minuet
