// `minuet info` lists the devices and libraries of this machine, and says how to get those that are missing.
#include "codegen/base/number_text.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/commands/commands.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {
namespace {

void print_line(const char* what, llvm::StringRef value) {
  llvm::outs() << llvm::formatv("{0,-14}{1}\n", what, value.empty() ? "not found" : value);
}

void print_device(minuet_context* context, const std::string& name) {
  DeviceFacts facts;
  llvm::Expected<DeviceHandle> device = open_device(context, {name, 0}, facts);
  if (!device) {
    llvm::outs() << llvm::formatv("{0,-14}{1}: {2}\n", "device", name, llvm::toString(device.takeError()));
    return;
  }
  llvm::outs() << llvm::formatv("{0,-14}{1}: {2}", "device", facts.name, facts.description);
  if (!facts.is_cpu()) llvm::outs() << ", " << facts.arch;
  if (facts.memory_bytes > 0) {
    llvm::outs() << llvm::formatv(", {0:f1} GiB", real(static_cast<double>(facts.memory_bytes) / 0x1p30));
  }
  llvm::outs() << "\n";
}

}  // namespace

llvm::Error info_command(const Arguments& arguments) {
  MINUET_ASSIGN(const minuet_system_info system, query_system());
  MINUET_ASSIGN(const ContextHandle context,
                open_context({arguments.cache, /*trace=*/false, /*must_jit=*/false, /*read_only=*/true}));
  print_line("minuet", version_text());
  for (int32_t i = 0; i < system.cuda_devices; ++i) print_device(context.get(), "cuda:" + std::to_string(i));
  print_device(context.get(), "cpu");
  print_line("driver", system.driver);
  const std::string nvrtc = system.nvrtc;
  print_line("NVRTC", nvrtc.empty() ? nvrtc : nvrtc + "  " + system.nvrtc_path);
  print_line("cuBLASLt", system.cublaslt_path);
  print_line("LLVM", system.llvm);
  const std::string cache = cache_folder(context.get());
  print_line("cache folder", cache.empty() ? "none (kernels are kept in memory only)" : cache);
  llvm::SmallVector<llvm::StringRef, 8> missing;
  llvm::StringRef(system.missing).split(missing, '\n', -1, false);
  for (const llvm::StringRef line : missing) print_line("missing", line);
  return llvm::Error::success();
}

}  // namespace minuet::tool
