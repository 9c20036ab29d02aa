// Kernels for GPUs that are elsewhere: requests in, one bundle an architecture out (R19, R20). No GPU.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/ahead/tuning_ahead.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/compile/protocol.h"

namespace minuet {

/// What has become of one kernel.
struct PrecompileStep {
  std::size_t done = 0, total = 0;  // this kernel counted
  const KernelRequest& request;
  const Binary* binary = nullptr;  // null where it failed
  BinaryOrigin origin = BinaryOrigin::Compiled;
  const StatusError* failure = nullptr;
};

struct PrecompileOptions {
  std::string output;  // folder of the bundles; made where it is not there
  ArchTuning tuning;   // that goes into the bundles, beside the kernels
  int jobs = 0;        // helper programs; 0: as many as there are cores, and memory for
  const CancelToken* cancel = nullptr;
  std::function<void(const PrecompileStep&)> step;  // never from two threads at once
};

struct BundleReport {
  std::string arch, path, sha256;
  std::int64_t bytes = 0, kernels = 0;
};

struct PrecompileResult {
  std::int64_t kernels = 0, compiled = 0, found = 0, failed = 0;
  std::int64_t bytes = 0;  // of the cubins
  double seconds = 0;
  std::vector<BundleReport> bundles;         // by arch, ascending
  std::optional<StatusError> first_failure;  // of a kernel or of a bundle
  bool cancelled = false;
};

/// `<output>/minuet-<arch>.bundle`
std::string bundle_path(const std::string& output, llvm::StringRef arch);

/// Looks each kernel up in the bundle that is there and in the cache's folder, compiles the others in
/// helper programs, keeps those in the folder too, and writes the bundles: with all kernels that are
/// there, also after failures or a cancel. An error is one of the whole, before any work; what fails later is
/// in the result.
llvm::Expected<PrecompileResult> precompile(KernelCache& cache, const std::vector<KernelRequest>& requests,
                                            const PrecompileOptions& options);

}  // namespace minuet
