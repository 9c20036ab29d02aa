// `minuet precompile`: a network's kernels into the cache folder, with no GPU.
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/convert.h"
#include "tools/minuet/error.h"
#include "tools/minuet/report.h"

namespace minuet::tool {

llvm::Error precompile_command(const Arguments& arguments) {
  MINUET_ASSIGN(const minuet_dtype dtype, dtype_for(arguments.dtype, /*is_cpu=*/false));
  if (arguments.arch.empty()) return bad_input("--arch is empty: name an architecture such as sm_90a");
  MINUET_ASSIGN(const ContextHandle context, open_context(arguments.cache));
  const std::string folder = cache_folder(context.get());
  if (folder.empty()) {
    return bad_input(
        "there is no cache folder that could keep the kernels (the warning above says why): "
        "name one with --cache");
  }
  minuet_network_info info;
  MINUET_ASSIGN(const NetworkHandle network, open_network(context.get(), arguments.network, dtype, info));
  std::vector<KernelFacts> kernels;
  MINUET_TRY(compile_network(network.get(), arguments.arch, kernels));
  int64_t bytes = 0;
  for (const KernelFacts& kernel : kernels) bytes += kernel.cubin_bytes;
  minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
  MINUET_TRY(check(minuet_context_kernel_counters(context.get(), &counters)));
  llvm::outs() << llvm::formatv("{0}, {1}, {2}\n", info.name, dtype_name(dtype), arguments.arch);
  print_kernels(kernels, llvm::outs());
  llvm::outs() << llvm::formatv(
      "\n{0} kernels, {1} bytes: {2} compiled in {3:f0} ms (summed over threads), {4} found "
      "on disk\n",
      kernels.size(), bytes, counters.compiled, counters.compile_ms, counters.disk_hits);
  llvm::outs() << "cache folder: " << folder << "\n";
  return llvm::Error::success();
}

}  // namespace minuet::tool
