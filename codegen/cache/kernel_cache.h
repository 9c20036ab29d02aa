// The road from a kernel's source to its binary: memory, bundles, disk, compile (R21). Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/cache_options.h"
#include "codegen/cache/cache_state.h"
#include "codegen/cache/entry.h"
#include "codegen/cache/record_file.h"
#include "codegen/cache/store.h"
#include "codegen/compiler.h"
#include "codegen/emit.h"
#include "codegen/error.h"
#include "codegen/push_list.h"
#include "codegen/tuning/tuning_store.h"
#include "codegen/worker/request.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

class TuningSnapshot;

class KernelCache {
 public:
  using BinaryPointer = std::shared_ptr<const Binary>;

  /// `compiler` may be null where there is none (then a miss is an error that says how to get one). The rest
  /// is another's in tests only.
  static llvm::Expected<std::unique_ptr<KernelCache>> create(
      CacheOptions options, std::shared_ptr<Compiler> compiler,
      const Environment& environment = process_environment(), FileSystem& system = real_file_system());

  /// The cubin of `source` for `arch` ("sm_90a"); one from a bundle may be for another architecture
  /// that runs there, or PTX (R23). Compiles at most once per key in this process, outside every lock (R13).
  /// An error of the disk is never an error of the call (R11). Cancelled where `cancel` says so.
  llvm::Expected<BinaryPointer> get_or_compile(const KernelSource& source, llvm::StringRef arch,
                                               const CancelToken* cancel = nullptr);
  /// For a binary that the driver refused to load: compiled anew, and put in its place everywhere (R28).
  llvm::Expected<BinaryPointer> replace(const KernelSource& source, llvm::StringRef arch,
                                        const Binary& refused);

  /// Looked in before all other bundles from now on (R24). An error where it cannot be used.
  llvm::Error add_bundle(const BundlePlace& place) { return bundles_->add(place); }

  /// What was measured in `environment`, with the compiler's toolkit in its place: the results in the cache's
  /// directory, then those of bundles (R35).
  llvm::Expected<std::shared_ptr<const TuningSnapshot>> load_tuning(TuningEnvironment environment);

  /// What memory has, or null: waits for nothing.
  BinaryPointer find_in_memory(const KernelSource& source, llvm::StringRef arch) {
    return state_.find_landed(key_of(source, arch));
  }

  /// The disk alone, for exactly `arch`: what a build farm looks up before it hands out work.
  std::optional<Entry> find_on_disk(const KernelSource& source, llvm::StringRef arch);
  using Compile = llvm::function_ref<llvm::Expected<PackedEntry>()>;
  /// Of all processes that want this kernel of this compiler now, one calls `compile`, and the others take
  /// what it has put on disk (R14). `origin`: Disk or Compiled. Counts failures, and no success.
  llvm::Expected<Entry> compile_alone(const KernelSource& source, llvm::StringRef arch,
                                      const std::string& compiler_id, Compile compile, BinaryOrigin& origin,
                                      const CancelToken* cancel);
  /// What a build farm found or compiled, or compiled in vain and without the above: counted like this
  /// cache's own (R32).
  void count(const Binary& binary, BinaryOrigin origin) { state_.count(binary, origin); }
  void count_failure() { state_.count_failure(); }

  /// The compiler (R2), or why there is none. The first call may start a process.
  llvm::Expected<NvrtcInfo> identify_compiler(const CancelToken* cancel = nullptr);
  /// Tells the one who made the cache, once per kind of trouble.
  void warn(const std::string& text);

  CacheStats stats() const { return state_.stats(); }
  std::vector<CacheEvent> events() const { return state_.events(); }
  /// The directory in use, or empty when only memory is (the reason was given to `warn`).
  std::string directory() const { return store_ ? store_->directory() : ""; }
  FileSystem& file_system() const { return system_; }
  /// Whom the cache trusts with files (R10).
  TrustPolicy policy() const { return policy_; }
  /// Whether misses are written down (R22).
  bool is_recording() const { return record_.has_value(); }
  /// Where spans go, or null.
  Trace* trace() const { return options_.trace.get(); }

 private:
  KernelCache(CacheOptions options, std::shared_ptr<Compiler> compiler, const Environment& environment,
              FileSystem& system);

  struct Request {
    const KernelSource& source;
    std::string arch;
    std::string request_key;
    const CancelToken* cancel;
  };

  void open_store(const Environment& environment);
  Request request_for(const KernelSource& source, llvm::StringRef arch, const CancelToken* cancel) const {
    return {source, arch.str(), key_of(source, arch), cancel};
  }

  llvm::Expected<std::string> compiler_id_or_none(const CancelToken* cancel);
  llvm::Expected<std::vector<std::string>> compilers_to_compare_with(const CancelToken* cancel);

  void wait_for(const Flight& flight, const CancelToken* cancel);
  void land(const Request& request, std::promise<Outcome>& promise, bool keep_failures,
            llvm::function_ref<Outcome()> work);
  Outcome build(const Request& request);
  Outcome build_anew(const Request& request, const Binary& refused);
  std::optional<Entry> load(const Request& request, const std::string& compiler_id);
  /// That entries of this compiler are in the store, once.
  void note(const std::string& compiler_id);
  Outcome build_alone(const Request& request, const std::string& compiler_id);
  llvm::Expected<Entry> compile_alone(const Request& request, const std::string& compiler_id, Compile compile,
                                      BinaryOrigin& origin);
  llvm::Expected<PackedEntry> compile(const Request& request, const std::string& compiler_id);
  llvm::Expected<Entry> keep(llvm::Expected<PackedEntry> compiled, FileLock* lock);
  Outcome find_without_jit(const Request& request, const std::string& nowhere);
  static StatusError no_jit_error(const Request& request, const std::string& where);
  Outcome found(Binary binary, BinaryOrigin origin);

  const CacheOptions options_;
  const std::shared_ptr<Compiler> compiler_;
  FileSystem& system_;
  TrustPolicy policy_;
  CacheState state_;
  std::optional<BundleSet> bundles_;  // always there once the constructor is done
  std::optional<Store> store_;
  PushList<std::string> noted_compilers_;  // in the store
  std::optional<TuningStore> tuned_;       // in the same directory
  std::optional<RecordFile> record_;
  std::atomic<bool> is_identified_{false};  // the compiler: what it is asked again takes no time
};

}  // namespace minuet
