// Compiles kernels for GPUs of other machines and writes them to bundles, one per architecture. It needs no
// GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ahead/tuning_ahead.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/compile/protocol.h"

namespace minuet {

/// Describes the result for one kernel.
struct PrecompileStep {
  /// Of `total` kernels, `done` are finished, including this one.
  std::size_t done = 0, total = 0;
  const KernelRequest& request;
  const Binary* binary = nullptr;  ///< Is null if the kernel failed.
  BinaryOrigin origin = BinaryOrigin::Compiled;
  const StatusError* failure = nullptr;  ///< Is null if the kernel succeeded.
};

struct PrecompileOptions {
  /// Names the folder for the bundles, which is created if it is missing. If it is empty, no bundles are
  /// written.
  std::string output;
  ArchTuning tuning;  ///< Holds the tuning results that are written to the bundles.
  /// Sets the number of helper processes, which compile kernels in parallel. If it is 0, there are as many as
  /// the cores and the memory allow.
  int jobs = 0;
  const CancelToken* cancel = nullptr;
  /// Is called with the result for each kernel, by one thread at a time.
  std::function<void(const PrecompileStep&)> step;
};

struct BundleReport {
  std::string arch, path, sha256;
  std::int64_t bytes = 0, kernels = 0;
};

struct PrecompileResult {
  std::int64_t kernels = 0, compiled = 0, found = 0, failed = 0;
  std::int64_t bytes = 0;  ///< Gives the total size of the cubins.
  double seconds = 0;
  /// Describes the written bundles in ascending order of their architectures.
  std::vector<BundleReport> bundles;
  std::optional<StatusError> first_failure;  ///< Holds the first failure of a kernel or a bundle.
  bool cancelled = false;  ///< Is true if kernels are missing because the call was cancelled.
};

/// Returns `<output>/minuet-<arch>.bundle`.
std::string bundle_path(const std::string& output, llvm::StringRef arch);

/// Searches for each kernel in the existing bundle and in the cache folder. Compiles missing kernels in
/// helper processes and adds them to the cache folder. Then writes the bundles, which contain all available
/// kernels, even after failures or a cancellation. Returns an error only for problems found before any kernel
/// is compiled. The result contains later failures.
llvm::Expected<PrecompileResult> precompile(KernelCache& cache, const std::vector<KernelRequest>& requests,
                                            const PrecompileOptions& options);

}  // namespace minuet
