// Compiles kernels for GPUs of other machines into bundles, one per architecture. Needs no GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ahead/tuning_ahead.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/compile/protocol.h"

namespace minuet {

/// The result for one kernel.
struct PrecompileStep {
  std::size_t done = 0, total = 0;  ///< numbers of kernels; done includes this one
  const KernelRequest& request;
  const Binary* binary = nullptr;  ///< null if it failed
  BinaryOrigin origin = BinaryOrigin::Compiled;
  const StatusError* failure = nullptr;  ///< null if it succeeded
};

struct PrecompileOptions {
  std::string output;  ///< folder for the bundles, created if missing; empty: write no bundles
  ArchTuning tuning;   ///< tuning results for the bundles
  int jobs = 0;        ///< number of helper processes; 0: as many as cores and memory allow
  const CancelToken* cancel = nullptr;
  std::function<void(const PrecompileStep&)> step;  ///< called after each kernel, by one thread at a time
};

struct BundleReport {
  std::string arch, path, sha256;
  std::int64_t bytes = 0, kernels = 0;
};

struct PrecompileResult {
  std::int64_t kernels = 0, compiled = 0, found = 0, failed = 0;
  std::int64_t bytes = 0;  ///< total size of the cubins
  double seconds = 0;
  std::vector<BundleReport> bundles;         ///< in ascending order of architectures
  std::optional<StatusError> first_failure;  ///< of a kernel or a bundle
  bool cancelled = false;                    ///< true if kernels are missing because of a cancel
};

/// Returns `<output>/minuet-<arch>.bundle`.
std::string bundle_path(const std::string& output, llvm::StringRef arch);

/// Searches each kernel in the existing bundle and in the cache folder, compiles missing kernels in helper
/// processes, which also adds them to the cache folder, and writes the bundles. The bundles contain all
/// available kernels, even after failures or a cancel. Returns an error only for problems found before any
/// kernel is compiled; later failures are in the result.
llvm::Expected<PrecompileResult> precompile(KernelCache& cache, const std::vector<KernelRequest>& requests,
                                            const PrecompileOptions& options);

}  // namespace minuet
