// The road from a kernel's source to its binary: memory, bundles, disk, compile (R21). Thread-safe.
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
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

using BinaryList = std::vector<std::shared_ptr<const Binary>>;

class KernelCache {
 public:
  using BinaryPointer = std::shared_ptr<const Binary>;

  /// `compiler` may be null where there is none (then a miss is an error that says how to get one). The rest
  /// is another's in tests only.
  static llvm::Expected<std::unique_ptr<KernelCache>> create(
      CacheOptions options, std::shared_ptr<Compiler> compiler,
      const Environment& environment = process_environment(), FileSystem& system = real_file_system());

  /// Keeps the limits of the folder where this process has published to it.
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  /// The binaries of `requests`, in their order, by many threads at once; where memory has all, by none. The
  /// first failure ends it, but for a cache that records what is missing.
  llvm::Expected<BinaryList> get_or_compile_all(const std::vector<KernelRequest>& requests,
                                                const CancelToken* cancel = nullptr);
  /// One from a bundle may be for another architecture that runs there, or PTX (R23). Compiles at most once
  /// per key in this process, outside every lock (R13). An error of the disk is never an error of the call
  /// (R11). Cancelled where `control` says so.
  llvm::Expected<BinaryPointer> get_or_compile(const KernelRequest& request,
                                               const CompileControl& control = {});
  /// The same for exactly its architecture, PTX too, and the compiler that is here, whatever bundles and
  /// memory have: from the disk, or compiled. `origin`: which; Memory where another thread had begun.
  llvm::Expected<BinaryPointer> get_exactly(const KernelRequest& request, const CompileControl& control,
                                            BinaryOrigin& origin);
  /// For a binary that the driver refused to load: compiled anew, and put in its place everywhere (R28).
  llvm::Expected<BinaryPointer> replace(const KernelRequest& request, const Binary& refused);
  /// The same for the one of `requests` that has the refused binary's name; Internal where none has.
  llvm::Expected<BinaryPointer> replace(llvm::ArrayRef<KernelRequest> requests, const Binary& refused);

  /// Looked in before all other bundles from now on (R24). An error where it cannot be used.
  llvm::Error add_bundle(const BundlePlace& place) { return bundles_->add(place); }

  /// What was found without the above (R32).
  void count(const Binary& binary, BinaryOrigin origin) { state_.count(binary, origin); }

  /// The compiler (R2), or why there is none. The first call may start a process.
  llvm::Expected<NvrtcInfo> compiler_info(const CompileControl& control = {});
  /// For those that can do without one: empty where there is none, and without JIT, for then no process is
  /// started to ask. What may pass is an error, not an answer.
  llvm::Expected<std::string> compiler_id_or_none(const CompileControl& control = {});
  /// Tells the one who made the cache, once per kind of trouble.
  void warn(const std::string& text);

  CacheStats stats() const { return state_.stats(); }
  std::vector<CacheEvent> events() const { return state_.events(); }
  /// The directory in use, or empty when only memory is (the reason was given to `warn`).
  std::string directory() const { return store_ ? store_->directory() : ""; }
  FileSystem& file_system() const { return system_; }
  BundleSet::BundleList bundles() const { return bundles_->bundles(); }
  /// Whom the cache trusts with files (R10).
  TrustPolicy policy() const { return policy_; }
  /// Where spans go, or null.
  Trace* trace() const { return options_.trace.get(); }

 private:
  KernelCache(CacheOptions options, std::shared_ptr<Compiler> compiler, const Environment& environment,
              FileSystem& system);

  /// A kernel of one compiler.
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
  /// What of a flight stays in memory.
  enum class Keep { All, Binaries, Nothing };
  using Work = llvm::function_ref<Outcome()>;

  // In the order of the road.
  Outcome share(const KernelRequest& request, const CancelToken* cancel, const std::string& key,
                const Binary* refused, Keep keep, Work work);
  void land(const std::string& key, std::promise<Outcome>& promise, Keep keep, Work work);
  void wait_for(const Flight& flight, const CancelToken* cancel);
  Outcome find_or_build(const KernelRequest& request, const CompileControl& control);
  std::optional<Entry> find_in_bundles(const KernelRequest& request, std::string& nowhere);
  Outcome find_without_jit(const KernelRequest& request, const std::string& nowhere);
  Outcome build_once(const Order& order, BinaryOrigin& origin);
  std::optional<Entry> find_on_disk(const Order& order);
  Outcome build(const Order& order, bool keep, FileLock* lock);
  Outcome found(Binary binary, BinaryOrigin origin);

  static StatusError no_jit_error(const KernelRequest& request, const std::string& where);
  /// That entries of this compiler are in the store, once.
  void note(const std::string& compiler_id);
  void open_store(const Environment& environment);

  const CacheOptions options_;
  const std::shared_ptr<Compiler> compiler_;
  FileSystem& system_;
  TrustPolicy policy_;
  CacheState state_;
  std::optional<BundleSet> bundles_;  // always there once the constructor is done
  std::optional<Store> store_;
  PushList<std::string> noted_compilers_;  // in the store
  std::optional<RecordFile> record_;
  std::atomic<bool> is_identified_{false};  // the compiler: what it is asked again takes no time
};

}  // namespace minuet
