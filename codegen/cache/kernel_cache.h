// Gets the binary of a kernel from memory, bundles, the disk or the compiler, in this order. All functions
// are thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "codegen/base/cache_directory.h"
#include "codegen/base/error.h"
#include "codegen/base/fork_watch.h"
#include "codegen/base/push_list.h"
#include "codegen/cache/cache_options.h"
#include "codegen/cache/cache_state.h"
#include "codegen/cache/record_file.h"
#include "codegen/cache/store.h"
#include "codegen/compile/compiler.h"
#include "codegen/compile/entry.h"
#include "codegen/source/keys.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

using BinaryList = std::vector<std::shared_ptr<const Binary>>;

class KernelCache {
 public:
  using BinaryPointer = std::shared_ptr<const Binary>;

  /// Creates a cache. If `compiler` is null, a kernel that is not found causes an error that says how to
  /// install a compiler. Only tests pass an `environment` and a `system`.
  static llvm::Expected<std::unique_ptr<KernelCache>> create(
      CacheOptions options, std::shared_ptr<Compiler> compiler,
      const Environment& environment = process_environment(), FileSystem& system = real_file_system());

  /// Removes the least recently used kernels from the cache folder if this process has added kernels and the
  /// folder exceeds its limits.
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  /// Returns the binaries of `requests` in their order. Uses several threads, and none if all binaries are in
  /// memory. Stops at the first failure, unless the cache records requests for missing kernels
  /// (CacheOptions::record). In that case it tries all requests, so that the record is complete.
  llvm::Expected<BinaryList> get_or_compile_all(const std::vector<KernelRequest>& requests,
                                                const CancelToken* cancel = nullptr);
  /// Returns the binary of one kernel. A binary from a bundle may be for another architecture that runs on
  /// the requested one, or PTX. Compiles at most once per key in this process, and holds no lock of the
  /// cache's state meanwhile. Errors of the disk do not make the call fail. Returns Cancelled if the token in
  /// `control` is cancelled.
  llvm::Expected<BinaryPointer> get_or_compile(const KernelRequest& request,
                                               const CompileControl& control = {});
  /// Returns the binary for exactly the requested architecture, which may be PTX, from the present compiler.
  /// Ignores bundles and memory, so the binary comes from the disk or is compiled. Sets `origin` accordingly,
  /// or to Memory if another thread was already building the binary.
  llvm::Expected<BinaryPointer> get_exactly(const KernelRequest& request, const CompileControl& control,
                                            BinaryOrigin& origin);
  /// Compiles a kernel again after the driver refused to load its stored binary `refused`, and replaces that
  /// binary in memory and on disk. Bundles do not return it again in this process.
  llvm::Expected<BinaryPointer> replace(const KernelRequest& request, const Binary& refused);
  /// Calls replace() for the request with the name of the refused binary. Returns Internal if there is no
  /// such request.
  llvm::Expected<BinaryPointer> replace(llvm::ArrayRef<KernelRequest> requests, const Binary& refused);

  /// Adds a bundle that is searched before all others. Returns an error if the bundle cannot be used.
  llvm::Error add_bundle(const BundlePlace& place) { return bundles_->add(place); }
  /// Does the same for bundles in memory, whose bytes are copied, and of which equal ones are kept once
  /// (BundleSet::add_memory).
  llvm::Error add_bundle_memory(llvm::ArrayRef<BundleBytes> bundles) { return bundles_->add_memory(bundles); }

  /// Counts a binary in stats() and events() that the caller found without this cache.
  void count(const Binary& binary, BinaryOrigin origin) { state_.count(binary, origin); }

  /// Returns facts about the compiler, or the reason why there is none. The first call may start a process.
  llvm::Expected<NvrtcInfo> compiler_info(const CompileControl& control = {});
  /// Returns the compiler id for callers that do not need a compiler. Returns an empty string if there is no
  /// compiler, or if compiling is forbidden, because then no process may be started to identify the compiler.
  /// Other failures are errors.
  llvm::Expected<std::string> compiler_id_or_none(const CompileControl& control = {});
  /// Calls the warning callback of the options, once per kind of warning.
  void warn(const std::string& text);

  CacheStats stats() const { return state_.stats(); }
  std::vector<CacheEvent> events() const { return state_.events(); }
  /// Returns the directory in use, or an empty string if kernels are kept in memory only. If the directory
  /// could not be used, warn() was called with the reason.
  std::string directory() const { return store_ ? store_->directory() : ""; }
  FileSystem& file_system() const { return system_; }
  BundleSet::BundleList bundles() const { return bundles_->bundles(); }
  /// Returns the policy by which the cache trusts files.
  TrustPolicy policy() const { return policy_; }
  /// Returns the trace that receives the durations of the cache's steps, or null.
  Trace* trace() const { return options_.trace.get(); }

 private:
  KernelCache(CacheOptions options, std::shared_ptr<Compiler> compiler, const Environment& environment,
              FileSystem& system);

  /// Holds a request together with the id of the compiler that must have compiled the kernel, and with the
  /// build key that follows from both.
  struct Order {
    Order(const KernelRequest& kernel, const CompileControl& how, std::string compiler)
        : request(kernel),
          control(how),
          compiler_id(std::move(compiler)),
          build_key(minuet::build_key(request.key, compiler_id)) {}
    const KernelRequest& request;
    const CompileControl& control;
    std::string compiler_id, build_key;
  };
  /// Says which results of finished builds stay in memory. Keep::All means binaries and those errors that
  /// would occur again.
  enum class Keep { All, Binaries, Nothing };
  using Work = llvm::function_ref<Outcome()>;

  // The following functions are in the order in which get_or_compile() calls them.
  Outcome share(const KernelRequest& request, const CancelToken* cancel, const std::string& key,
                const Binary* refused, Keep keep, Work work);
  void land(const std::string& key, std::promise<Outcome>& promise, Keep keep, Work work);
  void wait_for(const PendingBuild& flight, const CancelToken* cancel);
  Outcome find_or_build(const KernelRequest& request, const CompileControl& control);
  std::optional<Entry> find_in_bundles(const KernelRequest& request, std::string& nowhere);
  Outcome find_without_jit(const KernelRequest& request, const std::string& nowhere);
  Outcome build_once(const Order& order, BinaryOrigin& origin);
  std::optional<Entry> find_on_disk(const Order& order);
  Outcome build(const Order& order, bool keep, FileLock* lock);
  Outcome found(Binary binary, BinaryOrigin origin);

  static StatusError no_jit_error(const KernelRequest& request, const std::string& where);
  /// Records in the store that the store has kernels of this compiler, unless this cache has already done so.
  void note(const std::string& compiler_id);
  void open_store(const Environment& environment);

  const CacheOptions options_;
  const std::shared_ptr<Compiler> compiler_;
  FileSystem& system_;
  TrustPolicy policy_;
  CacheState state_;
  std::optional<BundleSet> bundles_;  ///< Is empty only while the constructor runs.
  std::optional<Store> store_;
  /// Holds the compiler ids that are already recorded in the store.
  PushList<std::string> noted_compilers_;
  std::optional<RecordFile> record_;
  /// Is true once the compiler is known. Later queries take no time, so they are not traced.
  std::atomic<bool> is_identified_{false};
};

}  // namespace minuet
