// The road from a kernel's source to its binary: memory, disk, compile. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/compiler.h"
#include "codegen/emit.h"
#include "codegen/error.h"

namespace minuet {

/// Where a binary came from, for the one who asked first.
enum class BinaryOrigin { Memory, Disk, Compiled };

struct CacheOptions {
  std::string directory;  // empty: MINUET_CACHE_DIR, XDG_CACHE_HOME/minuet, HOME/.cache/minuet (R10)
  bool use_disk = true;
  std::function<void(const std::string&)> warn;  // called at most once per kind of trouble
};

struct CacheStats {
  int64_t compiled = 0;
  int64_t disk_hits = 0;
  int64_t memory_hits = 0;
  double compile_ms = 0;
};

/// One line of a cache's history: which kernel, from where.
struct CacheEvent {
  std::string display_name;
  std::string arch;
  BinaryOrigin origin;
};

class KernelCache {
 public:
  /// `compiler` may be null where there is none (then a miss is an error that says how to get one).
  static llvm::Expected<std::unique_ptr<KernelCache>> create(CacheOptions options,
                                                             std::shared_ptr<Compiler> compiler);
  virtual ~KernelCache() = default;

  /// The cubin of `source` for `arch` ("sm_90a"). Compiles at most once per key in this process,
  /// outside every lock (R13). An error of the disk is never an error of the call (R11).
  virtual llvm::Expected<std::shared_ptr<const Binary>> get_or_compile(const KernelSource& source,
                                                                       llvm::StringRef arch) = 0;
  /// For a binary that the driver refused to load: compiled anew, and put in its place everywhere (R28).
  virtual llvm::Expected<std::shared_ptr<const Binary>> replace(const KernelSource& source,
                                                                llvm::StringRef arch,
                                                                const Binary& refused) = 0;
  virtual CacheStats stats() const = 0;
  virtual std::vector<CacheEvent> events() const = 0;
  /// The directory in use, or empty when only memory is (the reason was given to `warn`).
  virtual std::string directory() const = 0;
};

}  // namespace minuet
