// The road from a kernel's source to its binary: memory, bundles, disk, compile (R21). Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cache/cache_directory.h"
#include "codegen/cache/cache_options.h"
#include "codegen/cache/entry.h"
#include "codegen/compiler.h"
#include "codegen/emit.h"
#include "codegen/error.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

struct TuningEnvironment;
class TuningSnapshot;

/// Where a binary came from, for the one who asked first.
enum class BinaryOrigin { Memory, Bundle, Disk, Compiled };
const char* origin_name(BinaryOrigin origin);  // "memory", "bundle", "disk", "compiled"

/// What one cache did in this process; a forked child counts from 0 (R32).
struct CacheStats {
  std::int64_t memory_hits = 0, bundle_hits = 0, disk_hits = 0, compiled = 0;
  std::int64_t failures = 0;           // compiles that gave an error, cancelled ones included
  std::int64_t waits = 0;              // for another thread's or another process's work on the same kernel
  std::int64_t lock_timeouts = 0;      // waits for another process that ended with a compile of our own
  std::int64_t cubin_bytes = 0;        // from bundles, disk and compiles
  double compile_ms = 0, wait_ms = 0;  // summed over threads
};

/// One line of a cache's history: which kernel, from where.
struct CacheEvent {
  std::string display_name;
  std::string arch;
  BinaryOrigin origin;
};

class KernelCache {
 public:
  using BinaryPointer = std::shared_ptr<const Binary>;

  /// `compiler` may be null where there is none (then a miss is an error that says how to get one).
  static llvm::Expected<std::unique_ptr<KernelCache>> create(CacheOptions options,
                                                             std::shared_ptr<Compiler> compiler);
  virtual ~KernelCache() = default;

  /// The cubin of `source` for `arch` ("sm_90a"); one from a bundle may be for another architecture
  /// that runs there, or PTX (R23). Compiles at most once per key in this process, outside every lock (R13).
  /// An error of the disk is never an error of the call (R11). Cancelled where `cancel` says so.
  virtual llvm::Expected<BinaryPointer> get_or_compile(const KernelSource& source, llvm::StringRef arch,
                                                       const CancelToken* cancel = nullptr) = 0;
  /// For a binary that the driver refused to load: compiled anew, and put in its place everywhere (R28).
  virtual llvm::Expected<BinaryPointer> replace(const KernelSource& source, llvm::StringRef arch,
                                                const Binary& refused) = 0;

  /// Looked in before all other bundles from now on (R24). An error where it cannot be used.
  virtual llvm::Error add_bundle(const BundlePlace& place) = 0;

  /// What was measured in `environment`, with the compiler's toolkit in its place: the results in the cache's
  /// directory, then those of bundles (R35).
  virtual llvm::Expected<std::shared_ptr<const TuningSnapshot>> load_tuning(
      TuningEnvironment environment) = 0;

  /// What memory has, or null: waits for nothing.
  virtual BinaryPointer find_in_memory(const KernelSource& source, llvm::StringRef arch) = 0;

  /// The disk alone, for exactly `arch`: what a build farm looks up before it hands out work.
  virtual std::optional<Entry> find_on_disk(const KernelSource& source, llvm::StringRef arch) = 0;
  using Compile = llvm::function_ref<llvm::Expected<PackedEntry>()>;
  /// Of all processes that want this kernel of this compiler now, one calls `compile`, and the others take
  /// what it has put on disk (R14). `origin`: Disk or Compiled. Counts failures, and no success.
  virtual llvm::Expected<Entry> compile_alone(const KernelSource& source, llvm::StringRef arch,
                                              const std::string& compiler_id, Compile compile,
                                              BinaryOrigin& origin, const CancelToken* cancel) = 0;
  /// What a build farm found or compiled: counted like this cache's own (R32).
  virtual void count(const Binary& binary, BinaryOrigin origin) = 0;

  /// The compiler (R2), or why there is none. The first call may start a process.
  virtual llvm::Expected<NvrtcInfo> identify_compiler(const CancelToken* cancel = nullptr) = 0;
  /// Tells the one who made the cache, once per kind of trouble.
  virtual void warn(const std::string& text) = 0;

  virtual CacheStats stats() const = 0;
  virtual std::vector<CacheEvent> events() const = 0;
  /// The directory in use, or empty when only memory is (the reason was given to `warn`).
  virtual std::string directory() const = 0;
  virtual FileSystem& file_system() const = 0;
  /// Whom the cache trusts with files (R10).
  virtual TrustPolicy policy() const = 0;
  /// Whether misses are written down (R22).
  virtual bool is_recording() const = 0;
  /// Where spans go, or null.
  virtual Trace* trace() const = 0;
};

}  // namespace minuet
